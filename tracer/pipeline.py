"""The whole run, top to bottom: checkpoint, prompt, kernel, engine, reference, checks.

The only module that knows the order. Must not know: command lines, rendering.
"""

from collections.abc import Sequence
from pathlib import Path

import platformdirs

from tracer.checkpoint.checkpoint import Checkpoint
from tracer.checkpoint.open import open_checkpoint
from tracer.engines.transformers.engine import Progress, Wanted, trace_layer
from tracer.errors import InputError
from tracer.kernels.choose import choose
from tracer.records import Choice, Request, Token
from tracer.result import Trace, look_at
from tracer.texts import Message, message

MODEL = "qwen3"
ENGINES = ("transformers",)
_DTYPES = {"float64": "F64", "float32": "F32", "bfloat16": "BF16", "float16": "F16"}
_LONG = {short: long for long, short in _DTYPES.items()}


def trace(
    checkpoint: str | None = None,
    *,
    revision: str | None = None,
    layer: int = 0,
    head: int = 0,
    query: int | None = None,
    prompt: str | None = None,
    tokens: Sequence[int] | None = None,
    chat: bool = False,
    engine: str = "transformers",
    kernel: str = "auto",
    device: str = "auto",
    dtype: str = "auto",
    all_heads: bool = False,
    progress: Progress | None = None,
) -> Trace:
    """Return the trace of one attention head of one layer, run on the model's own code and checked.

    ``checkpoint``: a folder, a hub id, or None for the shipped qwen3-tiny. The prompt is text, or token ids, or by
    default the checkpoint's own. ``all_heads`` keeps what the checks need for every head, so that a saved trace opens
    at any of them. Raises InputError for what cannot be done as asked, Unsupported for what cannot be done here.
    """
    if engine not in ENGINES:
        raise InputError("pipeline.engine", engine=engine, known=", ".join(ENGINES))
    opened = open_checkpoint(checkpoint, revision=revision)
    facts = opened.model_facts(layer)
    opened.check_head(head)
    read = _prompt(opened, prompt, tokens, chat)
    if query is not None and not 0 <= query < len(read):
        raise InputError("pipeline.query_range", query=query, last=len(read) - 1)
    run_dtype = _dtype(opened, dtype)
    chosen = choose(kernel, device=device, dtype=_LONG[run_dtype.value], head_dim=facts.head_dim)
    request = Request(
        layer=layer,
        head=head,
        query=query,
        token_ids=tuple(token.id for token in read),
        engine=Choice(engine, message("pipeline.engine_default")),
        kernel=Choice(chosen.kind, chosen.reason),
        device=Choice(chosen.device, chosen.reason),
        dtype=run_dtype,
    )
    heads = tuple(range(facts.heads)) if all_heads else (head,)
    wanted = Wanted(request, chosen, heads, Path(platformdirs.user_cache_dir("tracer")), progress)
    return look_at(trace_layer(opened, read, wanted), head)


def _prompt(opened: Checkpoint, prompt: str | None, tokens: Sequence[int] | None, chat: bool) -> tuple[Token, ...]:
    if prompt is not None and tokens is not None:
        raise InputError("pipeline.two_prompts")
    if tokens is not None:
        ids = tuple(tokens)
        opened.check_token_ids(ids)
        return opened.tokens(ids)
    tokenizer = opened.tokenizer()
    text = opened.default_prompt() if prompt is None else prompt
    ids = tokenizer.encode(tokenizer.chat(text) if chat else text)
    opened.check_token_ids(ids)
    return tokenizer.tokens(ids)


def _dtype(opened: Checkpoint, asked: str) -> Choice:
    if asked == "auto":
        return Choice(opened.dtype, message("pipeline.dtype_stored"))
    if asked not in _DTYPES:
        raise InputError("pipeline.dtype", dtype=asked, known=", ".join(("auto", *_DTYPES)))
    reason: Message = message("pipeline.dtype_asked", dtype=asked)
    return Choice(_DTYPES[asked], reason)
