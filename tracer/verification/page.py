"""A verification as a page: how it ended, what failed and where, every check in every scenario, what could not be told.

Must not know: how anything was verified, any output format.
"""

from collections.abc import Sequence

from tracer.names import LONG_DTYPES
from tracer.page.excerpts import Pointed, excerpt
from tracer.page.header import MARKS
from tracer.page.record import (
    Block,
    Column,
    Facts,
    Line,
    Page,
    Piece,
    Prose,
    Role,
    Row,
    Section,
    Table,
    Verdict,
    Verdicts,
    line,
)
from tracer.page.wording import muted, place
from tracer.records import Check, Status
from tracer.texts import Spoken
from tracer.verification.catalogue import CHECKS
from tracer.verification.records import Outcome, Verification
from tracer.verification.review import causes, heads_told, ids_told, layers_told, left_over, untested, where
from tracer.verification.scenarios import SHORT
from tracer.verification.verdict import advice, denial


class _Say(Spoken):
    __slots__ = ()
    file = "verify"


def verify_page(found: Verification, language: str, *, every: bool = False) -> Page:
    """Return the page of a verification in ``language``; ``every`` tells each check in full, not only those that
    failed."""
    say = _Say(language)
    title = line(Piece(say("page_title", subject=found.subject), Role.STRONG))
    told = _table(say, found, every)
    sections = [_ran(say, found), *_failed(say, found), told, _untested(say, found), _warned(say, found)]
    if every:
        sections.append(_told(say, found))
    kept = tuple(section for section in sections if section is not None)
    return Page("verify", language, title, _verdict(say, found), kept)


def _verdict(say: _Say, found: Verification) -> Line:
    checks = {outcome.check.id for outcome in found.outcomes}
    failed = {outcome.check.id for outcome in found.failures}
    passed = {outcome.check.id for outcome in found.outcomes if outcome.check.status is Status.PASS} - failed
    partly = {outcome.check.id for outcome in found.outcomes if outcome.why is not None} & passed
    count = len(found.scenarios)
    whole = {
        "results": len(found.outcomes),
        "scenarios": say("page_scenario") if count == 1 else say("page_scenarios", count=count),
    }
    if failed:
        return line(Piece(f"✗ {say('page_failed', failed=len(failed), checks=len(checks), **whole)}", Role.FAIL))
    if not passed:
        return line(Piece(f"? {say('page_nothing')}", Role.UNTESTED))
    others = {"page_passed_partly": len(partly), "page_passed_untested": len(checks - passed)}
    rest = "".join(say(id, count=count) for id, count in others.items() if count)
    text = say("page_passed", passed=len(passed - partly), rest=rest, **whole)
    return line(Piece(f"✓ {text}", Role.PASS))


def _ran(say: _Say, found: Verification) -> Section:
    model = found.model
    ratio = found.seconds / found.plain_seconds if found.plain_seconds else 0.0
    cost = say("fact_cost" if ratio >= 1 else "fact_cost_alone", seconds=found.seconds, ratio=ratio)
    rows = [
        (
            "model",
            say(
                "fact_shape",
                layers=model.layers,
                heads=model.heads,
                kv_heads=model.kv_heads,
                head_dim=model.head_dim,
                hidden=model.hidden_size,
            ),
        ),
        ("looked", say("fact_layers", layers=_layers(say, found.layers), heads=heads_told(found.heads, say.language))),
        ("kernel", f"{found.kernel.value} · {say.of(found.kernel.reason)}"),
        (
            "dtype",
            f"{LONG_DTYPES[found.dtype.value]} · {found.device.value} · transformers {found.versions['transformers']}",
        ),
        ("prompt", _prompt(say, found)),
        ("windows", _windows(say, found)),
        ("numerics", _numerics(say, found)),
        ("cost", cost),
    ]
    facts = tuple((muted(say(f"label_{name}")), line(value)) for name, value in rows if value)
    return Section("ran", "", (), (Facts(facts),))


def _prompt(say: _Say, found: Verification) -> str:
    count = len(found.tokens)
    if count > SHORT and set(found.scenarios) != {"plain"}:
        return say("fact_tokens_short", count=count, short=SHORT)
    return say("fact_token") if count == 1 else say("fact_tokens", count=count)


def _windows(say: _Say, found: Verification) -> str:
    checks = [o for o in found.outcomes if o.check.id in ("window.none", "window.effective") and o.scenario == "plain"]
    untold = {layer for outcome in checks for layer in outcome.untested}
    groups: dict[tuple[int | None, int | None, bool], list[int]] = {}
    for window in found.windows:
        groups.setdefault((window.configured, window.effective, window.layer in untold), []).append(window.layer)
    told = []
    for (configured, effective, unseen), layers in groups.items():
        seen, wanted = (
            say("window_all") if keys is None else say("window_keys", keys=keys) for keys in (effective, configured)
        )
        name = "fact_window_one" if len(layers) == 1 else "fact_window"
        name = "fact_window_untested" if unseen else name
        told.append(say(name, layers=_layers(say, layers), seen=seen, wanted=wanted))
    return "; ".join(told)


def _layers(say: _Say, numbers: Sequence[int]) -> str:
    return layers_told(numbers, say.language)


def _numerics(say: _Say, found: Verification) -> str:
    """Return flash-attention's criterion with its three numbers, for the first looked-at head."""
    first = next((o.check for o in found.outcomes if o.check.id == "kernel.output"), None)
    if first is None or first.status is Status.NOT_TESTABLE:
        return ""
    return say("fact_numerics", measured=first.measured, allowed=first.tolerance)


def _told(say: _Say, found: Verification) -> Section:
    """Return every outcome in full: claim, measured, expected, tolerance, why, and place."""
    items = []
    for outcome in found.outcomes:
        check = outcome.check
        mark, role = MARKS[check.status]
        rows = (("measured", check.measured), ("expected", check.expected), ("tolerance", check.tolerance))
        details = [(say(f"row_{name}").strip(" :："), line(Piece(say.of(text), Role.NUMBER))) for name, text in rows]
        details.append((say("row_seen").strip(" :："), line(where(outcome, found, say.language))))
        at = ("  ", place(check.site)) if check.site is not None else ()
        claim = line(Piece(say.of(check.claim), Role.STRONG), muted(f"  {check.id}")[0], *at)
        items.append(Verdict(role, mark, claim, tuple(details), muted(say.of(check.reason))))
    return Section("every", "", line(say("page_every")), (Verdicts(tuple(items)),))


def _failed(say: _Say, found: Verification) -> list[Section]:
    """Return the failures that are told in full, each with its place."""
    blocks: list[Block] = []
    told = causes(found)
    for outcome, also in told:
        check = outcome.check
        rows = [("measured", check.measured), ("expected", check.expected), ("because", check.reason)]
        details = [(say(f"row_{name}").strip(" :："), line(say.of(text))) for name, text in rows]
        details.append((say("row_seen").strip(" :："), line(where(outcome, found, say.language))))
        if also:
            details.append((say("row_also").strip(" :："), line(", ".join(also))))
        mark, role = MARKS[Status.FAIL]
        claim = line(Piece(say.of(denial(check)), Role.STRONG), muted(f"  {check.id}")[0])
        change = line(Piece(say.of(advice(check)), Role.STRONG))
        blocks.append(Verdicts((Verdict(role, mark, claim, tuple(details), change),)))
        if check.site is not None:
            blocks.append(excerpt([Pointed(check.site, "")]))
    rest = left_over(found, told)
    if rest:
        blocks.append(Prose(line(say("review_more", ids=", ".join(rest)))))
    return [Section("failures", "", line(say("page_failures")), tuple(blocks))] if blocks else []


def _table(say: _Say, found: Verification, every: bool) -> Section:
    """Return every check in every scenario: one row a check, one narrow column a scenario, with its number as title."""
    by_check: dict[str, dict[str, list[Outcome]]] = {}
    for outcome in found.outcomes:
        by_check.setdefault(outcome.check.id, {}).setdefault(outcome.scenario, []).append(outcome)
    columns = (
        Column(say("column_check"), names=True),
        *(Column(str(number)) for number, _ in enumerate(found.scenarios, 1)),
        Column(say("column_measured")),
    )
    ids = [id for id in CHECKS if id in by_check] + [id for id in by_check if id not in CHECKS]
    rows = []
    for id in ids:
        outcomes = [outcome for group in by_check[id].values() for outcome in group]
        first = min(outcomes, key=lambda outcome: _WEIGHT[outcome.check.status])
        marks = [_mark(by_check[id].get(scenario, [])) for scenario in found.scenarios]
        rows.append(Row((line(Piece(id, Role.LABEL)), *marks, _measured(say, first.check))))
    names = [f"{number} {say(f'scenario_{scenario}')}" for number, scenario in enumerate(found.scenarios, 1)]
    legend = Prose(muted(" · ".join(names)))
    more = () if every else (Prose(muted(say("page_more"))),)
    return Section("checks", "", line(say("page_checks")), (legend, Table(columns, tuple(rows)), *more))


_WEIGHT = {Status.FAIL: 0, Status.PASS: 1, Status.NOT_TESTABLE: 2}


def _mark(outcomes: list[Outcome]) -> Line:
    """Return one mark for what is one check: both ✓ and ? where only a part of it could be tested."""
    statuses = {outcome.check.status for outcome in outcomes}
    if not statuses:
        return ()
    if Status.FAIL in statuses:
        shown = [Status.FAIL]
    elif Status.PASS in statuses and not all(outcome.whole for outcome in outcomes):
        shown = [Status.PASS, Status.NOT_TESTABLE]
    else:
        shown = [min(statuses, key=lambda status: _WEIGHT[status])]
    return tuple(Piece(MARKS[status][0], MARKS[status][1]) for status in shown)


def _measured(say: _Say, check: Check) -> Line:
    if check.status is Status.NOT_TESTABLE:
        return muted(say("not_testable"))
    return line(Piece(say.of(check.measured), Role.NUMBER))


def _untested(say: _Say, found: Verification) -> Section | None:
    """Return what could not be tested, as a whole or in part, and why."""
    told = untested(found, say.language)
    if not told:
        return None
    rows = tuple((muted(ids_told(ids, scenarios)), line(reason)) for ids, scenarios, reason in told)
    return Section("untested", "", line(say("page_untested")), (Facts(rows),))


def _warned(say: _Say, found: Verification) -> Section | None:
    if not found.warnings:
        return None
    blocks = tuple(Prose(line(Piece("! ", Role.WARNING), say.of(warning))) for warning in found.warnings)
    return Section("warnings", "", line(say("page_warnings")), blocks)
