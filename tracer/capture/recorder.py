"""What probes saw: values of one trace, from one thread, while a window is open.

A window is the stretch of one module call that was asked for (a constructor, the rotary embedding, one layer's
attention). Outside it, or on another thread, a probe hands its value on and forgets it. Must not know: what values
mean.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Seen:
    """One value that one probe saw. Tensors are copies: upstream code writes in place."""

    anchor: str
    window: str
    value: Any


class Sightings:
    """What probes saw, in the order they saw it."""

    def __init__(self, seen: Iterable[Seen] = ()) -> None:
        self.seen = list(seen)

    def values(self, anchor: str, window: str) -> list[Any]:
        """Return what the probe of ``anchor`` saw in ``window``, in order."""
        return [seen.value for seen in self.seen if seen.anchor == anchor and seen.window == window]


class Recorder(Sightings):
    """Collects what probes see. Belongs to the thread that made it.

    ``keep`` (anchor, value) says what of a value is kept: by default all of it. That something was seen is always kept.
    """

    def __init__(self, keep: Callable[[str, Any], Any] | None = None) -> None:
        super().__init__()
        self._keep = keep
        self._thread = threading.get_ident()
        self._window: str | None = None

    @property
    def window(self) -> str | None:
        """The open window as seen from the calling thread, else None."""
        return self._window if threading.get_ident() == self._thread else None

    def open(self, window: str) -> None:
        """Record what follows, on this thread, under the name ``window``."""
        self._window = window

    def close(self) -> None:
        """Record nothing more."""
        self._window = None

    @contextmanager
    def during(self, window: str) -> Iterator[None]:
        """Hold ``window`` open for one ``with``."""
        self.open(window)
        try:
            yield
        finally:
            self.close()

    def note(self, anchors: tuple[str, ...], value: Any) -> None:
        """Keep ``value`` for each of ``anchors`` if a window is open here."""
        window = self.window
        if window is None:
            return
        if self._keep is not None:
            self.seen.extend(Seen(anchor, window, _copied(self._keep(anchor, value))) for anchor in anchors)
            return
        kept = _copied(value)
        self.seen.extend(Seen(anchor, window, kept) for anchor in anchors)

    def drain(self) -> list[Seen]:
        """Return what was seen since the last time, and keep it no longer."""
        seen, self.seen = self.seen, []
        return seen


def _copied(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, tuple):
        return tuple(_copied(item) for item in value)
    if isinstance(value, dict):
        return dict(value)  # its numbers stay the very objects: identity is what proves a scale's path
    return value
