"""Build a finding. Must not know: any particular check."""

from collections.abc import Mapping
from dataclasses import replace

from tracer.checks.outcome import Figure, outcome
from tracer.records import Site, Status
from tracer.texts import Message, catalogue, message
from tracer.verification.case import Case
from tracer.verification.records import Finding


def say(name: str, **values: object) -> Message:
    """Return the text ``name`` of annotations/texts/verify.toml filled with ``values``."""
    return message(f"verify.{name}", **values)


def claim(id: str, **values: object) -> Message:
    """Return the claim of the check ``id``: a check that a trace has, too, makes the same claim there."""
    name = id.replace(".", "_") + "_claim"
    return say(name, **values) if f"verify.{name}" in catalogue() else message(f"checks.{name}", **values)


def advice(id: str) -> Message:
    """Return what to change where the check ``id`` fails."""
    return say(id.replace(".", "_") + "_fix")


def finding(
    case: Case,
    id: str,
    status: Status,
    *,
    measured: Message,
    expected: Message,
    reason: Message,
    tolerance: Message | None = None,
    site: Site | None = None,
    head: int | None = None,
    about: Message | None = None,
    more: Mapping[str, Figure] | None = None,
    **figures: Figure,
) -> Finding:
    """Return what check ``id`` found in ``case``; ``about`` stands in for its claim; ``more`` are figures, too."""
    check = outcome(
        id,
        status,
        claim=about or claim(id),
        measured=measured,
        expected=expected,
        tolerance=tolerance or say("exact"),
        reason=reason,
        site=site,
        figures={**(more or {}), **figures},
    )
    return Finding(case.scenario.id, case.layer, head, check)


def untested(
    case: Case,
    id: str,
    *,
    expected: Message,
    reason: Message,
    site: Site | None = None,
    head: int | None = None,
    about: Message | None = None,
    more: Mapping[str, Figure] | None = None,
    **figures: Figure,
) -> Finding:
    """Return check ``id`` as not testable, because of ``reason``."""
    return finding(
        case,
        id,
        Status.NOT_TESTABLE,
        measured=say("nothing"),
        expected=expected,
        reason=reason,
        tolerance=say("none"),
        site=site,
        head=head,
        about=about,
        more=more,
        **figures,
    )


def passed(holds: bool) -> Status:
    """Return pass or fail."""
    return Status.PASS if holds else Status.FAIL


def unsteady(found: Finding) -> Finding:
    """Return a failure as not testable: the same call gives other bits each time, so nothing else can be told by it."""
    if found.check.status is not Status.FAIL or found.check.id == "dropout.off":
        return found
    check = replace(found.check, status=Status.NOT_TESTABLE, reason=say("not_repeatable"), measured=say("nothing"))
    return replace(found, check=check)
