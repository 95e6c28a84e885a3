"""Which rows can numbers that are not finite reach though they stand in keys hidden from the row?

A kernel computes a tile of scores, hides some and multiplies all values of the tile by what weights are left: 0 · NaN
is NaN, and so is NaN plus the −inf of a mask. Must not know: checks, wording.
"""

from dataclasses import dataclass

import numpy as np

from tracer.maths.attention import Head
from tracer.maths.visibility import Bools, Ints, Visibility

_ROWS = 256


@dataclass(frozen=True, eq=False)
class Reach:
    """``k`` [Tq]: rows from which a key is hidden whose k is not finite. ``v`` [Tq, Dv]: where a hidden key's value is
    not. ``tokens``: the keys that hold such numbers."""

    k: Bools
    v: Bools
    tokens: Ints

    def excuses(self, output: Bools) -> Bools:
        """Return which rows of ``output`` [Tq, Dv] (where the kernel's is lost) are lost in no other place, [Tq]."""
        return np.logical_and(output.any(axis=1), ~(output & ~(self.k[:, None] | self.v)).any(axis=1))


def reach(head: Head) -> Reach:
    """Return what of a head's k and v is not finite and hidden, row by row."""
    bad_k: Bools = np.logical_not(np.isfinite(head.k).all(axis=1))
    bad_v = ~np.isfinite(head.v)
    k = hidden_from(head.visibility, bad_k)
    v = np.zeros((head.visibility.tq, head.v.shape[1]), dtype=np.bool_)
    keys = np.flatnonzero(bad_v.any(axis=1))
    if keys.size:
        lost = bad_v[keys].astype(np.float32)
        for start in range(0, len(v), _ROWS):
            stop = min(start + _ROWS, len(v))
            v[start:stop] = ~head.visibility.rows(start, stop)[:, keys] @ lost > 0
    return Reach(k, v, np.flatnonzero(bad_k | bad_v.any(axis=1)))


def hidden_from(visibility: Visibility, keys: Bools) -> Bools:
    """Return the rows that do not see all of the keys marked in ``keys`` [Tk], [Tq]."""
    found = np.zeros(visibility.tq, dtype=np.bool_)
    marked = np.flatnonzero(keys)
    for start in range(0, visibility.tq if marked.size else 0, _ROWS):
        stop = min(start + _ROWS, visibility.tq)
        found[start:stop] = ~visibility.rows(start, stop)[:, marked].all(axis=1)
    return found
