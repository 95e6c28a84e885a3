"""What a lint finds: kernels with the origin of their scale and causality, findings, files left out.

Frozen, no behaviour beyond what follows from their own fields. Must not know: syntax trees, output formats.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from tracer.records import Span
from tracer.texts import Message


@dataclass(frozen=True)
class Place:
    """A stretch of one of the files read: ``path`` as a reader names it, ``scope`` the dotted class and function,
    ``lines`` its first lines as they stand in the file."""

    path: str
    file: Path
    span: Span
    scope: str
    code: str
    lines: tuple[str, ...] = field(default=(), compare=False)

    @property
    def short(self) -> str:
        """``attention.py:70:12``."""
        return f"{self.path.replace(chr(92), '/').rsplit('/', 1)[-1]}:{self.span.line}:{self.span.column}"


@dataclass(frozen=True)
class Hop:
    """One step of a value from its origin to the kernel. ``why`` says what was assumed there, None where the source
    proves it."""

    place: Place
    binds: str
    why: Message | None = field(default=None, compare=False)


class ScaleStatus(StrEnum):
    """What the source says of a scale."""

    EQUAL = "equal"  # head_dim**-0.5, however it is written
    OTHER = "other"  # known, and something else
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Scale:
    """One origin of the scale a kernel applies: ``expression`` where it is made, ``normal`` its normal form
    (``head_dim**-0.5``; None where unknown), ``by_default`` where the kernel computes it itself."""

    status: ScaleStatus
    expression: str
    normal: str | None
    by_default: bool
    hops: tuple[Hop, ...]
    why: Message | None = field(default=None, compare=False)


class CausalStatus(StrEnum):
    """What the source says of causality."""

    TRUE = "true"
    FALSE = "false"
    DEPENDS = "depends"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Causal:
    """The causal argument of a kernel, and the conditions it depends on."""

    status: CausalStatus
    expression: str
    depends_on: tuple[str, ...]
    by_default: bool
    hops: tuple[Hop, ...]
    why: Message | None = field(default=None, compare=False)


class KernelStatus(StrEnum):
    """How a kernel was judged. Unknown is never right; ``depends``: the scale is, causality is left to the caller."""

    RIGHT = "right"
    DEPENDS = "depends"
    FAULT = "fault"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Kernel:
    """One place that computes attention. ``arguments`` are (parameter, code) by the signature named ``signature``;
    ``why`` is what keeps it from being judged beside scale and causality."""

    function: str
    kind: str  # call | explicit
    place: Place
    signature: str
    arguments: tuple[tuple[str, str], ...]
    scales: tuple[Scale, ...]
    causal: Causal
    status: KernelStatus
    why: Message | None = field(default=None, compare=False)

    @property
    def reasons(self) -> tuple[Message, ...]:
        """Everything that keeps it from being judged right, each once."""
        every = (self.why, *(scale.why for scale in self.scales), self.causal.why)
        return tuple({why.text(): why for why in every if why is not None}.values())


class Severity(StrEnum):
    """How grave a finding is: an error is wrong, a warning is wrong under a condition that the message names."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Finding:
    """A fault that the source shows. ``suppressed`` is the reason given beside the code where it was waived, ``kernel``
    the kernel that it spoils."""

    rule: str
    severity: Severity
    message: Message = field(compare=False)
    fix: Message = field(compare=False)
    place: Place
    hops: tuple[Hop, ...] = ()
    suppressed: str | None = None
    kernel: Place | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Skipped:
    """A file or folder that was not judged, and why."""

    path: str
    why: Message


@dataclass(frozen=True)
class Note:
    """Something beside the code that does not do what its author meant: a waiver that waives nothing."""

    place: Place
    message: Message


@dataclass(frozen=True)
class Report:
    """All that one lint found."""

    paths: tuple[str, ...]
    files: int
    lines: int
    kernels: tuple[Kernel, ...]
    findings: tuple[Finding, ...]
    skipped: tuple[Skipped, ...]
    notes: tuple[Note, ...] = ()

    @property
    def open_findings(self) -> tuple[Finding, ...]:
        """The findings that nobody waived."""
        return tuple(finding for finding in self.findings if finding.suppressed is None)

    @property
    def exit_code(self) -> int:
        """0: no finding and a kernel whose scale is right, with causality right or left to its caller; 1: a finding;
        3: nothing could be judged."""
        if self.open_findings:
            return 1
        return 0 if self.count(KernelStatus.RIGHT) + self.count(KernelStatus.DEPENDS) else 3

    def count(self, status: KernelStatus) -> int:
        """Return how many kernels were judged so."""
        return sum(kernel.status is status for kernel in self.kernels)
