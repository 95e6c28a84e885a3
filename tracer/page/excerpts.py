"""Excerpts of the real source: true line numbers, the expression marked.

The lines come from the site's file where that file still has the sha256 that was traced, else from the expression's
own code, which every site carries. Must not know: what the expressions mean, layout.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tracer.page.record import CodeLine, Excerpt, Line, Mark, line
from tracer.page.wording import muted, place
from tracer.records import Site
from tracer.source.text import Text

_MOST_LINES = 14
GAP = CodeLine(0, "⋮")  # lines that are left out


@dataclass(frozen=True, slots=True)
class Pointed:
    """An expression to be pointed at, and what is written at it."""

    site: Site
    label: str


def excerpt(pointed: Sequence[Pointed], above: int = 0) -> Excerpt:
    """Return the lines of expressions of one file, in the order of the file, each expression marked; with them so many
    lines ``above`` each, where the file is here."""
    pointed = tuple(dict.fromkeys(pointed))  # one expression may give several tensors
    first = pointed[0].site
    text = _text(first.file, first.sha256)
    rows = _from_file(text, pointed, above) if text is not None else _from_code(pointed)
    return Excerpt(heading(first), dedented(rows))


def heading(site: Site) -> Line:
    """Return the place and its scope."""
    return line(place(site), *muted(f"  {site.scope}"))


@lru_cache(maxsize=16)
def _text(file: Path, sha256: str) -> Text | None:
    """Return the file's text where it is here and still the traced one, else None."""
    if not file.is_absolute():
        return None
    try:
        content = file.read_bytes()
    except OSError:
        return None
    return Text.of(content.decode("utf-8")) if hashlib.sha256(content).hexdigest() == sha256 else None


def _from_file(text: Text, pointed: Sequence[Pointed], above: int) -> list[CodeLine]:
    wanted = sorted({number for each in pointed for number in _numbers(each.site, above)})
    rows: list[CodeLine] = []
    for number in wanted:
        if rows and rows[-1].number != number - 1:
            rows.append(GAP)
        (content,) = text.lines(number, number)
        rows.append(CodeLine(number, content, _marks(number, content, pointed)))
    return rows


def _numbers(site: Site, above: int = 0) -> range:
    """Return the lines of an expression, the last of a very long one left out."""
    return range(max(site.span.line - above, 1), min(site.span.end_line, site.span.line + _MOST_LINES - 1) + 1)


def _marks(number: int, content: str, pointed: Sequence[Pointed]) -> tuple[Mark, ...]:
    marks = []
    for each in pointed:
        span = each.site.span
        if not span.line <= number <= span.end_line:
            continue
        start = span.column if number == span.line else len(content) - len(content.lstrip())
        end = span.end_column if number == span.end_line else len(content)
        marks.append(Mark(start, end, each.label if number == span.line else ""))
    return tuple(marks)


def _from_code(pointed: Sequence[Pointed]) -> list[CodeLine]:
    """Return the expressions alone, each on its own true lines; an expression inside another is marked there."""
    rows: list[CodeLine] = []
    outer = [each for each in pointed if not any(_inside(each.site, other.site) for other in pointed)]
    for each in sorted(outer, key=lambda each: each.site.span):
        span = each.site.span
        lines = Text.of(" " * span.column + each.site.code).lines(1, len(_numbers(each.site)))
        for number, content in enumerate(lines, span.line):
            rows.append(CodeLine(number, content, _marks(number, content, pointed)))
    return rows


def _inside(site: Site, other: Site) -> bool:
    a, b = site.span, other.span
    within = (b.line, b.column) <= (a.line, a.column) and (a.end_line, a.end_column) <= (b.end_line, b.end_column)
    return within and a != b


def dedented(rows: list[CodeLine]) -> tuple[CodeLine, ...]:
    """Return lines without the indent that all of them have, their marks moved along."""
    indents = [len(row.text) - len(row.text.lstrip()) for row in rows if row.number and row.text.strip()]
    cut = min(indents, default=0)
    return tuple(
        CodeLine(
            row.number,
            row.text[cut:].rstrip() if row.number else row.text,
            tuple(Mark(mark.start - cut, mark.end - cut, mark.label) for mark in row.marks),
        )
        for row in rows
    )
