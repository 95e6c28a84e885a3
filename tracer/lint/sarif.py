"""A report as SARIF 2.1.0, for code hosts and editors.

Columns count code points from 1; a waived finding is a suppressed result; a kernel that could not be judged is a result
of kind open, one whose causality its caller decides of kind review, so that silence is never a pass; files that were
not judged, and waivers that waive nothing, are notifications.
Must not know: syntax trees, other formats.
"""

import importlib.metadata
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from tracer.lint.jsonable import text
from tracer.lint.records import Finding, Kernel, KernelStatus, Place, Report
from tracer.lint.rules.table import BETWEEN, RULES
from tracer.texts import message

_KINDS = {KernelStatus.UNKNOWN: ("kernel-unknown", "open"), KernelStatus.DEPENDS: ("causal-depends", "review")}
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def to_sarif(report: Report, language: str) -> dict[str, Any]:
    """Return the report as one SARIF log of one run; its sentences are in ``language``."""
    rules = [*((rule.id, str(rule.severity)) for rule in RULES), (BETWEEN, "warning")]
    rules += [(id, "none") for id, _ in _KINDS.values()]
    order = {id: index for index, (id, _) in enumerate(rules)}
    driver = {
        "name": "tracer",
        "version": importlib.metadata.version("tracer"),
        "rules": [_rule(id, level, language) for id, level in rules],
    }
    run = {
        "tool": {"driver": driver},
        "language": {"en": "en", "zh": "zh-CN"}[language],
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": True,
                "exitCode": report.exit_code,
                "toolExecutionNotifications": [
                    {
                        "level": "warning",
                        "message": {"text": each.why.text(language)},
                        "locations": [{"physicalLocation": {"artifactLocation": {"uri": uri(each.path)}}}],
                    }
                    for each in report.skipped
                ]
                + [
                    {
                        "level": "warning",
                        "message": {"text": each.message.text(language)},
                        "locations": [_location(each.place)],
                    }
                    for each in report.notes
                ],
            }
        ],
        "results": [
            *(_result(finding, order[finding.rule], language) for finding in report.findings),
            *(_open(each, order, language) for each in report.kernels if each.status in _KINDS),
        ],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def uri(path: str) -> str:
    """Return a file's name as a URI reference: relative as it was named, or with the scheme file."""
    plain = text(path)
    if PurePath(plain).is_absolute():
        return PurePath(plain).as_uri()
    quoted = quote(PurePath(plain).as_posix(), safe="/")
    return quoted.replace(":", "%3A")  # a colon in a first part would read as a scheme


def _rule(id: str, level: str, language: str) -> dict[str, Any]:
    name = f"lint.{id.replace('-', '_')}_what"
    return {
        "id": id,
        "name": "".join(word.capitalize() for word in id.split("-")),
        "shortDescription": {"text": message(name).text(language)},
        "defaultConfiguration": {"level": level},
    }


def _result(finding: Finding, index: int, language: str) -> dict[str, Any]:
    said, fix = finding.message.text(language), finding.fix.text(language)
    gap = "" if language == "zh" else " "
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": str(finding.severity),
        "message": {"text": f"{said}{gap}{fix}"},
        "locations": [_location(finding.place)],
    }
    if finding.hops:
        flow = [{"location": {**_location(hop.place), "message": {"text": hop.binds}}} for hop in finding.hops]
        result["codeFlows"] = [{"threadFlows": [{"locations": flow}]}]
    if finding.kernel is not None and finding.kernel != finding.place:
        said_of = {"text": message("lint.related_kernel").text(language)}
        result["relatedLocations"] = [{**_location(finding.kernel), "message": said_of}]
    if finding.suppressed is not None:
        result["suppressions"] = [{"kind": "inSource", "justification": finding.suppressed}]
    return result


def _open(kernel: Kernel, order: dict[str, int], language: str) -> dict[str, Any]:
    rule, kind = _KINDS[kernel.status]
    gap = "" if language == "zh" else " "
    if kernel.status is KernelStatus.UNKNOWN:
        reasons = gap.join(each.text(language) for each in kernel.reasons)
        said = message("lint.kernel_unknown", function=kernel.function, reasons=reasons)
    else:
        conditions = ", ".join(" ".join(each.split()) for each in kernel.causal.depends_on)
        said = message("lint.causal_depends_on", function=kernel.function, conditions=conditions)
    return {
        "ruleId": rule,
        "ruleIndex": order[rule],
        "kind": kind,
        "level": "none",
        "message": {"text": said.text(language).strip()},
        "locations": [_location(kernel.place)],
    }


def _location(where: Place) -> dict[str, Any]:
    span = where.span
    region = {
        "startLine": span.line,
        "startColumn": span.column + 1,
        "endLine": span.end_line,
        "endColumn": span.end_column + 1,
        "snippet": {"text": where.code},
    }
    location: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": {"uri": uri(where.path)}, "region": region},
    }
    if where.scope:
        location["logicalLocations"] = [{"fullyQualifiedName": where.scope}]
    return location
