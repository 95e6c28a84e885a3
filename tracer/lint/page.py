"""A report as a page: findings with their code and path first, then every kernel with what is known of it.

Must not know: syntax trees, layout.
"""

from collections.abc import Iterable, Iterator, Sequence

from tracer.lint.records import (
    Causal,
    CausalStatus,
    Finding,
    Hop,
    Kernel,
    KernelStatus,
    Place,
    Report,
    Scale,
    ScaleStatus,
    Severity,
)
from tracer.page.record import (
    Block,
    CodeLine,
    Excerpt,
    Facts,
    Line,
    Link,
    Mark,
    Page,
    Piece,
    Prose,
    Role,
    Section,
    Verdict,
    Verdicts,
    line,
)
from tracer.page.visible import visible
from tracer.texts import message

_LONGEST_CODE = 100
_LONGEST_LINE = 240
_MARKS = {KernelStatus.RIGHT: "✓", KernelStatus.DEPENDS: "~", KernelStatus.FAULT: "✗", KernelStatus.UNKNOWN: "?"}
_ROLES = {
    KernelStatus.RIGHT: Role.PASS,
    KernelStatus.DEPENDS: Role.UNTESTED,
    KernelStatus.FAULT: Role.FAIL,
    KernelStatus.UNKNOWN: Role.UNTESTED,
}


def lint_page(report: Report, language: str) -> Page:
    """Return the page of a lint."""
    waived = [finding for finding in report.findings if finding.suppressed is not None]
    sections = [
        *_findings(report.open_findings, language),
        *_kernels(report, language),
        *_waived(waived, language),
        *_notes(report, language),
        *_skipped(report, language),
    ]
    title = line(_text("title", language, files=report.files, lines=report.lines))
    return Page("lint", language, title, _verdict(report, language), tuple(sections))


def _text(name: str, language: str, **values: object) -> str:
    return message(f"lint.{name}", **values).text(language)


def _verdict(report: Report, language: str) -> Line:
    counts = {str(status): report.count(status) for status in KernelStatus} | {"kernels": len(report.kernels)}
    if report.exit_code == 1:
        return line(Piece(_text("verdict_findings", language, findings=len(report.open_findings)), Role.FAIL))
    if not report.kernels:
        return line(Piece(_text("verdict_no_kernel", language), Role.UNTESTED))
    said = [Piece(_text("verdict_no_findings", language), Role.MUTED)]
    shown = (KernelStatus.RIGHT, KernelStatus.DEPENDS, KernelStatus.UNKNOWN)
    for status in shown:
        if counts[status] or status is KernelStatus.RIGHT:
            role = _ROLES[status] if counts[status] else Role.MUTED
            said.append(
                Piece(_text(f"verdict_{status}", language, count=counts[status], kernels=counts["kernels"]), role)
            )
    pieces: list[Piece] = []
    for piece in said:
        pieces += [Piece(_text("verdict_gap", language), Role.MUTED)] if pieces else []
        pieces.append(piece)
    return tuple(pieces)


def _findings(findings: Sequence[Finding], language: str) -> Iterator[Section]:
    for number, finding in enumerate(findings, start=1):
        severity = _text(f"severity_{finding.severity}", language)
        role = Role.FAIL if finding.severity is Severity.ERROR else Role.WARNING
        blocks: list[Block] = [
            Prose(line(Piece(severity + _text("colon", language), role), finding.message.text(language))),
            _excerpt(finding.place),
        ]
        rows = [(line(_text("label_fix", language)), line(finding.fix.text(language)))]
        if finding.hops:
            rows.insert(0, (line(_text("label_path", language)), _path(finding.hops)))
        blocks.append(Facts(tuple(rows)))
        yield Section(f"finding-{number}", str(number), line(finding.rule), tuple(blocks))


def _excerpt(place: Place) -> Excerpt:
    """The lines of a place under their true numbers, the expression marked; many lines, and very long ones, are cut."""
    common = min((len(each) - len(each.lstrip()) for each in place.lines if each.strip()), default=0)
    rows = []
    for number, content in enumerate(place.lines, start=place.span.line):
        start = place.span.column if number == place.span.line else len(content) - len(content.lstrip())
        end = place.span.end_column if number == place.span.end_line else len(content)
        begin = max(common, start - _LONGEST_LINE // 2)
        end = min(end, begin + _LONGEST_LINE)
        rows.append(_code_line(number, content[begin:start], content[start:end], content[end : begin + _LONGEST_LINE]))
    if place.span.end_line >= place.span.line + len(rows):
        rows.append(CodeLine(0, "⋮"))
    return Excerpt(line(_place(place), Piece(f"  {place.scope}", Role.MUTED)), tuple(rows))


def _code_line(number: int, before: str, marked: str, after: str) -> CodeLine:
    """A line in three parts, of which the second is marked: nothing in them acts on what it is shown on."""
    parts = [visible(part.replace("\t", "    ")) for part in (before, marked, after)]
    mark = Mark(len(parts[0]), len(parts[0]) + len(parts[1]), "")
    return CodeLine(number, "".join(parts), (mark,) if parts[1] else ())


def _place(place: Place, short: bool = False) -> Piece:
    shown = place.short if short else f"{place.path}:{place.span.line}:{place.span.column}"
    return Piece(shown, Role.PLACE, Link(place.file.absolute(), place.span.line, None))


def _path(hops: Sequence[Hop]) -> Line:
    parts: list[Piece] = []
    for hop in hops:
        if parts:
            parts.append(Piece(" → ", Role.MUTED))
        parts += [Piece(_one_line(hop.place.code), Role.CODE), Piece(" "), _place(hop.place, short=True)]
    return tuple(parts)


def _one_line(code: str) -> str:
    text = " ".join(code.split())
    return text if len(text) <= _LONGEST_CODE else f"{text[: _LONGEST_CODE - 1]}…"


def _kernels(report: Report, language: str) -> Iterator[Section]:
    if not report.kernels:
        return
    order = {KernelStatus.FAULT: 0, KernelStatus.UNKNOWN: 1, KernelStatus.DEPENDS: 2, KernelStatus.RIGHT: 3}
    kernels = sorted(report.kernels, key=lambda kernel: order[kernel.status])
    blocks: list[Block] = [Verdicts(tuple(_kernel(kernel, language) for kernel in kernels))]
    if any(kernel.status is KernelStatus.UNKNOWN for kernel in kernels):
        blocks.append(Prose(line(Piece(_text("unknown_note", language), Role.MUTED))))
    if any(kernel.status is KernelStatus.DEPENDS for kernel in kernels):
        blocks.append(Prose(line(Piece(_text("depends_note", language), Role.MUTED))))
    yield Section("kernels", "", line(_text("heading_kernels", language)), tuple(blocks))


def _kernel(kernel: Kernel, language: str) -> Verdict:
    claim = line(kernel.function, "  ", _place(kernel.place), Piece(f"  {kernel.place.scope}", Role.MUTED))
    details = [(_text("label_scale", language), each) for each in _scales(kernel.scales, language)]
    details.append((_text("label_causal", language), _causal(kernel.causal, language)))
    if kernel.arguments:
        given = ", ".join(f"{name}={_one_line(code)}" for name, code in kernel.arguments)
        details.append((_text("label_arguments", language), line(Piece(given, Role.CODE))))
    reasons = [why.text(language) for why in kernel.reasons]
    gap = "" if language == "zh" else " "
    return Verdict(_ROLES[kernel.status], _MARKS[kernel.status], claim, tuple(details), line(gap.join(reasons)))


def _scales(scales: Iterable[Scale], language: str) -> Iterator[Line]:
    for scale in scales:
        what = _scale(scale, language)
        yield (*line(what, "  "), *_path(scale.hops)) if scale.hops else line(what)


def _scale(scale: Scale, language: str) -> str:
    if scale.status is ScaleStatus.EQUAL:
        return _text("scale_default" if scale.by_default else "scale_equal", language)
    if scale.status is ScaleStatus.UNKNOWN:
        return _text("scale_likely" if scale.normal else "scale_unknown", language, normal=scale.normal)
    name = "scale_default_scaled" if scale.by_default else "scale_other"
    return _text(name, language, normal=scale.normal)


def _causal(causal: Causal, language: str) -> Line:
    conditions = ", ".join(_one_line(each) for each in causal.depends_on[:4])
    name = f"causal_{causal.status}"
    if causal.status is CausalStatus.FALSE and causal.by_default:
        name = "causal_false_default"
    return line(_text(name, language, **({"conditions": conditions} if causal.status is CausalStatus.DEPENDS else {})))


def _waived(findings: Sequence[Finding], language: str) -> Iterator[Section]:
    if findings:
        rows = tuple(
            (line(_place(finding.place)), line(f"{finding.rule}: {finding.suppressed}")) for finding in findings
        )
        yield Section("waived", "", line(_text("heading_waived", language)), (Facts(rows),))


def _notes(report: Report, language: str) -> Iterator[Section]:
    if report.notes:
        rows = tuple((line(_place(note.place)), line(note.message.text(language))) for note in report.notes)
        yield Section("notes", "", line(_text("heading_notes", language)), (Facts(rows),))


def _skipped(report: Report, language: str) -> Iterator[Section]:
    if report.skipped:
        rows = tuple((line(Piece(each.path, Role.PLACE)), line(each.why.text(language))) for each in report.skipped)
        yield Section("skipped", "", line(_text("heading_skipped", language)), (Facts(rows),))
