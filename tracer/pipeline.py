"""The whole run, top to bottom: checkpoint, prompt, kernel, engine, reference, checks.

The only module that knows the order. Must not know: command lines, rendering.
"""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import platformdirs

from tracer import memory
from tracer.bounds import check_query
from tracer.checkpoint.checkpoint import Checkpoint
from tracer.checkpoint.open import open_checkpoint
from tracer.checks import finite
from tracer.engines.ambient import autocast_dtype
from tracer.engines.nanovllm.phase import PREFILL, Phase
from tracer.engines.transformers.engine import Progress, Wanted, alone
from tracer.engines.transformers.placement import Placement
from tracer.engines.versions.names import version_of
from tracer.errors import InputError
from tracer.kernels.choose import choose
from tracer.names import LONG_DTYPES, SHORT_DTYPES
from tracer.records import Choice, LayerTrace, Request, Token
from tracer.result import Trace, look_at
from tracer.texts import Message, message

Cost = Callable[[int, int | None], None]
# Told of what is fetched for another version: what, bytes so far, bytes in all.
Report = Callable[[str, int, int | None], None]
NANO = "nano-vllm"
# Engine → the module whose ``trace_layers`` runs it, imported when it is asked for; the first is the default.
ENGINES: Mapping[str, str] = {
    "transformers": "tracer.engines.transformers.engine",
    NANO: "tracer.engines.nanovllm.engine",
}
STREAMED = Placement()


def trace(
    checkpoint: str | None = None, *, layer: int = 0, head: int = 0, all_heads: bool = False, **asked: Any
) -> Trace:
    """Return the trace of one attention head of one layer, run on the model's own code and checked.

    ``all_heads`` keeps what the checks need for every head, so that a saved trace opens at any of them. ``asked`` and
    what is raised: see trace_layers.
    """
    heads = None if all_heads else (head,)
    return look_at(trace_layers(checkpoint, layers=(layer,), head=head, heads=heads, **asked)[0], head)


def trace_layers(
    checkpoint: str | None = None,
    *,
    layers: Sequence[int],
    head: int = 0,
    heads: Sequence[int] | None = None,
    revision: str | None = None,
    query: int | None = None,
    prompt: str | None = None,
    tokens: Sequence[int] | None = None,
    chat: bool = False,
    engine: str = "transformers",
    kernel: str = "auto",
    device: str = "auto",
    dtype: str = "auto",
    progress: Progress | None = None,
    report: Report | None = None,
    cost: Cost | None = None,
    light: bool = False,
    placement: Placement = STREAMED,
    cached: int = 0,
    decode: bool = False,
) -> tuple[LayerTrace, ...]:
    """Return the trace of each of ``layers``, ascending, from one pass of the model.

    ``checkpoint``: a folder, a hub id, or None for the shipped qwen3-tiny. The prompt is text, or token ids, or by
    default the checkpoint's own. ``heads`` are those whose eager comparison is kept (None: all); ``head`` is the one
    that is asked for. ``report`` is told of what is fetched for another version (``transformers@5.16.1``), ``cost``
    in the end of how many bytes of tensors were read, of how many (None where not all are here). ``light`` is for a
    process that runs nothing else (see Wanted). ``placement`` spreads the model over devices, or over processes, all of
    which must then call this, and rank 0 alone is given traces. ``cached`` tokens of the prompt are in a cache when the
    rest comes in (nano-vllm's prefix cache, or a later chunk of a prefill); with ``decode`` the rest is the last token
    alone, in decode. Raises InputError for what cannot be done as asked, or not in the memory that is free; Unsupported
    for what cannot be done here.
    """
    version = version_of(engine)
    if engine not in ENGINES and version is None:
        raise InputError("pipeline.engine", engine=engine, known=", ".join(ENGINES))
    placement.check(engine, device)
    opened = open_checkpoint(checkpoint, revision=revision)
    layers = sorted(set(layers))
    for layer in layers:
        opened.check_layer(layer)
    opened.check_head(head)
    read = read_prompt(opened, prompt, tokens, chat)
    check_query(query, len(read))
    phase = _phase(engine, cached, decode, len(read))
    check_query(query, len(read), phase.cached)
    run_dtype = read_dtype(opened, dtype)
    facts = opened.model_facts(layers[0])
    calls = _calls(phase) if engine == NANO else {}
    chosen = choose(kernel, device=device, dtype=LONG_DTYPES[run_dtype.value], head_dim=facts.head_dim, calls=calls)
    placement.check_kernel(chosen)
    request = Request(
        layer=layers[0],
        head=head,
        query=query,
        token_ids=tuple(token.id for token in read),
        engine=Choice(engine, _why_engine(engine)),
        kernel=Choice(chosen.kind, chosen.reason),
        device=Choice(chosen.device, chosen.device_reason),
        dtype=run_dtype,
    )
    kept = tuple(range(facts.heads)) if heads is None else tuple(heads)
    wanted = Wanted(request, chosen, kept, Path(platformdirs.user_cache_dir("tracer")), progress, light)
    memory.check(_needed(opened, wanted, layers, placement), memory.limit(), len(read))
    traced: tuple[LayerTrace, ...]
    if version is not None:
        order: dict[str, object] = {"head": head, "heads": kept, "query": query, "tokens": request.token_ids}
        order |= {"checkpoint": checkpoint, "revision": revision, "kernel": kernel, "device": device, "dtype": dtype}
        traced = _other_version(version, layers, order, request.engine, report)
        return tuple(replace(each, warnings=(*each.warnings, *_autocast_warnings(request))) for each in traced)
    way = importlib.import_module(ENGINES[engine]) if placement.streamed else placement
    given = () if phase == PREFILL else (phase,)  # one engine alone knows of any other
    traced = way.trace_layers(opened, read, wanted, layers, *given)
    ambient = _autocast_warnings(request)
    traced = tuple(replace(each, warnings=(*each.warnings, *ambient, *finite.warnings(each))) for each in traced)
    if cost is not None:
        cost(opened.bytes_read, opened.bytes_stored)
    return traced


def _autocast_warnings(request: Request) -> tuple[Message, ...]:
    """Return a warning where the caller's autocast would have computed in another dtype than the run did."""
    cast = autocast_dtype(request.device.value) if "torch" in sys.modules else None
    dtype = LONG_DTYPES[request.dtype.value]
    return () if cast in (None, dtype) else (message("pipeline.autocast", cast=cast, dtype=dtype),)


def _needed(opened: Checkpoint, wanted: Wanted, layers: Sequence[int], placement: Placement) -> int:
    """Return about how much memory the run takes."""
    request, facts, last = wanted.request, opened.model_facts(layers[0]), layers[-1]
    whole = placement.ranks is not None  # every process looks at its own heads
    return placement.weight_bytes(opened, last, request.dtype.value) + memory.needed(
        facts,
        tokens=len(request.token_ids),
        layers=len(layers),
        dtype=request.dtype.value,
        kernel=wanted.kernel.kind,
        heads=facts.heads if whole else len(wanted.heads),
        alone=not whole and request.engine.value != NANO and alone(wanted),
        inner=opened.settings.intermediate_size if last else 0,
    )


def _other_version(
    version: str, layers: Sequence[int], order: Mapping[str, object], engine: Choice, report: Report | None
) -> tuple[LayerTrace, ...]:
    from tracer.engines.versions.engine import trace_layers as trace_there  # only where another version is asked for

    found = trace_there(version, layers, order, report)
    return tuple(replace(trace, request=replace(trace.request, engine=engine)) for trace in found)


def _phase(engine: str, cached: int, decode: bool, length: int) -> Phase:
    """Return how the prompt comes in; raises InputError where the engine has no such way, or the prompt is too
    short."""
    if not cached and not decode:
        return PREFILL
    if engine != NANO:
        raise InputError("pipeline.phase", engine=engine)
    phase = Phase(cached or length - 1, decode=True) if decode else Phase(cached)
    phase.check(length)
    return phase


def _calls(phase: Phase) -> dict[str, tuple[str, ...]]:
    """Return what nano-vllm calls of flash-attn beside flash_attn_varlen_func: it imports the function over a cache
    always, and gives pages to the other where a prefix is cached."""
    pages = ("block_table",) if phase.cached and not phase.decode else ()
    return {"with_kvcache": (), "varlen": pages}


def _why_engine(engine: str) -> Message:
    default = engine == next(iter(ENGINES))
    return message("pipeline.engine_default") if default else message("pipeline.engine_asked", engine=engine)


def read_prompt(opened: Checkpoint, prompt: str | None, tokens: Sequence[int] | None, chat: bool) -> tuple[Token, ...]:
    """Return the tokens of a prompt given as text or ids, or of the checkpoint's own; raises InputError."""
    if prompt is not None and tokens is not None:
        raise InputError("pipeline.two_prompts")
    if tokens is not None:
        ids = tuple(tokens)
        opened.check_token_ids(ids)
        return opened.tokens(ids)
    tokenizer = opened.tokenizer()
    text = opened.default_prompt() if prompt is None else prompt
    ids = tokenizer.encode(tokenizer.chat(text) if chat else text, opened.settings.max_positions)
    opened.check_token_ids(ids)
    return tokenizer.tokens(ids)


def read_dtype(opened: Checkpoint, asked: str) -> Choice:
    """Return the dtype to run in, as safetensors names it; raises InputError for an unknown one."""
    if asked == "auto":
        return Choice(opened.dtype, message("pipeline.dtype_stored"))
    if asked not in SHORT_DTYPES:
        raise InputError("pipeline.dtype", dtype=asked, known=", ".join(("auto", *SHORT_DTYPES)))
    reason: Message = message("pipeline.dtype_asked", dtype=asked)
    return Choice(SHORT_DTYPES[asked], reason)
