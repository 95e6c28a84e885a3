"""A report as SARIF 2.1.0, for code hosts and editors.

Columns count code points from 1; a waived finding is a suppressed result; files that were not judged are notifications.
Must not know: syntax trees, other formats.
"""

import importlib.metadata
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from tracer.lint.jsonable import text
from tracer.lint.records import Finding, Place, Report
from tracer.lint.rules.table import BETWEEN, RULES
from tracer.texts import message

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def to_sarif(report: Report, language: str) -> dict[str, Any]:
    """Return the report as one SARIF log of one run; its sentences are in ``language``."""
    rules = [*((rule.id, str(rule.severity)) for rule in RULES), (BETWEEN, "warning")]
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
                ],
            }
        ],
        "results": [_result(finding, order[finding.rule], language) for finding in report.findings],
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
    if finding.suppressed is not None:
        result["suppressions"] = [{"kind": "inSource", "justification": finding.suppressed}]
    return result


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
