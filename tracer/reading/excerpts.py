"""Excerpts of source with lines around the expression, true numbers, and the expression marked.

Must not know: what is shown, or why.
"""

from tracer.page.excerpts import GAP, dedented, heading
from tracer.page.record import CodeLine, Excerpt, Line, Mark
from tracer.records import Site
from tracer.source.text import Text

_MOST = 12  # lines of one expression; a longer one is cut in the middle of its tail


def around(site: Site, text: Text, label: str = "", before: int = 0, after: int = 0, note: Line = ()) -> Excerpt:
    """Return the lines of ``site`` in ``text``, its file, with some before and after; ``label`` stands at the mark."""
    span = site.span
    last = min(span.end_line, span.line + _MOST - 1)
    first, end = max(span.line - before, 1), (last + after if last == span.end_line else last)
    rows = [
        CodeLine(number, content, _marks(number, content, site, label))
        for number, content in enumerate(text.lines(first, end), first)
    ]
    if last < span.end_line:
        rows.append(GAP)
    return Excerpt(heading(site), dedented(_trimmed(rows)), note)


def _marks(number: int, content: str, site: Site, label: str) -> tuple[Mark, ...]:
    span = site.span
    if not span.line <= number <= span.end_line or not content.strip():
        return ()
    start = span.column if number == span.line else len(content) - len(content.lstrip())
    end = span.end_column if number == span.end_line else len(content.rstrip())
    return (Mark(start, end, label if number == span.line else ""),) if end > start else ()


def _trimmed(rows: list[CodeLine]) -> list[CodeLine]:
    """Leave out blank lines at either end."""
    while rows and not rows[0].text.strip():
        rows = rows[1:]
    while rows and not rows[-1].text.strip():
        rows = rows[:-1]
    return rows
