"""The functions a Python user calls. Heavy imports happen inside them.

Must not know: anything the pipeline knows.
"""

import operator
import os
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tracer.errors import InputError, TracerError
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
    cached: int = 0,
    decode: bool = False,
) -> "Trace":
    """Return the trace of one attention head: captures, places, scale and causal lineage, reference, checks.

    ``checkpoint`` is a folder, a hub id, or None for the shipped qwen3-tiny. Every captured tensor is under
    ``trace.layer.captures``: its name, axes, exact bits (``.array.numbers()``) and the source expression that made it.
    With engine nano-vllm the first ``cached`` tokens may be in a cache already, and ``decode`` traces the last token
    alone: queries and what comes of them are then the new tokens' only, keys and values everyone's.
    Raises InputError for what cannot be done as asked, Unsupported for what cannot be done here.
    """
    if isinstance(checkpoint, os.PathLike):
        checkpoint = os.fspath(checkpoint)
    texts = {"checkpoint": checkpoint, "revision": revision, "prompt": prompt}
    texts |= {"engine": engine, "kernel": kernel, "device": device, "dtype": dtype}
    for name, value in texts.items():
        if not isinstance(value, str) and not (value is None and name in ("checkpoint", "revision", "prompt")):
            raise _wrong(name, "text", value)
    for name, flag in (("chat", chat), ("decode", decode)):
        if not isinstance(flag, bool):
            raise _wrong(name, "flag", flag)
    cached = _whole("cached", cached)
    layer, head = _whole("layer", layer), _whole("head", head)
    query = None if query is None else _whole("query", query)
    tokens = None if tokens is None else _ids(tokens)
    if chat and tokens is not None:
        raise InputError("pipeline.chat_with_tokens")
    from tracer import pipeline

    with _told_in_python({name: name for name in ("checkpoint", *(trace.__kwdefaults__ or ()))}):
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
            cached=cached,
            decode=decode,
        )


@contextmanager
def _told_in_python(arguments: Mapping[str, str]) -> Iterator[None]:
    """Let an error name arguments in place of the options of the command line: option → argument."""
    try:
        yield
    except TracerError as error:
        error.arguments = arguments
        raise


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
    shape: Sequence[int] = getattr(tokens, "shape", ())
    (several,) = tokens if len(shape) == 2 and shape[0] == 1 else (tokens,)  # one prompt, as tokenizers hand it out
    return [_whole("tokens", id, "tokens") for id in several]


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
    function it has; or a folder or hub id of a checkpoint, or None for the shipped one. ``tokens`` None: a checkpoint's
    own prompt, or 43 pseudo-random ids for a live model and where there is no tokenizer. ``scenarios``: some of plain,
    packed, padded, cached (None: all). ``thorough`` changes every token and reads every weight.

    ``print(…)`` shows the page of ``trace verify``; ``.checks`` are the checks of all scenarios, failures first, and
    ``.outcomes`` the same with layers and heads. The model, torch and transformers are as they were afterwards. Raises
    InputError, Unsupported.
    """
    asked: dict[str, Any] = {
        "layers": _several("layers", layers),
        "heads": _several("heads", heads),
        "tokens": _several("tokens", tokens),
        "scenarios": None if scenarios is None else _names(scenarios),
        "thorough": _flag("thorough", thorough),
    }
    if isinstance(model, os.PathLike):
        model = os.fspath(model)
    from tracer.verification.entry import verify_checkpoint, verify_model

    with _told_in_python({"checkpoint": "model", "layer": "layers", "head": "heads", "tokens": "tokens"}):
        if model is None or isinstance(model, str):
            return verify_checkpoint(model, **asked)
        return verify_model(model, **asked)


def _several(name: str, numbers: Any) -> list[int] | None:
    """Return whole numbers of any kind, in any sequence, array or 1-d tensor, as a list of Python's own."""
    if numbers is None:
        return None
    try:
        return _ids(numbers)
    except InputError:
        raise _wrong_asked(name, "numbers", numbers) from None


def _names(scenarios: Any) -> list[str]:
    several = not isinstance(scenarios, str | bytes) and isinstance(scenarios, Iterable)
    names = list(scenarios) if several else []
    if not several or not all(isinstance(name, str) for name in names):
        raise _wrong_asked("scenarios", "names", scenarios)
    return names


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong_asked(name, "flag", value)
    return value


def _wrong_asked(name: str, wanted: str, found: object) -> InputError:
    given = f"{reprlib.repr(found)} ({type(found).__name__})"
    return InputError("verify.argument", name=name, wanted=message(f"verify.argument_{wanted}"), found=given)


def assert_attention(model: Any, *, strict: bool = False, language: str = "en", **asked: Any) -> None:
    """Return nothing if the attention of ``model`` is right; else raise AssertionError, which says as a review would
    what is wrong, where, what was measured and expected, and what to change.

    What could not be tested because of the model's own code (a projection or a norm that is not called as a module, an
    attention that calls no known function) or numbers (NaN in an embedding) is told in a UserWarning; ``strict`` makes
    that an AssertionError. What cannot be tested on this input or with this kernel (the logsumexp, which sdpa does not
    give) never fails: ``verify`` tells it. ``asked`` as for ``verify``. Raises Unsupported where nothing could be
    tested: that is no pass; InputError for what cannot be asked.
    """
    __tracebackhide__ = True  # pytest shows the reader's own line
    import warnings

    from tracer.errors import Unsupported
    from tracer.texts import LANGUAGES
    from tracer.verification.review import review, unseen

    if language not in LANGUAGES:
        raise InputError("verify.unknown_language", found=language, known=", ".join(LANGUAGES))
    strict = _flag("strict", strict)
    found = verify(model, **asked)
    if found.failures:
        raise AssertionError(review(found, language))
    if found.exit_code:
        raise Unsupported("verify.nothing_tested", subject=found.subject)
    told = unseen(found, language)
    if told and strict:
        raise AssertionError(told)
    if told:
        warnings.warn(told, stacklevel=2)
