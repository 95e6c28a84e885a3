"""Which rows can numbers that are not finite reach though they stand in keys hidden from the row?

A kernel computes a tile of scores, hides some and multiplies all values of the tile by what weights are left: 0 · NaN
is NaN, and so is NaN plus the −inf of a mask. Must not know: checks, wording.
"""

from dataclasses import dataclass

import numpy as np

from tracer.arrays import Floats
from tracer.maths.attention import Head
from tracer.maths.visibility import Bools, Ints, Visibility

_ROWS = 256


@dataclass(frozen=True, eq=False)
class Reach:
    """``infinite`` [Tq]: rows whose q, or a key that they see, holds an infinity, and none a NaN. ``k`` [Tq]: rows from
    which a key is hidden whose k is not finite. ``v`` [Tq, Dv]: where a hidden key's value is not. ``tokens``: the keys
    that hold such numbers."""

    infinite: Bools
    k: Bools
    v: Bools
    tokens: Ints

    def settled(self, given: Floats, expected: Floats, rows: Ints) -> Floats:
        """Return ``given`` of the rows ``rows``, with what ``expected`` has where what comes out is not defined.

        That is where both are not finite: of NaN and infinity, which it is depends on when a weight falls to 0, which
        float32 does before float64. And where a score is infinite: ∞ − ∞ is NaN, and a kernel that takes the row for
        fully hidden gives 0. A NaN that was seen and left no trace stays as it is.
        """
        undefined = ~np.isfinite(expected)
        if not undefined.any():
            return given
        infinite = self.infinite[rows] if given.ndim == 1 else self.infinite[rows][:, None]
        return np.where(undefined & (~np.isfinite(given) | infinite), expected, given)

    def excuses(self, output: Bools) -> Bools:
        """Return which rows of ``output`` [Tq, Dv] (where the kernel's is lost) are lost in no other place, [Tq]."""
        return np.logical_and(output.any(axis=1), ~(output & ~(self.k[:, None] | self.v)).any(axis=1))


def reach(head: Head) -> Reach:
    """Return what of a head's k and v is not finite and hidden, row by row."""
    sight, rows = head.visibility, head.visibility.tq
    none = np.zeros(rows, dtype=np.bool_)
    v = np.zeros((rows, head.v.shape[1]), dtype=np.bool_)
    if not head.nonfinite:
        return Reach(none, none, v, np.zeros(0, dtype=np.int64))
    bad_k: Bools = np.logical_not(np.isfinite(head.k).all(axis=1))
    bad_v = ~np.isfinite(head.v)
    keys = np.flatnonzero(bad_v.any(axis=1))
    lost = bad_v[keys].astype(np.float32)
    for start in range(0, rows if keys.size else 0, _ROWS):
        stop = min(start + _ROWS, rows)
        v[start:stop] = ~sight.rows(start, stop)[:, keys] @ lost > 0
    infinite = np.isinf(head.q).any(axis=1) | _sees(sight, np.isinf(head.k))
    undefined = np.isnan(head.q).any(axis=1) | _sees(sight, np.isnan(head.k))
    return Reach(infinite & ~undefined, hidden_from(sight, bad_k), v, np.flatnonzero(bad_k | bad_v.any(axis=1)))


def _sees(visibility: Visibility, numbers: Bools) -> Bools:
    """Return the rows that see any of the keys of which a number is marked in ``numbers`` [Tk, D], [Tq]."""
    found = np.zeros(visibility.tq, dtype=np.bool_)
    marked = np.flatnonzero(numbers.any(axis=1))
    for start in range(0, visibility.tq if marked.size else 0, _ROWS):
        stop = min(start + _ROWS, visibility.tq)
        found[start:stop] = visibility.rows(start, stop)[:, marked].any(axis=1)
    return found


def hidden_from(visibility: Visibility, keys: Bools) -> Bools:
    """Return the rows that do not see all of the keys marked in ``keys`` [Tk], [Tq]."""
    found = np.zeros(visibility.tq, dtype=np.bool_)
    marked = np.flatnonzero(keys)
    for start in range(0, visibility.tq if marked.size else 0, _ROWS):
        stop = min(start + _ROWS, visibility.tq)
        found[start:stop] = ~visibility.rows(start, stop)[:, marked].all(axis=1)
    return found
