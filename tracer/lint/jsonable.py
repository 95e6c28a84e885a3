"""A report as JSON, format ``lint/1`` (``tracer/schemas/lint-1.schema.json``).

Must not know: syntax trees, other formats.
"""

from typing import Any

from tracer.lint.records import Causal, Finding, Hop, Kernel, KernelStatus, Place, Report, Scale, ScaleStatus
from tracer.portable import portable
from tracer.texts import Message


def to_json(report: Report, language: str) -> dict[str, Any]:
    """Return the report; its sentences are in ``language``."""
    count = {status: report.count(status) for status in KernelStatus}
    return {
        "format": "lint/1",
        "paths": [text(path) for path in report.paths],
        "summary": {
            "files": report.files,
            "lines": report.lines,
            "kernels": len(report.kernels),
            "right": count[KernelStatus.RIGHT],
            "depends": count[KernelStatus.DEPENDS],
            "fault": count[KernelStatus.FAULT],
            "unknown": count[KernelStatus.UNKNOWN],
            "findings": len(report.open_findings),
            "suppressed": len(report.findings) - len(report.open_findings),
            "skipped": len(report.skipped),
            "exit_code": report.exit_code,
        },
        "findings": [_finding(finding, language) for finding in report.findings],
        "kernels": [_kernel(kernel, language) for kernel in report.kernels],
        "notes": [{"place": place(note.place), "message": note.message.text(language)} for note in report.notes],
        "skipped": [{"path": text(each.path), "reason": each.why.text(language)} for each in report.skipped],
    }


def text(value: str) -> str:
    """Return text that any encoding of Unicode carries: lone surrogates of a file name are written out."""
    return value.encode("utf-8", "backslashreplace").decode("utf-8")


def _finding(finding: Finding, language: str) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "severity": str(finding.severity),
        "message": finding.message.text(language),
        "fix": finding.fix.text(language),
        "place": place(finding.place),
        "lineage": [_hop(hop, language) for hop in finding.hops],
        "suppressed": finding.suppressed,
    }


def _kernel(kernel: Kernel, language: str) -> dict[str, Any]:
    return {
        "function": kernel.function,
        "kind": kernel.kind,
        "status": str(kernel.status),
        "reason": _said(kernel.why, language),
        "place": place(kernel.place),
        "signature": kernel.signature,
        "arguments": dict(kernel.arguments),
        "scale": [_scale(scale, language) for scale in kernel.scales],
        "causal": _causal(kernel.causal, language),
    }


def _scale(scale: Scale, language: str) -> dict[str, Any]:
    equal = {ScaleStatus.EQUAL: True, ScaleStatus.OTHER: False, ScaleStatus.UNKNOWN: None}[scale.status]
    return {
        "status": str(scale.status),
        "equals_head_dim": equal,
        "default": scale.by_default,
        "expression": scale.expression,
        "normal": scale.normal,
        "reason": _said(scale.why, language),
        "lineage": [_hop(hop, language) for hop in scale.hops],
    }


def _causal(causal: Causal, language: str) -> dict[str, Any]:
    return {
        "status": str(causal.status),
        "default": causal.by_default,
        "expression": causal.expression,
        "depends_on": list(causal.depends_on),
        "reason": _said(causal.why, language),
        "lineage": [_hop(hop, language) for hop in causal.hops],
    }


def _hop(hop: Hop, language: str) -> dict[str, Any]:
    return {**place(hop.place), "binds": hop.binds, "assumed": _said(hop.why, language)}


def place(where: Place) -> dict[str, Any]:
    """Return a place: the file as it was named, where in it, what stands there."""
    return {
        "path": text(where.path),
        "line": where.span.line,
        "column": where.span.column,
        "end_line": where.span.end_line,
        "end_column": where.span.end_column,
        "scope": where.scope,
        "code": where.code,
    }


def _said(why: Message | None, language: str) -> str | None:
    return None if why is None else portable(why).text(language)
