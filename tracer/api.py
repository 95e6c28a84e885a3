"""The functions a Python user calls. Heavy imports happen inside them.

Must not know: anything the pipeline knows.
"""

import operator
import os
import reprlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tracer.errors import InputError
from tracer.texts import message

if TYPE_CHECKING:
    from tracer.result import Trace
    from tracer.verification.records import Verification


def trace(
    checkpoint: "str | os.PathLike[str] | None" = None,
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
) -> "Trace":
    """Return the trace of one attention head: captures, places, scale and causal lineage, reference, checks.

    ``checkpoint`` is a folder, a hub id, or None for the shipped qwen3-tiny. Every captured tensor is under
    ``trace.layer.captures``: its name, axes, exact bits (``.array.numbers()``) and the source expression that made it.
    Raises InputError for what cannot be done as asked, Unsupported for what cannot be done here.
    """
    if isinstance(checkpoint, os.PathLike):
        checkpoint = os.fspath(checkpoint)
    texts = {"checkpoint": checkpoint, "revision": revision, "prompt": prompt}
    texts |= {"engine": engine, "kernel": kernel, "device": device, "dtype": dtype}
    for name, value in texts.items():
        if not isinstance(value, str) and not (value is None and name in ("checkpoint", "revision", "prompt")):
            raise _wrong(name, "text", value)
    if not isinstance(chat, bool):
        raise _wrong("chat", "flag", chat)
    layer, head = _whole("layer", layer), _whole("head", head)
    query = None if query is None else _whole("query", query)
    tokens = None if tokens is None else _ids(tokens)
    if chat and tokens is not None:
        raise InputError("pipeline.chat_with_tokens")
    from tracer import pipeline

    return pipeline.trace(
        checkpoint,
        revision=revision,
        layer=layer,
        head=head,
        query=query,
        prompt=prompt,
        tokens=tokens,
        chat=chat,
        engine=engine,
        kernel=kernel,
        device=device,
        dtype=dtype,
        all_heads=True,
    )


def _whole(name: str, value: Any, wanted: str = "whole") -> int:
    """Return a whole number of any kind (also NumPy's) as Python's own; True and 1.0 are none."""
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise _wrong(name, wanted, value)


def _ids(tokens: Any) -> list[int]:
    if isinstance(tokens, str | bytes) or not isinstance(tokens, Iterable):
        raise _wrong("tokens", "tokens", tokens)
    return [_whole("tokens", id, "tokens") for id in tokens]


def _wrong(name: str, wanted: str, found: object) -> InputError:
    given = f"{reprlib.repr(found)} ({type(found).__name__})"
    return InputError("pipeline.argument", name=name, wanted=message(f"pipeline.argument_{wanted}"), found=given)


def verify(
    model: Any = None,
    *,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    tokens: Sequence[int] | None = None,
    scenarios: Sequence[str] | None = None,
    thorough: bool = False,
) -> "Verification":
    """Return whether a model's attention is right: every check of every layer and head, and the place of what is wrong.

    ``model`` is a live Qwen3 model, also one whose attention was patched or subclassed, with whatever attention
    function it has; or a folder or hub id of a checkpoint, or None for the shipped one. ``tokens`` None: a prompt is
    chosen. ``scenarios``: some of plain, packed, padded, cached (None: all). ``thorough`` changes every token and reads
    every weight. The model, torch and transformers are as they were afterwards. Raises InputError, Unsupported.
    """
    from tracer.verification.entry import verify_checkpoint, verify_model

    asked: dict[str, Any] = {
        "layers": layers,
        "heads": heads,
        "tokens": tokens,
        "scenarios": scenarios,
        "thorough": thorough,
    }
    if model is None or isinstance(model, str):
        return verify_checkpoint(model, **asked)
    return verify_model(model, **asked)


def assert_attention(model: Any, *, language: str = "en", **asked: Any) -> None:
    """Return nothing if the attention of ``model`` is right; else raise AssertionError, which says as a review would
    what is wrong, where, what was measured and expected, and what to change.

    ``asked`` as for ``verify``. Raises Unsupported where nothing could be tested: that is no pass.
    """
    __tracebackhide__ = True  # pytest shows the reader's own line
    from tracer.errors import Unsupported
    from tracer.verification.review import review

    found = verify(model, **asked)
    if found.failures:
        raise AssertionError(review(found, language))
    if found.exit_code:
        raise Unsupported("verify.nothing_tested", subject=found.subject)
