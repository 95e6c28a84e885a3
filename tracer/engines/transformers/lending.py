"""Lend transformers' own flash path a kernel for one run, and watch that kernel's calls.

transformers keeps the flash functions it found in module globals; for the length of one ``with`` those hold ours. The
rest of its flash path is its own code. Calls from other threads go to whatever was there before, or, where there was
nothing, to the bare kernel. Must not know: models.
"""

import functools
import inspect
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from tracer.capture.recorder import Recorder
from tracer.capture.turn import turn
from tracer.kernels.adapter import bind
from tracer.kernels.interfaces import TWO

_LENT = (
    "_loaded_implementation",
    "_flash_fn",
    "_flash_varlen_fn",
    "_flash_with_kvcache_fn",
    "_pad_fn",
    "_unpad_fn",
    "_process_flash_kwargs_fn",
    "_process_with_kvcache_kwargs_fn",  # absent before transformers 5.2x
)


@dataclass(frozen=True)
class KernelSeen:
    """One kernel call inside the window. Tensors are copies: q, k, v [T, heads, D], output [T, H, D], lse [H, T]."""

    arguments: dict[str, Any]
    output: Any
    lse: Any


class KernelWatch:
    """A flash-attn varlen function that also keeps what it was given and what it gave, while the recorder is open."""

    def __init__(self, function: Callable[..., Any], recorder: Recorder) -> None:
        self._function = function
        self._recorder = recorder
        self._only: tuple[int, int] | None = None
        self._keep_narrow = False
        self.seen: list[KernelSeen] = []
        self.narrow: KernelSeen | None = None  # the latest call of one head alone; its tensors are no copies

    def lent(self, before: Callable[..., Any] | None) -> Callable[..., Any]:
        """Return the function to lend; other threads are served by ``before``, what stood there until now."""
        return _for_this_thread(self._call, before or self._function, like=self._function)

    def drain(self) -> list[KernelSeen]:
        """Return the calls seen since the last time, and keep them no longer."""
        seen, self.seen = self.seen, []
        return seen

    @contextmanager
    def only(self, head: int, kv_head: int, *, keep: bool = False) -> Iterator[None]:
        """Compute one head alone for one ``with``, the output of every other head being zero; ``narrow`` holds what
        was seen if it is to be kept."""
        self._only, self._keep_narrow = (head, kv_head), keep
        try:
            yield
        finally:
            self._only = self.narrow = None

    def _one_head(self, head: int, kv_head: int, *args: Any, **kwargs: Any) -> Any:
        given = dict(bind(self._function, args, kwargs).arguments)
        q, k, v = (given.pop(name) for name in ("q", "k", "v"))
        parts = (x[:, n : n + 1].contiguous() for x, n in ((q, head), (k, kv_head), (v, kv_head)))
        output, lse, *_ = self._function(*parts, **{**given, "return_attn_probs": True})
        if self._keep_narrow:
            self.narrow = KernelSeen({"q": q, "k": k, "v": v, **given}, output[:, 0], lse[0])
        whole = q.new_zeros(q.shape)
        whole[:, head] = output[:, 0]
        return whole

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        if self._only is not None:
            return self._one_head(*self._only, *args, **kwargs)
        if self._recorder.window is None:
            return self._function(*args, **kwargs)
        bound = bind(self._function, args, kwargs)
        bound.apply_defaults()
        asked = bound.arguments.get("return_attn_probs", False)
        kept = {name: _copied(value) for name, value in bound.arguments.items()}
        # The logsumexp comes back only on request; asking for it changes no number of the output.
        result = self._function(*args, **{**kwargs, "return_attn_probs": True})
        output, lse = result[0], result[1]
        self.seen.append(KernelSeen(kept, _copied(output), _copied(lse)))
        return result if asked else output


def _copied(value: Any) -> Any:
    return value.detach().clone() if hasattr(value, "detach") else value


def _for_this_thread(
    ours: Callable[..., Any], others: Callable[..., Any], *, like: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Return a function that is ``ours`` on the calling thread and ``others`` on every other; its signature is that of
    ``like``."""
    owner = threading.get_ident()

    def chosen(*args: Any, **kwargs: Any) -> Any:
        return (ours if threading.get_ident() == owner else others)(*args, **kwargs)

    if like is None:
        return chosen
    lent = functools.wraps(like)(chosen)
    lent.__signature__ = _signature(like)  # type: ignore[attr-defined]  # read anew at each loan otherwise
    return lent


@functools.lru_cache(maxsize=8)
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


@contextmanager
def lent(
    utils: ModuleType, varlen: KernelWatch, dense: Callable[..., Any], implementation: str = TWO.implementation
) -> Iterator[None]:
    """Put the watched kernel behind transformers' flash path (``modeling_flash_attention_utils``) for one ``with``.

    ``implementation``: transformers' name of the path, as the model's config has it; for another it would look for a
    package of its own.
    """
    before = {name: getattr(utils, name) for name in _LENT if hasattr(utils, name)}
    function = varlen.lent(before.get("_flash_varlen_fn"))
    process = utils._lazy_define_process_function(function)
    new = {
        "_loaded_implementation": implementation,
        "_flash_fn": _for_this_thread(dense, before.get("_flash_fn") or dense, like=dense),
        "_flash_varlen_fn": function,
        "_flash_with_kvcache_fn": None,
        "_pad_fn": utils._pad_input,
        "_unpad_fn": utils._unpad_input,
        "_process_flash_kwargs_fn": _for_this_thread(process, before.get("_process_flash_kwargs_fn") or process),
        "_process_with_kvcache_kwargs_fn": dict,
    }
    with turn():
        try:
            for name in before:
                setattr(utils, name, new[name])
            yield
        finally:
            for name, value in before.items():
                setattr(utils, name, value)


@contextmanager
def quiet_cast(utils: ModuleType) -> Iterator[None]:
    """Drop, for one ``with``, the one log line that says fp32 is cast back to fp32; every other line stays."""

    def keep(record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith("Casting fp32 inputs back to torch.float32")

    logger = logging.getLogger(utils.__name__)
    try:
        logger.addFilter(keep)
        yield
    finally:
        logger.removeFilter(keep)
