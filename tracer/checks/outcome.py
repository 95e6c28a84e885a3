"""Build the record of one check. Must not know: what is checked."""

import math

from tracer.names import LONG_DTYPES
from tracer.records import Check, Site, Status
from tracer.texts import Message, message

Figure = float | int | str | bool | None


def say(name: str, **values: object) -> Message:
    """Return the text ``name`` of annotations/texts/checks.toml filled with ``values``."""
    return message(f"checks.{name}", **values)


def outcome(
    id: str,
    status: Status,
    *,
    measured: Message,
    expected: Message,
    tolerance: Message,
    reason: Message,
    site: Site | None = None,
    claim: Message | None = None,
    figures: dict[str, Figure] | None = None,
) -> Check:
    """Return the check ``id``; its claim is the text named after it. Figures that are not finite become None."""
    return Check(
        id=id,
        claim=claim or say(id.replace(".", "_") + "_claim"),
        status=status,
        measured=measured,
        expected=expected,
        tolerance=tolerance,
        reason=reason,
        site=site,
        figures={name: _plain(value) for name, value in (figures or {}).items()},
    )


def untested(
    id: str,
    *,
    expected: Message,
    reason: Message,
    site: Site | None = None,
    claim: Message | None = None,
    figures: dict[str, Figure] | None = None,
) -> Check:
    """Return the check ``id`` as not testable, because of ``reason``."""
    return outcome(
        id,
        Status.NOT_TESTABLE,
        measured=say("nothing"),
        expected=expected,
        tolerance=say("none"),
        reason=reason,
        site=site,
        claim=claim,
        figures=figures,
    )


def overflow(rows: int, dtype: str) -> Message:
    """Return the reason of a check that ``rows`` rows cannot answer: the traced eager path's own scores overflowed."""
    return say("overflow", rows=rows, dtype=LONG_DTYPES[dtype])


def judged(holds: bool) -> Status:
    """Return pass or fail."""
    return Status.PASS if holds else Status.FAIL


def _plain(value: Figure) -> Figure:
    return None if isinstance(value, float) and not math.isfinite(value) else value
