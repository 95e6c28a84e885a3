"""What could not be looked at, because it never ran or was given nothing to compute with: told as not testable, so that
no check passes for a layer that was not seen.

Must not know: how models run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tracer.records import Check, Status
from tracer.texts import Message
from tracer.verification.records import Finding
from tracer.verification.verdict import say

_ONE_LAYER = frozenset({"kernel.alignment", "kernel.empty_rows"})  # the kernel's own, looked at once
_WINDOW = {True: "window.none", False: "window.effective"}  # by whether a layer has a window: what it has not


@dataclass(frozen=True)
class Gap:
    """A layer that was not looked at in a scenario, and why."""

    scenario: str
    layer: int
    reason: Message


def findings(gaps: Sequence[Gap], known: Sequence[Finding], windowed: Callable[[int], bool]) -> list[Finding]:
    """Return for each gap every check that other layers have in its scenario, as not testable.

    Where no layer has any, those of another scenario that could have been made. A failure that stands there stays
    alone. ``windowed`` says whether a layer has a window.
    """
    checks: dict[str, dict[tuple[str, object], Check]] = {}
    failed = set()
    for one in known:
        key = (one.check.id, one.check.figures.get("part"))
        if one.check.id != "runs":  # of the scenario, not of a layer
            checks.setdefault(one.scenario, {}).setdefault(key, one.check)
        if one.check.status is Status.FAIL:
            failed.add((one.scenario, one.layer, *key))
    anywhere = {key: check for of_one in checks.values() for key, check in of_one.items() if key[0] == "kernel.output"}
    found = []
    first = {(gap.scenario, gap.layer): gap for gap in reversed(gaps)}
    for gap in sorted(first.values(), key=lambda gap: gap.layer):
        for (id, part), check in checks.get(gap.scenario, anywhere).items():
            other = id in _ONE_LAYER or id == _WINDOW[windowed(gap.layer)]
            if not other and (gap.scenario, gap.layer, id, part) not in failed:
                found.append(Finding(gap.scenario, gap.layer, None, _untested(check, gap.reason)))
    return found


def _untested(check: Check, reason: Message) -> Check:
    part = check.figures.get("part")
    return replace(
        check,
        status=Status.NOT_TESTABLE,
        measured=say("nothing"),
        tolerance=say("none"),
        reason=reason,
        site=None,
        figures={} if part is None else {"part": part},
    )
