"""A recorder that also remembers which memory each value lived in, and how often that had been written to.

That is what shows an in-place write: two expressions, one storage, and a counter that went up between them. Must not
know: what is watched.
"""

from dataclasses import dataclass
from typing import Any

from tracer.capture.recorder import Recorder


@dataclass(frozen=True)
class Lived:
    """A tensor that one probe saw: the live one, where its storage is, and torch's count of writes to it until then."""

    anchor: str
    window: str
    tensor: Any
    storage: int
    version: int


class StorageRecorder(Recorder):
    """Collects what probes see, and the live tensors themselves until they are let go of."""

    def __init__(self) -> None:
        super().__init__()
        self.lived: list[Lived] = []

    def note(self, anchors: tuple[str, ...], value: Any) -> None:
        """Keep ``value`` for each of ``anchors`` if a window is open here."""
        super().note(anchors, value)
        window = self.window
        if window is not None and hasattr(value, "untyped_storage"):
            self.lived += [Lived(anchor, window, value, storage(value), value._version) for anchor in anchors]

    def release(self) -> list[Lived]:
        """Return the live tensors seen since the last time, and hold on to them no longer."""
        lived, self.lived = self.lived, []
        return lived


def storage(tensor: Any) -> int:
    """Return the address of the memory that a tensor lives in, its own or that of the tensor it is a view of."""
    return int(tensor.untyped_storage().data_ptr())
