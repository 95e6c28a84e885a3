"""Build a finding. Must not know: any particular check."""

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from tracer.checks.outcome import Figure, outcome
from tracer.names import spans
from tracer.records import Check, Site, Status
from tracer.texts import Message, catalogue, message
from tracer.verification.case import Case
from tracer.verification.records import Finding
from tracer.verification.scenarios import Bools

_OTHER_DENIALS = frozenset({"not_repeatable", "values_changed", "no_turning"})  # causes that turn another claim round
_RUNS = 6  # as many runs of numbers are written out


def say(name: str, **values: object) -> Message:
    """Return the text ``name`` of annotations/texts/verify.toml filled with ``values``."""
    return message(f"verify.{name}", **values)


def claim(id: str, **values: object) -> Message:
    """Return the claim of the check ``id``: a check that a trace has, too, makes the same claim there."""
    name = id.replace(".", "_") + "_claim"
    return say(name, **values) if f"verify.{name}" in catalogue() else message(f"checks.{name}", **values)


def denial(check: Check) -> Message:
    """Return what is wrong where ``check`` fails: its claim turned round."""
    if check.figures.get("cause") in _OTHER_DENIALS:
        return message(f"denials.{check.figures['cause']}", **check.claim.values)
    return message(f"denials.{check.id.replace('.', '_')}", **check.claim.values)


def advice(check: Check) -> Message:
    """Return what to change where ``check`` fails: by its figure ``cause`` where that is not the usual one."""
    cause = check.figures.get("cause") or check.id.replace(".", "_")
    return say(f"{cause}_fix")


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
    """Return what check ``id`` found in ``case``; ``about`` stands in for its claim; ``more`` are figures, too.

    A failure without a ``site`` lies in the forward of the attention's own class: where that hands on to its base
    class, else its first line. What compares whole runs may lie anywhere.
    """
    if status is Status.FAIL and site is None and id not in _OTHER_RUN:
        site = case.places.site("subclass.passed_on") or case.places.function("attention_forward")
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


def which(case: Case, bad: Bools) -> Message:
    """Return how many of a case's vectors are wrong, and which: ``bad`` [tokens that count, heads]."""
    rows, places = case.counted
    places = places + case.step.past
    row = int(np.bincount(rows, weights=bad.sum(axis=1)).argmax())
    mine = bad & (rows == row)[:, None]
    values = {
        "count": int(bad.sum()),
        "total": bad.size,
        "tokens": spans([int(t) for t in places[mine.any(axis=1)]], _RUNS),
        "heads": spans([int(h) for h in np.flatnonzero(mine.any(axis=0))], _RUNS),
    }
    return say("which", **values) if len(case.step.ids) == 1 else say("which_row", row=row, **values)


def passed(holds: bool) -> Status:
    """Return pass or fail."""
    return Status.PASS if holds else Status.FAIL


# What tells by making a call again, by another run, or from what dropout changes: nothing of it can be told where the
# same call gives other bits each time. Everything else was read off the one call that the model made.
_RERUN = frozenset(
    {
        "scale.effective",
        "causal.flag",
        "causal.weights",
        "causal.effect",
        "causal.alignment",
        "window.effective",
        "window.none",
        "softmax.rows",
        "softmax.row_max",
        "softmax.precision",
        "softmax.large",
        "causal.large",
        "kernel.output",
        "kernel.alignment",
        "kernel.empty_rows",
        "weights.reference",
        "heads.keys",
        "padding.weights",
        "padding.effect",
        "packing.weights",
        "packing.effect",
    }
)
_OTHER_RUN = frozenset({"causal.model", "padding.same", "packing.same", "cache.same"})


def unsteady(found: Finding, layers: Collection[int]) -> Finding:
    """Return a failure as not testable where it rests on repetition, and its own layer, or for what compares whole runs
    an earlier one, is among those ``layers`` whose call gives other bits each time."""
    id = found.check.id
    chance = (id in _RERUN and found.layer in layers) or (id in _OTHER_RUN and any(x <= found.layer for x in layers))
    if found.check.status is not Status.FAIL or not chance:
        return found
    check = replace(found.check, status=Status.NOT_TESTABLE, reason=say("not_repeatable"), measured=say("nothing"))
    return replace(found, check=check)
