"""What an expression is in another framework, and the next place on a value's way.

Must not know: screens, languages.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tracer.browse.books import Book, Spot, Stop
from tracer.lineage.result import Step
from tracer.reading.side_by_side import STEPS

# A step that has no place of its own in a framework, and the place that holds it there. What the explicit code does
# line by line, the others leave to the kernel.
_INSTEAD = {step: instead for step, instead in STEPS if instead is not None}
_INSTEAD |= dict.fromkeys(("scores", "mask", "softmax", "output", "interface"), "call")


class How(StrEnum):
    """How an expression corresponds to another."""

    SAME = "same"  # the place of the same name
    WAY = "way"  # the step that does the same on the same value's way
    NEAR = "near"  # that way has no such step: the one nearest to it
    HOLDS = "holds"  # another place, which does this and more


@dataclass(frozen=True)
class Counterpart:
    """``spot`` is what an expression is in another framework; ``value`` names the way where ``how`` speaks of one."""

    spot: Spot
    how: How
    value: str = ""


def counterpart(own: Book, spot: Spot, other: Book) -> Counterpart | None:
    """Return what ``spot`` of ``own`` is in ``other``; None where nothing there corresponds to it.

    The place of the same name; else the same step of the same value's way, as far as both ways have been followed;
    else the place that holds it. What has no name and is on no way stands for the named place it is a part of.
    """
    if spot.place is not None:
        same = other.place(spot.place)
        if same is not None:
            return Counterpart(same, How.SAME)
    for stop in own.stops(spot):
        found = _on_way(own, stop, other)
        if found is not None:
            return found
    named = spot if spot.place is not None else _around(own, spot)
    if named is None or named.place is None:
        return None
    for id in (named.place, _INSTEAD.get(named.place), named.place.partition(".")[0]):
        held = other.place(id) if id is not None else None
        if held is not None:
            exact = held.place == spot.place
            return Counterpart(held, How.SAME if exact else How.HOLDS)
    return None


def values_to_follow(own: Book, spot: Spot, other: Book) -> tuple[str, ...]:
    """Return the values whose ways lead through ``spot`` and have not been followed in ``other``."""
    values = dict.fromkeys(stop.value for stop in own.stops(spot))
    return tuple(value for value in values if value in other.values and value not in other.ways)


def _on_way(own: Book, stop: Stop, other: Book) -> Counterpart | None:
    """Return the step of the same role on the same value's way: made, handed on, kept, given to the kernel."""
    steps, spots = (other.ways[stop.value].steps if stop.value in other.ways else ()), other.steps(stop.value)
    if not steps:
        return None
    mine = own.ways[stop.value].steps
    wanted = _role(mine, stop.number - 1)
    for index in range(len(steps)):
        if _role(steps, index) == wanted:
            return Counterpart(spots[index], How.WAY, stop.value)
    share = (stop.number - 1) / max(len(mine) - 1, 1)
    return Counterpart(spots[round(share * (len(steps) - 1))], How.NEAR, stop.value)


def _role(steps: Sequence[Step], index: int) -> tuple[str, int]:
    """Return what a step is on its way: the first, the last, or the n-th of its kind between them."""
    if index == 0:
        return "first", 0
    if index == len(steps) - 1:
        return "last", 0
    kind = steps[index].kind
    return kind, sum(step.kind == kind for step in steps[1:index])


def _around(book: Book, spot: Spot) -> Spot | None:
    """Return the smallest named expression that ``spot`` is a part of."""
    begin, end = (spot.span.line, spot.span.column), (spot.span.end_line, spot.span.end_column)
    holding = [
        each
        for each in book.spots(spot.file)
        if each.place is not None
        and (each.span.line, each.span.column) <= begin
        and end <= (each.span.end_line, each.span.end_column)
    ]
    return min(holding, key=lambda each: len(each.code), default=None)


def on_way(book: Book, spot: Spot, preferred: str | None) -> str | None:
    """Return which value's way leads through ``spot``, ``preferred`` if it does; None where no way followed so far."""
    values = [stop.value for stop in book.stops(spot)]
    return preferred if preferred in values else next(iter(values), None)


def neighbour(book: Book, spot: Spot, value: str, forward: bool) -> Spot | None:
    """Return the next spot on the way of ``value``, towards the kernel (``forward``) or the definition; None at its
    end."""
    steps: Sequence[Spot] = book.steps(value)
    numbers = [stop.number for stop in book.stops(spot) if stop.value == value]
    wanted = numbers[-1] if forward else numbers[0] - 2  # a way may pass one expression twice
    return steps[wanted] if 0 <= wanted < len(steps) else None
