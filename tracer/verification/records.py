"""What a verification ends with. Frozen. Must not know: how it came about, how it is shown."""

from collections.abc import Mapping
from dataclasses import dataclass

from tracer.records import Check, CheckpointFacts, Choice, ModelFacts, Status
from tracer.texts import Message


@dataclass(frozen=True)
class Finding:
    """One check of one layer in one scenario. ``head`` is None where the check is about all heads at once."""

    scenario: str
    layer: int
    head: int | None
    check: Check


@dataclass(frozen=True)
class Outcome:
    """All findings of one check in one scenario, as one: ``check`` is the first failure, else the first pass.

    ``part`` (q, k, v, o) where the check is about each of them. ``tested`` counts what passed or failed, ``failed``
    names layers and heads that failed, ``untested`` the layers of what could not be tested, ``reasons`` why, each with
    its layers.
    """

    check: Check
    scenario: str
    layer: int
    head: int | None
    part: str | None
    tested: int
    failed: tuple[tuple[int, int | None], ...]
    untested: tuple[int, ...]
    reasons: tuple[tuple[Message, tuple[int, ...]], ...]

    @property
    def why(self) -> Message | None:
        """The first reason why something could not be tested, None where all was."""
        return self.reasons[0][0] if self.reasons else None

    @property
    def whole(self) -> bool:
        """Whether it passed for everything that was looked at."""
        return self.check.status is Status.PASS and not self.untested


@dataclass(frozen=True)
class Window:
    """How far back one layer sees: as configured (None: everything), and as its weights showed (None: not seen)."""

    layer: int
    layer_type: str
    configured: int | None
    effective: int | None


@dataclass(frozen=True, repr=False)
class Verification:
    """What was verified and how it ended. ``seconds`` is what all of it took, ``plain_seconds`` one plain forward pass.

    ``subject`` names the checkpoint or the class of the model; ``model`` is its shape, with the first looked-at layer's
    type and window.
    """

    subject: str
    checkpoint: CheckpointFacts | None
    model: ModelFacts
    engine: Choice
    kernel: Choice
    device: Choice
    dtype: Choice
    versions: Mapping[str, str]
    tokens: tuple[int, ...]
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    scenarios: tuple[str, ...]
    thorough: bool
    outcomes: tuple[Outcome, ...]
    windows: tuple[Window, ...]
    warnings: tuple[Message, ...]
    seconds: float
    plain_seconds: float

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks of all scenarios, failures first: each with claim, measured, expected, tolerance, reason, site."""
        return tuple(outcome.check for outcome in self.outcomes)

    @property
    def failures(self) -> tuple[Outcome, ...]:
        """The outcomes that failed."""
        return tuple(outcome for outcome in self.outcomes if outcome.check.status is Status.FAIL)

    @property
    def exit_code(self) -> int:
        """0: no check failed and at least one passed; 1: one failed; 3: nothing could be tested."""
        statuses = {outcome.check.status for outcome in self.outcomes}
        if Status.FAIL in statuses:
            return 1
        return 0 if Status.PASS in statuses else 3

    # Python's prompt, print and a notebook ask the object itself how it looks; that is above this module: reached late.
    def __repr__(self) -> str:
        from tracer.render.verify_text import repr_of

        return repr_of(self)

    def __str__(self) -> str:
        from tracer.render.verify_text import text_of

        return text_of(self)

    def _repr_html_(self) -> str:
        from tracer.render.verify_text import html_of

        return html_of(self)
