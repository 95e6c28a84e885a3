"""Offsets, splices and excerpts of source text.

Lines end only at ``\\n``, ``\\r\\n`` and ``\\r``, as Python's own tokenizer has it: str.splitlines also splits at form
feeds and Unicode separators, which would shift every line after one. Must not know: syntax trees, files.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from tracer.records import Span

_NEWLINE = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class Text:
    """A source text with the offset at which each of its lines starts."""

    source: str
    starts: tuple[int, ...]

    @classmethod
    def of(cls, source: str) -> "Text":
        """Return the Text of ``source``."""
        return cls(source, (0, *(newline.end() for newline in _NEWLINE.finditer(source))))

    def offset(self, line: int, column: int) -> int:
        """Return the offset of a line (from 1) and column (from 0, in code points)."""
        return self.starts[line - 1] + column

    def offsets(self, span: Span) -> tuple[int, int]:
        """Return the start and end offset of ``span``."""
        return self.offset(span.line, span.column), self.offset(span.end_line, span.end_column)

    def position(self, offset: int) -> tuple[int, int]:
        """Return the line (from 1) and column (from 0) of ``offset``."""
        line = bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1]

    def code(self, span: Span) -> str:
        """Return the text of ``span``."""
        start, end = self.offsets(span)
        return self.source[start:end]

    def lines(self, first: int, last: int) -> tuple[str, ...]:
        """Return the lines ``first`` to ``last`` (from 1, both included, cut to the text) without line ends."""
        first, last = max(first, 1), min(last, len(self.starts))
        ends = (*self.starts[1:], len(self.source))
        return tuple(self.source[self.starts[n - 1] : ends[n - 1]].rstrip("\r\n") for n in range(first, last + 1))


def splice(text: Text, wraps: Iterable[tuple[Span, str, str]]) -> str:
    """Return the source with ``before`` and ``after`` put around each span.

    Spans nest or lie apart; two equal spans, an empty one or a crossing pair raise ValueError. The inserted strings
    hold no line end, so no line moves.
    """
    ordered = sorted(
        ((*text.offsets(span), before, after) for span, before, after in wraps), key=lambda w: (w[0], -w[1])
    )
    inserts: list[tuple[int, str]] = []
    open_ends: list[tuple[int, str]] = []
    seen: set[tuple[int, int]] = set()
    for start, end, before, after in ordered:
        if start >= end or (start, end) in seen:
            raise ValueError(f"a probe needs a span of its own that is not empty, not {start}:{end}")
        seen.add((start, end))
        while open_ends and open_ends[-1][0] <= start:
            inserts.append(open_ends.pop())
        if open_ends and end > open_ends[-1][0]:
            raise ValueError(f"the spans ending at {end} and {open_ends[-1][0]} cross")
        inserts.append((start, before))
        open_ends.append((end, after))
    inserts.extend(reversed(open_ends))
    pieces, last = [], 0
    for offset, string in inserts:
        pieces += [text.source[last:offset], string]
        last = offset
    return "".join([*pieces, text.source[last:]])
