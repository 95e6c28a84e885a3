"""What a planted fault is. Frozen. Must not know: how it is planted, which faults there are."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tracer.texts import Message, message

KernelChange = Callable[..., Any]


@dataclass(frozen=True)
class Edit:
    """One expression of the real source, found by structure (tracer/source/patterns.py), and what stands in its place:
    ``{0}`` in ``code`` is the expression as it was."""

    file: str
    scope: str
    pattern: str
    code: str


@dataclass(frozen=True)
class Fault:
    """A planted fault: edits of the source, or a change of the kernel; what it needs to be seen; and the check that
    must catch it in ``scenario``. ``place`` is the index of the edit that the check must point at."""

    id: str
    catches: str
    edits: tuple[Edit, ...] = ()
    kernel_change: str | None = None
    scenario: str = "plain"
    kernel: str = "cpu-flash"
    dtype: str = "F32"
    config: Mapping[str, Any] = field(default_factory=dict)
    place: int = 0

    @property
    def description(self) -> Message:
        """What is wrong, in a sentence."""
        return message(f"verify.fault_{self.id}")
