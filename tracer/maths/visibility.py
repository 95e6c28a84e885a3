"""Which keys a query may see: for each query an interval of keys, or an explicit mask.

Must not know: torch, kernels, traces. An interval a row takes O(Tq) memory where a mask would take O(Tq · Tk).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracer.errors import InputError

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Visibility:
    """Which of ``tk`` keys each of ``tq`` queries may see.

    Causal is aligned to the bottom right of each sequence, as flash-attn does from 2.1 on: the last query stands at the
    last key. ``left`` is how many keys before its own place a query sees (a sliding window of W visible keys is
    left = W - 1), None without end; ``right`` the same behind it, and 0 where causal. ``starts_q`` and ``starts_k`` are
    where packed sequences start, and the total (cu_seqlens); empty for one sequence. ``mask`` [tq, tk] hides more.
    """

    tq: int
    tk: int
    causal: bool = True
    left: int | None = None
    right: int | None = None
    starts_q: tuple[int, ...] = ()
    starts_k: tuple[int, ...] = ()
    mask: Bools | None = None

    def __post_init__(self) -> None:
        if self.mask is not None and self.mask.shape != (self.tq, self.tk):
            raise InputError("maths.mask", found=self.mask.shape, expected=(self.tq, self.tk))
        for starts, total in ((self.starts_q, self.tq), (self.starts_k, self.tk)):
            if starts and (starts[0] != 0 or starts[-1] != total or any(b < a for a, b in pairwise(starts))):
                raise InputError("maths.starts", found=list(starts), total=total)
        if len(self.starts_q) != len(self.starts_k):
            raise InputError("maths.sequences", queries=list(self.starts_q), keys=list(self.starts_k))

    def interval(self, rows: Ints) -> tuple[Ints, Ints]:
        """Return for the queries ``rows`` the first key each may see and the end of its keys (int64)."""
        begin_q, end_q, begin_k, end_k = self._sequence(rows)
        place = rows - begin_q + (end_k - begin_k) - (end_q - begin_q)  # bottom right, inside its own sequence
        first, end = begin_k.copy(), end_k.copy()
        if self.left is not None:
            first = np.maximum(first, begin_k + place - self.left)
        right = 0 if self.causal else self.right
        if right is not None:
            end = np.minimum(end, begin_k + place + right + 1)
        return first, np.maximum(end, first)

    @cached_property
    def whole(self) -> "tuple[Block, ...]":
        """All blocks of rows of what is small enough to keep them."""
        return tuple(_block(self, a, min(a + _MOST_ROWS, self.tq)) for a in range(0, self.tq, _MOST_ROWS))

    def rows(self, start: int, stop: int, cols: slice = slice(None)) -> Bools:
        """Return who sees what for queries ``start`` to ``stop`` and the keys ``cols``: [rows, cols] bool."""
        return self.at(np.arange(start, stop), cols)

    def at(self, rows: Ints, cols: slice = slice(None)) -> Bools:
        """Return who sees what for the queries ``rows``, in that order, and the keys ``cols``: [rows, cols] bool."""
        first, end = self.interval(rows)
        keys = np.arange(self.tk)[cols]
        seen: Bools = (keys >= first[:, None]) & (keys < end[:, None])
        return seen if self.mask is None else seen & self.mask[rows, cols]

    def _sequence(self, rows: NDArray[Any]) -> tuple[Ints, Ints, Ints, Ints]:
        """Return for each query where its sequence's queries begin and end, and its keys."""
        if not self.starts_q:
            zeros = np.zeros_like(rows)
            return zeros, zeros + self.tq, zeros, zeros + self.tk
        starts_q, starts_k = np.array(self.starts_q), np.array(self.starts_k)
        which = np.searchsorted(starts_q, rows, side="right") - 1
        return starts_q[which], starts_q[which + 1], starts_k[which], starts_k[which + 1]


# ------------------------------------------------------------------------------------------------ blocks of rows

# A block of scores holds about this many numbers (16 MB of float64), whatever the number of keys.
_BLOCK = 1 << 21
_MOST_ROWS = 64  # causal blocks of few rows leave out most of what is hidden


@dataclass(frozen=True, eq=False)
class Block:
    """Queries ``start`` to ``stop`` and the keys ``cols`` that any of them may see.

    ``ragged`` are the parts of those keys (counted from the first of ``cols``) that not every row sees, with who does
    not see them: the rest, most of a long row, needs no mask. ``empty`` [rows] tells the rows with no allowed key.
    """

    start: int
    stop: int
    cols: slice
    ragged: tuple[tuple[slice, Bools], ...]
    empty: Bools

    def visible(self) -> Bools:
        """Return who sees which of ``cols``: [rows, cols] bool."""
        seen = np.ones((self.stop - self.start, self.cols.stop - self.cols.start), dtype=np.bool_)
        for part, hidden in self.ragged:
            seen[:, part] = ~hidden
        return seen


def blocks(visibility: Visibility, rows: int | None = None) -> Iterator[Block]:
    """Yield blocks of rows, each row in exactly one, each with its keys cut to what its rows can reach.

    ``rows`` is how many a block has; by default as many as keep a block of scores small.
    """
    if rows is None and visibility.tq * visibility.tk <= _BLOCK:
        yield from visibility.whole  # for one head after the other
        return
    start = 0
    step = rows or max(1, min(_MOST_ROWS, _BLOCK // max(1, visibility.tk)))
    while start < visibility.tq:
        stop = min(start + step, visibility.tq)
        yield _block(visibility, start, stop)
        start = stop


def _block(visibility: Visibility, start: int, stop: int) -> Block:
    first, end = visibility.interval(np.arange(start, stop))
    low, high = int(first.min()), int(end.max())
    # The keys that every row sees; where there are none, every key is ragged.
    inner, outer = (int(first.max()), int(end.min())) if visibility.mask is None else (high, low)
    bounds = ((low, inner), (outer, high)) if inner < outer else ((low, high),)
    ragged = tuple((slice(a - low, b - low), ~visibility.rows(start, stop, slice(a, b))) for a, b in bounds if a < b)
    some = end > first if visibility.mask is None else visibility.rows(start, stop, slice(low, high)).any(axis=1)
    return Block(start, stop, slice(low, high), ragged, np.logical_not(some))
