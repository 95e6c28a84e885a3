"""Findings waived beside the code: ``# tracer: ignore[rule] reason``.

Must not know: rules.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from tracer.lint.records import Finding

_COMMENT = re.compile(r"#\s*tracer:\s*ignore\[([a-z0-9-]+(?:\s*,\s*[a-z0-9-]+)*)\][\s:–-]*(.*)$")
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
