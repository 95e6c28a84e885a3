"""The two flash-attn functions that nano-vllm calls, watched: what each was given and what it gave.

Must not know: who calls them, paged caches' contents.
"""

from collections.abc import Callable
from typing import Any

from tracer.capture.recorder import Recorder
from tracer.engines.transformers.lending import KernelSeen
from tracer.kernels.adapter import bind

# What asks each function for its logsumexp, which it gives only on request; the output stays the same.
LSE_REQUEST = {"flash_attn_varlen_func": "return_attn_probs", "flash_attn_with_kvcache": "return_softmax_lse"}


class Watched:
    """A flash-attn function that also keeps its calls, while the recorder is open."""

    def __init__(self, name: str, function: Callable[..., Any], recorder: Recorder) -> None:
        self.name = name
        self._function = function
        self._recorder = recorder
        self.seen: list[KernelSeen] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the function gives for these arguments."""
        if self._recorder.window != "attention":
            return self._function(*args, **kwargs)
        bound = bind(self._function, args, kwargs)
        bound.apply_defaults()
        request = LSE_REQUEST[self.name]
        kept = {name: _copied(value) for name, value in bound.arguments.items()}
        result = self._function(*args, **{**kwargs, request: True})
        self.seen.append(KernelSeen(kept, _copied(result[0]), _copied(result[1])))
        return result if kept[request] else result[0]

    def drain(self) -> list[KernelSeen]:
        """Return the calls seen since the last time, and keep them no longer."""
        seen, self.seen = self.seen, []
        return seen


def _copied(value: Any) -> Any:
    return value.detach().clone() if hasattr(value, "detach") else value
