"""Findings waived beside the code: ``# tracer: ignore[rule] reason``; and comments of that kind that waive nothing.

Must not know: how a rule decides.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from tracer.lint.gather import Read
from tracer.lint.records import Finding, Note, Place
from tracer.records import Span
from tracer.texts import Message, message

_COMMENT = re.compile(r"#\s*tracer:\s*ignore\[([a-z0-9-]+(?:\s*,\s*[a-z0-9-]+)*)\][\s:–-]*(.*)$")
_LIKE = re.compile(r"#\s*tracer:\s*ignore\b")
_LONGEST_REASON = 500


def waived(finding: Finding, lines: Sequence[str]) -> Finding:
    """Return the finding, with the reason where a comment on its lines, or alone on the line above, waives its rule.

    A comment without a reason waives nothing.
    """
    first, last = finding.place.span.line, finding.place.span.end_line
    candidates = [lines[n - 1] for n in range(first, min(last, len(lines)) + 1)]
    if first >= 2 and lines[first - 2].lstrip().startswith("#"):
        candidates.append(lines[first - 2])
    for line in candidates:
        found = _COMMENT.search(line)
        if found and finding.rule in re.split(r"\s*,\s*", found[1]) and found[2].strip():
            return replace(finding, suppressed=found[2].strip()[:_LONGEST_REASON])
    return finding


def idle(read: Read, rules: Collection[str]) -> Iterator[Note]:
    """Yield the waivers of a file that waive nothing: of a rule that does not exist, or without a reason."""
    if "tracer:" not in read.source:
        return
    for number, line in enumerate(read.source.splitlines(), start=1):
        found = _LIKE.search(line) if "tracer:" in line else None
        why = _idle(line, rules) if found else None
        if found and why is not None:
            span = Span(number, found.start(), number, len(line))
            yield Note(Place(read.name, read.file, span, "", line[found.start() :], (line,)), why)


def _idle(line: str, rules: Collection[str]) -> Message | None:
    found = _COMMENT.search(line)
    if found is None:
        return message("lint.waiver_form")
    unknown = [each for each in re.split(r"\s*,\s*", found[1]) if each not in rules]
    if unknown:
        return message("lint.waiver_rule", rule=", ".join(unknown), rules=", ".join(sorted(rules)))
    return None if found[2].strip() else message("lint.waiver_reason")
