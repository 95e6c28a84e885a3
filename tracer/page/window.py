"""Which rows and keys of a long prompt a page shows, stated and never silent.

Must not know: what is in them.
"""

from dataclasses import dataclass

from tracer.errors import InputError
from tracer.page.wording import Words


@dataclass(frozen=True, slots=True)
class Window:
    """Query rows and keys that are shown, of how many."""

    rows: slice
    keys: slice
    tq: int
    tk: int

    @property
    def positions(self) -> slice:
        """Which tokens of the prompt the rows are: the last ones, where the first were cached."""
        return slice(self.rows.start + self._cached, self.rows.stop + self._cached)

    @property
    def _cached(self) -> int:
        return max(self.tk - self.tq, 0)

    @property
    def whole(self) -> bool:
        """Whether nothing is left out."""
        return self.rows == slice(0, self.tq) and self.keys == slice(0, self.tk)

    def stated(self, say: Words) -> str:
        """Return which rows and keys are shown of how many, and how to see others; empty where all are."""
        return "" if self.whole else say(self.text, **self.values)

    @property
    def text(self) -> str:
        """The entry of the sentence that says what is shown: of several queries, of one, of a run that has but one."""
        if self.tq == 1:
            return "window_only"
        return "window_one" if self.rows.stop - self.rows.start == 1 else "window"

    @property
    def values(self) -> dict[str, int]:
        """What that sentence tells, queries by their places in the prompt."""
        return {
            "first_row": self.positions.start,
            "last_row": self.positions.stop - 1,
            "rows": self.tq + self._cached,
            "first_key": self.keys.start,
            "last_key": self.keys.stop - 1,
            "keys": self.tk,
        }


def window(tq: int, tk: int, size: int, query: int | None = None) -> Window:
    """Return the window of ``size`` rows and keys that ends at ``query`` (the last row where None).

    The keys end at the row's own place, so that what the last shown row sees nearest to itself is shown. Raises
    InputError for a size below 1.
    """
    if size < 1:
        raise InputError("page.window_size", found=size)
    last = tq - 1 if query is None else max(query, min(size, tq) - 1)
    rows = slice(max(0, last + 1 - size), last + 1)
    end = max(min(last + 1 + tk - tq, tk), min(size, tk))
    return Window(rows, slice(max(0, end - size), end), tq, tk)
