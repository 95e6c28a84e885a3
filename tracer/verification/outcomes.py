"""Bring the findings of all layers and heads together: one outcome for each check and scenario.

Must not know: how findings come about.
"""

from collections.abc import Iterable

from tracer.records import Status
from tracer.texts import Message
from tracer.verification.catalogue import CHECKS
from tracer.verification.records import Finding, Outcome


def outcomes(findings: Iterable[Finding], scenarios: tuple[str, ...]) -> tuple[Outcome, ...]:
    """Return an outcome for each scenario and check, failures first, otherwise in the order of scenarios and checks.

    A check passes where at least one layer and head could be tested and none failed; what could not be is told beside.
    """
    groups: dict[tuple[str, str, str | None], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.scenario, finding.check.id, _part(finding)), []).append(finding)
    made = [_together(group) for group in groups.values()]
    order = {scenario: n for n, scenario in enumerate(scenarios)}
    rank = {id: n for n, id in enumerate(CHECKS)}
    return tuple(
        sorted(
            made,
            key=lambda o: (o.check.status is not Status.FAIL, order[o.scenario], rank.get(o.check.id, len(rank))),
        )
    )


def _together(group: list[Finding]) -> Outcome:
    failed = [finding for finding in group if finding.check.status is Status.FAIL]
    passed = [finding for finding in group if finding.check.status is Status.PASS]
    untested = [finding for finding in group if finding.check.status is Status.NOT_TESTABLE]
    shown = (failed or passed or untested)[0]
    return Outcome(
        check=shown.check,
        scenario=shown.scenario,
        layer=shown.layer,
        head=shown.head,
        part=_part(shown),
        tested=len(failed) + len(passed),
        failed=tuple((finding.layer, finding.head) for finding in failed),
        untested=tuple(dict.fromkeys(finding.layer for finding in untested)),
        reasons=_reasons(untested),
    )


def _reasons(untested: list[Finding]) -> tuple[tuple[Message, tuple[int, ...]], ...]:
    """Return each different reason with the layers it holds for."""
    found: list[tuple[Message, list[int]]] = []
    for finding in untested:
        layers = next((layers for reason, layers in found if reason == finding.check.reason), None)
        if layers is None:
            found.append((finding.check.reason, [finding.layer]))
        elif finding.layer not in layers:
            layers.append(finding.layer)
    return tuple((reason, tuple(layers)) for reason, layers in found)


def _part(finding: Finding) -> str | None:
    part = finding.check.figures.get("part")
    return part if isinstance(part, str) else None
