"""The checks that end a page: what each claims, what was measured and expected, how far apart they may be, and why.

Must not know: how a check is made.
"""

from collections.abc import Sequence

from tracer.page.header import MARKS
from tracer.page.record import Line, Piece, Prose, Role, Section, Verdict, Verdicts, line
from tracer.page.wording import Words, muted, place
from tracer.records import Check, Status
from tracer.texts import Message

_ORDER = {Status.FAIL: 0, Status.NOT_TESTABLE: 1, Status.PASS: 2}


def checks(say: Words, found: tuple[Check, ...]) -> Section:
    """Return all checks, failing ones first."""
    ordered = sorted(found, key=lambda check: _ORDER[check.status])
    return Section("checks", "", line(say("checks_heading")), (Verdicts(tuple(_verdict(say, c) for c in ordered)),))


def failures(say: Words, found: Sequence[tuple[str, Check]]) -> Section | None:
    """Return the failing checks alone, for the top of the page; None where none failed. Each check comes with the name
    of the head it is about, empty on a page of one head."""
    failed = tuple(_verdict(say, check, name) for name, check in found if check.status is Status.FAIL)
    return Section("failures", "", line(say("failures_heading")), (Verdicts(failed),)) if failed else None


def _verdict(say: Words, check: Check, name: str = "") -> Verdict:
    mark, role = MARKS[check.status]
    details = [
        (say(f"check_{name}"), line(Piece(say.of(value), Role.NUMBER)))
        for name, value in (
            ("measured", check.measured),
            ("expected", check.expected),
            ("tolerance", check.tolerance),
        )
        if say.of(value)
    ]
    claim = (Piece(f"{name}  ", Role.MUTED), *_claim(say, check)) if name else _claim(say, check)
    return Verdict(role, mark, claim, tuple(details), muted(say.of(check.reason)))


def _claim(say: Words, check: Check) -> Line:
    where = ("  ", place(check.site)) if check.site is not None and check.status is not Status.PASS else ()
    return line(Piece(say.of(check.claim), Role.STRONG), *where)


def warnings(say: Words, found: tuple[Message, ...]) -> Section | None:
    """Return what the run warned of, None where nothing."""
    if not found:
        return None
    return Section(
        "warnings",
        "",
        line(say("warnings_heading")),
        tuple(Prose(line(Piece("! ", Role.WARNING), say.of(warning))) for warning in found),
    )
