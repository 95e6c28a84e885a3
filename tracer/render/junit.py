"""A verification as a JUnit XML file, which continuous integration shows as tests: one suite a scenario, one case a
check.

Must not know: files. Nothing is computed here.
"""

import re
from itertools import groupby
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from tracer.records import Status
from tracer.render import jsonable
from tracer.texts import DEFAULT_LANGUAGE, Message, message
from tracer.verification.records import Outcome, Verification
from tracer.verification.review import layers_told, where
from tracer.verification.verdict import advice

# What XML 1.0 cannot hold at all, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def dumps(found: Verification, language: str = DEFAULT_LANGUAGE) -> str:
    """Return the verification as JUnit XML text, UTF-8 declared, with a line end."""
    root = Element("testsuites", name="trace verify")
    _count(root, found.outcomes)
    root.set("time", f"{found.seconds:.3f}")
    order = {scenario: number for number, scenario in enumerate(found.scenarios)}
    ordered = sorted(found.outcomes, key=lambda outcome: order[outcome.scenario])
    for scenario, group in groupby(ordered, key=lambda outcome: outcome.scenario):
        outcomes = tuple(group)
        suite = SubElement(root, "testsuite", name=_clean(f"{found.subject} · {scenario}"))
        _count(suite, outcomes)
        for outcome in outcomes:
            _case(suite, outcome, found, language)
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _count(element: Element, outcomes: tuple[Outcome, ...]) -> None:
    statuses = [outcome.check.status for outcome in outcomes]
    element.set("tests", str(len(statuses)))
    element.set("failures", str(statuses.count(Status.FAIL)))
    element.set("errors", "0")
    element.set("skipped", str(statuses.count(Status.NOT_TESTABLE)))


def _case(suite: Element, outcome: Outcome, found: Verification, language: str) -> None:
    def say(text: Message) -> str:
        return _clean(jsonable.sentence(text, language))

    check = outcome.check
    name = f"{check.id}{'' if outcome.part is None else f' ({outcome.part})'}: {say(check.claim)}"
    case = SubElement(suite, "testcase", classname=f"tracer.verify.{outcome.scenario}", name=name, time="0")
    if check.site is not None:
        case.set("file", _clean(check.site.path))
        case.set("line", str(check.site.span.line))
    if check.status is Status.NOT_TESTABLE:
        SubElement(case, "skipped", message=say(check.reason))
    elif check.status is Status.FAIL:
        failure = SubElement(case, "failure", type=check.id, message=say(check.measured))
        place = "" if check.site is None else f"{check.site.place} · {check.site.scope}\n{check.site.code}\n"
        rows = [("measured", check.measured), ("expected", check.expected), ("because", check.reason)]
        told = "".join(f"{say(message(f'verify.row_{row}')).strip()} {say(text)}\n" for row, text in rows)
        seen = f"{say(message('verify.row_seen')).strip()} {where(outcome, found, language)}\n"
        change = f"{say(message('verify.row_change')).strip()} {say(advice(check))}\n"
        failure.text = _clean(f"\n{place}{told}{seen}{change}")
    if check.status is not Status.NOT_TESTABLE and outcome.reasons:
        label = message("verify.not_testable").text(language)
        SubElement(case, "system-out").text = _clean("\n".join(f"{label}: {x}" for x in _untested(outcome, language)))


def _untested(outcome: Outcome, language: str) -> list[str]:
    """Return the layers in which a check that was made in other ones could not be, with the reason."""
    return [
        message("verify.unseen_row", ids=layers_told(layers, language), reason=reason).text(language).lstrip("- ")
        for reason, layers in outcome.reasons
    ]


def _clean(text: str) -> str:
    """Return ``text`` with what XML cannot hold spelt out."""
    return _NOT_XML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
