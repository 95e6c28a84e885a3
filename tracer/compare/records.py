"""What a comparison found, as plain records. Must not know: torch, how anything was run or is shown."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tracer.arrays import Array
from tracer.records import LayerTrace, Site
from tracer.saved.diff import Diff
from tracer.texts import Message

# What a layer hands on before its attention; see tracer.compare.stream.
BEFORE_ATTENTION = ("input", "norm", "residual")


@dataclass(frozen=True, eq=False)
class Value:
    """What one side has for a step: its numbers in the common layout (tokens first, no batch axis), and where it was
    made."""

    layer: int
    name: str
    array: Array
    site: Site


class Standing(StrEnum):
    """How a step of two sides compares."""

    SAME = "same"  # bit for bit, or in every number where the dtypes differ
    ROUNDING = "rounding"  # differs by no more than rounding explains
    PARTS = "parts"
    SHAPE = "shape"  # not the same shape: no numbers compared
    ONLY_A = "only_a"
    ONLY_B = "only_b"


@dataclass(frozen=True)
class Distance:
    """How far two arrays lie apart. ``spacings`` and ``mean_spacings`` are the largest and the mean distance in units
    of the spacing between neighbouring numbers of ``unit`` at the size of the largest number compared; ``nonfinite``
    counts numbers finite on one side alone, or unlike infinities."""

    largest: float
    mean: float
    spacings: float
    mean_spacings: float
    unit: str
    nonfinite: int
    at: tuple[int, ...]


@dataclass(frozen=True)
class Pair:
    """One step of both sides. ``allowed`` is the largest distance that rounding explains, None where none is judged;
    ``shapes`` are those of A and B where they differ, so that no number can be compared."""

    layer: int
    name: str
    standing: Standing
    a: Site | None
    b: Site | None
    distance: Distance | None = None
    allowed: float | None = None
    shapes: tuple[tuple[int, ...], tuple[int, ...]] | None = None

    @property
    def apart(self) -> bool:
        """Whether the two sides part here; a step that only one of them has parts nothing."""
        return self.standing in (Standing.PARTS, Standing.SHAPE)

    def of(self, first: bool) -> Site | None:
        """Return where A's number was made, or B's."""
        return self.a if first else self.b


@dataclass(frozen=True)
class Written:
    """A write into memory that something else still stands for, as it was seen.

    ``alias`` is the expression that gave back the very storage instead of a copy, ``writes`` those that wrote into it,
    ``victim`` what it still stood for. ``versions`` are torch's counter of writes to that storage before and after,
    ``changed`` the largest change of a number in it.
    """

    layer: int
    step: str
    alias: Site
    writes: tuple[Site, ...]
    victim: Site
    versions: tuple[int, int]
    changed: float


@dataclass(frozen=True)
class Finding:
    """Something that explains, or will lead to, a difference. ``facts`` are its evidence in numbers; ``here`` is 0
    where it leaves this prompt's numbers as they are."""

    id: str
    text: Message
    sites: tuple[Site, ...] = ()
    facts: Mapping[str, float | int | str] = field(default_factory=dict)


@dataclass(frozen=True)
class Side:
    """One of the two runs: its name among those compared, and its trace of the asked layer."""

    name: str
    trace: LayerTrace


@dataclass(frozen=True)
class Comparison:
    """Two runs of one checkpoint and prompt, step by step.

    ``steps`` are those of the asked layer's attention, ``before`` what layers hand on around it, in the order they run
    (empty where both enter the asked layer alike, or that cannot be watched), ``inside`` the steps of an earlier
    layer's attention, where that is the first to differ. ``unit`` is the dtype whose spacing distances are told in.
    """

    a: Side
    b: Side
    unit: str
    steps: tuple[Pair, ...]
    before: tuple[Pair, ...]
    findings: tuple[Finding, ...]
    yardstick: Message
    inside: tuple[Pair, ...] = ()
    diff: Diff | None = None

    @property
    def sequence(self) -> tuple[Pair, ...]:
        """Every step in the order the model runs: an attention's own between what comes before and after it."""
        found: list[Pair] = []
        for layer in sorted({pair.layer for pair in (*self.before, *self.inside, *self.steps)}):
            around = [pair for pair in self.before if pair.layer == layer]
            found += [pair for pair in around if pair.name in BEFORE_ATTENTION]
            found += [pair for pair in (*self.inside, *self.steps) if pair.layer == layer]
            found += [pair for pair in around if pair.name not in BEFORE_ATTENTION]
        return tuple(found)

    @property
    def first(self) -> Pair | None:
        """The first step at which the two part, in the order the model runs; steps of one side alone do not count."""
        return next((pair for pair in self.sequence if pair.apart), None)

    @property
    def agree(self) -> bool:
        """Whether nothing that both sides compute has another shape, or lies further apart than rounding explains."""
        return self.first is None and any(pair.distance is not None for pair in self.steps)

    @property
    def exit_code(self) -> int:
        """0: they agree; 1: they part; 3: nothing could be compared."""
        if self.first is not None:
            return 1
        return 0 if self.agree else 3
