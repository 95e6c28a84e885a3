"""Matrices whose entries depend only on how far a key is ahead of its query, and what is computed of them.

Must not know: source code, how such a matrix is made.
"""

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace

AHEAD = range(-4, 5)  # distances key - query that are looked at


@dataclass(frozen=True)
class Grid:
    """A matrix whose entries depend on key - query alone: one for each of ``AHEAD``, None where not known."""

    entries: tuple[float | None, ...]
    boolean: bool = False

    @staticmethod
    def of(at: Callable[[int], float | None], boolean: bool = False) -> "Grid":
        """Return the grid with ``at(distance)`` in each place."""
        return Grid(tuple(at(distance) for distance in AHEAD), boolean)

    def at(self, distance: int) -> float | None:
        """Return the entry at a distance."""
        return self.entries[distance - AHEAD.start]


@dataclass(frozen=True)
class Index:
    """The numbers 0, 1, 2, … along the queries ("row"), the keys ("column"), or an axis not yet fixed (""), shifted."""

    axis: str
    shift: float = 0.0


Known = float | Grid | Index | None
Hides = tuple[bool | None, ...]  # for each of AHEAD


def verdict(hides: Hides) -> str | None:
    """Return what a mask does: ``causal``, ``nothing`` hidden, a fault (``reversed``, ``itself``, ``ahead``: it lets
    some keys ahead be seen), or None where that is not known."""
    by = dict(zip(AHEAD, hides, strict=True))
    future, past = [by[d] for d in AHEAD if d > 0], [by[d] for d in AHEAD if d < 0]
    if all(each is True for each in past) and not all(each is True for each in future):
        return "reversed"
    if all(each is True for each in future):
        return "itself" if by[0] is True and not all(each is True for each in past) else "causal"
    if None in hides:
        return None
    if not any(hides):
        return "nothing"
    return "ahead" if by[1] is False and by[AHEAD[-1]] is True and by[0] is False else None


def either(hidden: list[bool | None]) -> bool | None:
    """Return whether any mask hides; None where that hangs on what is not known."""
    if True in hidden:
        return True
    return None if None in hidden else False


def truths(known: Known) -> Known:
    """Return the truth values of numbers."""
    made = each_entry(lambda x: float(bool(x)), known)
    return replace(made, boolean=True) if isinstance(made, Grid) else None


def each_entry(function: Callable[[float], float], known: Known) -> Known:
    """Return ``function`` of a number, or of every entry."""
    if isinstance(known, float):
        return function(known)
    if isinstance(known, Grid):
        return Grid(tuple(None if each is None else function(each) for each in known.entries), known.boolean)
    return None


def inverted(known: Known) -> Known:
    """Return ``~mask``, of a mask of truth values."""
    return each_entry(lambda x: float(not x), known) if isinstance(known, Grid) else None


def paired(function: Callable[[float, float], float] | None, one: Known, other: Known) -> Known:
    """Return ``function`` of two numbers, entry by entry."""
    if function is None or one is None or other is None:
        return None
    if isinstance(one, float) and isinstance(other, float):
        return _finite(function, one, other)
    if isinstance(one, Index) and isinstance(other, float) and function in (operator.add, operator.sub):
        return replace(one, shift=function(one.shift, other))
    if isinstance(one, Index) or isinstance(other, Index):
        return _between(function, one, other)
    boolean = all(isinstance(each, float) or each.boolean for each in (one, other)) and function in (min, max)
    return Grid.of(lambda d: _finite(function, _at(one, d), _at(other, d)), boolean)


def _between(function: Callable[[float, float], float], one: Known, other: Known) -> Known:
    """``j[None, :] - i[:, None]``: the distance itself."""
    if function is not operator.sub or not (isinstance(one, Index) and isinstance(other, Index)):
        return None
    axes = (one.axis or "column", other.axis or "column")
    shift = one.shift - other.shift
    if axes == ("column", "row"):
        return Grid.of(lambda d: d + shift)
    return Grid.of(lambda d: shift - d) if axes == ("row", "column") else None


def compared(function: Callable[[float, float], bool] | None, one: Known, other: Known) -> Known:
    """Return a comparison of two numbers, entry by entry; of an arange along each axis, of their distance."""
    if function is None or one is None or other is None:
        return None
    if isinstance(one, Index) and isinstance(other, Index):
        distance = _between(operator.sub, one, other)
        return compared(function, distance, 0.0)
    if isinstance(one, Index) or isinstance(other, Index) or (isinstance(one, float) and isinstance(other, float)):
        return None

    def at(distance: int) -> float | None:
        left, right = _at(one, distance), _at(other, distance)
        return None if left is None or right is None else float(function(left, right))

    return Grid.of(at, boolean=True)


def _at(known: Known, distance: int) -> float | None:
    return known.at(distance) if isinstance(known, Grid) else known if isinstance(known, float) else None


def _finite(function: Callable[[float, float], float], one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        if function is min and 0.0 in (one, other):
            return 0.0
        return 1.0 if function is max and 1.0 in (one, other) else None
    try:
        made = float(function(one, other))
    except (ZeroDivisionError, OverflowError):
        return None
    return None if math.isnan(made) else made


def where(condition: Known, first: Known, second: Known) -> Known:
    """Return the entries of ``first`` where ``condition`` holds, else those of ``second``."""
    if not isinstance(condition, Grid) or first is None or second is None:
        return None

    def at(distance: int) -> float | None:
        held = condition.at(distance)
        return None if held is None else _at(first if held else second, distance)

    return Grid.of(at, isinstance(first, Grid) and first.boolean and isinstance(second, Grid) and second.boolean)


def turned(known: Known) -> Known:
    """Return a matrix with its rows and columns exchanged."""
    return Grid(tuple(reversed(known.entries)), known.boolean) if isinstance(known, Grid) else None
