"""Reading a page back: its pieces by role, and its numbers as the intervals that their decimals leave open."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tracer.page.record import Matrix, Page, Section, Table, plain

NUMBER = r"\(?−?\d+\.\d+\)?"


@dataclass(frozen=True)
class Interval:
    """All numbers that a printed one may have been before it was rounded."""

    low: float
    high: float

    @classmethod
    def printed(cls, text: str) -> "Interval":
        """Return the interval of a printed number, which may stand in brackets."""
        digits = text.strip("()").replace("−", "-")
        half = 0.5 * 10.0 ** -len(digits.partition(".")[2]) * (1 + 1e-9)
        return cls(float(digits) - half, float(digits) + half)

    def __add__(self, other: "Interval") -> "Interval":
        return Interval(self.low + other.low, self.high + other.high)

    def __sub__(self, other: "Interval") -> "Interval":
        return Interval(self.low - other.high, self.high - other.low)

    def __mul__(self, other: "Interval") -> "Interval":
        corners = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval(min(corners), max(corners))

    def __truediv__(self, other: "Interval") -> "Interval":
        return self * Interval(1 / other.high, 1 / other.low)

    def exp(self) -> "Interval":
        """Return e to the power of this."""
        return Interval(math.exp(self.low), math.exp(self.high))

    def log(self) -> "Interval":
        """Return the natural logarithm of this."""
        return Interval(math.log(self.low), math.log(self.high))

    def meets(self, other: "Interval") -> bool:
        """Return whether some number lies in both: the two printed numbers do not contradict each other."""
        return self.low <= other.high and other.low <= self.high


def total(parts: list[Interval]) -> Interval:
    """Return the sum."""
    result = Interval(0.0, 0.0)
    for part in parts:
        result = result + part
    return result


def products(text: str) -> Interval:
    """Return the value of a printed sum such as ``[3] 1.2×(−0.5) + 29 others 0.1``."""
    terms = []
    for term in text.split(" + "):
        numbers = re.findall(NUMBER, term)
        terms.append(
            Interval.printed(numbers[0])
            if "×" not in term
            else Interval.printed(numbers[0]) * Interval.printed(numbers[1])
        )
    return total(terms)


def section(page: Page, id: str) -> Section:
    """Return the section of that id."""
    return next(each for each in page.sections if each.id == id)


def table(part: Section) -> list[dict[str, str]]:
    """Return the rows of a section's first table by column title."""
    found = next(block for block in part.blocks if isinstance(block, Table))
    titles = [column.title for column in found.columns]
    return [dict(zip(titles, map(plain, row.cells), strict=True)) for row in found.rows if row.cells]


def matrices(part: Section) -> Iterator[Matrix]:
    """Yield the matrices of a section."""
    for block in part.blocks:
        if isinstance(block, Matrix):
            yield block
        yield from getattr(block, "blocks", ())


def text_of(page: Page) -> str:
    """Return every word of a page, in no particular layout."""
    from tracer.render.terminal.render import render
    from tracer.render.terminal.screen import Screen

    return " ".join(render(page, Screen(400)).split())
