"""The same place in another framework, and the next place on a value's way.

Must not know: screens, languages.
"""

from collections.abc import Sequence

from tracer.browse.books import Book, Spot
from tracer.reading.side_by_side import STEPS

# A step that has no place of its own in a framework, and the place that holds it there.
_INSTEAD = {step: instead for step, instead in STEPS if instead is not None}


def same_place(spot: Spot, book: Book) -> Spot | None:
    """Return what ``spot`` is in ``book``, another framework: the place of the same name, else the one that holds it
    there (``project.k`` → ``project``). None where neither exists, or nothing is named at ``spot``."""
    if spot.place is None:
        return None
    for id in (spot.place, _INSTEAD.get(spot.place), spot.place.partition(".")[0]):
        found = book.place(id) if id is not None else None
        if found is not None:
            return found
    return None


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
