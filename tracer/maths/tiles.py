"""The softmax of long rows, a tile of rows and keys at a time: what a row needs of its keys stays in the processor's
cache, and blocks of rows run side by side on all cores.

The same sums as in tracer.maths.attention, kept running over the tiles of a row (online softmax: Milakov and
Gimelshein 2018, arXiv:1805.02867). For finite q, k, v only. Must not know: traces, when it is worth while.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracer.arrays import Floats
from tracer.maths.threads import side_by_side
from tracer.maths.visibility import Block, Visibility, blocks

_ROWS = 512
_KEYS = 1024
_NEAR = 40.0  # e^40 times a row's total is far from float32's bounds
_LOWEST = -1e4  # below every shifted score that has a share: keeps 0 · −inf out of the mean


@dataclass(frozen=True, eq=False)
class Rows:
    """Every row's sums, float64: row_max, total, lse, mean [Tq], output [Tq, Dv]; rows that see no key in ``empty``."""

    row_max: Floats
    total: Floats
    lse: Floats
    mean: Floats
    output: Floats
    empty: tuple[int, ...]


def rows(
    q: Floats,
    k: Floats,
    v: Floats,
    scale: float,
    visibility: Visibility,
    number: type[Any],
    around: Floats | None = None,
) -> Rows:
    """Return the sums of every row, the products and exponentials in ``number`` (np.float64 or np.float32) and what is
    summed over tiles in float64.

    ``around`` [Tq] is about each row's logsumexp, from wherever: with it no row's largest score need be found first.
    What comes out does not rest on it, as long as exp(S − around) neither overflows nor vanishes: see ``fits``.
    """
    tq = q.shape[0]
    row_max, total, lse, mean, output = (np.empty(shape) for shape in (tq, tq, tq, tq, (tq, v.shape[1])))
    scaled, keys, values = ((q * scale).astype(number), np.ascontiguousarray(k.T, dtype=number), v.astype(number))
    if around is not None:  # one more component: the product itself then gives S − around
        around = around.astype(number).astype(np.float64)
        scaled = np.concatenate([scaled, -around[:, None].astype(number)], axis=1)
        keys = np.concatenate([keys, np.ones((1, keys.shape[1]), number)])
    parts = list(blocks(visibility, _ROWS))

    def work(block: Block) -> None:
        place = slice(block.start, block.stop)
        given = (block, scaled[place], v.shape[1])
        running = _Running(*given) if around is None else _Around(*given, around[place])
        for first in range(block.cols.start, block.cols.stop, _KEYS):
            part = slice(first, min(first + _KEYS, block.cols.stop))
            running.take(keys[:, part], values[part], part)
        row_max[place], total[place], mean[place], output[place] = running.ended()
        with np.errstate(divide="ignore"):
            lse[place] = row_max[place] + np.log(total[place])

    side_by_side(work, reversed(parts))  # the longest rows first, so that no core is left with them at the end
    empty = [block.start + int(row) for block in parts for row in np.flatnonzero(block.empty)]
    return Rows(row_max, total, lse, mean, output, tuple(empty))


def fits(found: Rows, around: Floats) -> bool:
    """Return whether ``around`` was near enough to each row's logsumexp for the sums to rest on nothing of it."""
    some = np.setdiff1d(np.arange(len(around)), found.empty)
    return bool((np.abs(found.lse[some] - around[some]) < _NEAR).all())  # NaN is not


class _Running:
    """The sums of a block of rows over the tiles taken in so far, relative to each row's largest score so far."""

    def __init__(self, block: Block, q: NDArray[Any], width: int) -> None:
        self._block, self._q = block, q
        count = block.stop - block.start
        self._scores, self._shares = (np.empty((count, _KEYS), dtype=q.dtype) for _ in range(2))
        self._max = np.full(count, -np.inf, dtype=q.dtype)
        self._ones = np.ones(_KEYS, dtype=q.dtype)  # a product sums rows in half the time
        self._total, self._mean, self._output = np.zeros(count), np.zeros(count), np.zeros((count, width))

    def take(self, keys: NDArray[Any], values: NDArray[Any], part: slice) -> None:
        """Take in the tile of ``keys`` [D, n] and ``values`` [n, Dv], which are the keys ``part``."""
        whole = part.stop - part.start == _KEYS
        scores = self._scores if whole else np.empty((len(self._q), part.stop - part.start), self._q.dtype)
        shares = self._shares if whole else np.empty_like(scores)
        np.matmul(self._q, keys, out=scores)
        masked = self._mask(scores, part)
        moved = self._shift(scores)
        with np.errstate(over="ignore"):
            np.exp(scores, out=shares)
        if masked:
            np.maximum(scores, _LOWEST, out=scores)
        with np.errstate(over="ignore", invalid="ignore"):
            if moved is not None:
                shrink = np.exp(moved)  # of nothing, where no key had been seen
                self._mean = shrink * (self._mean + moved * self._total)
                self._total *= shrink
                self._output *= shrink[:, None]
            self._mean += np.vecdot(shares, scores)
            self._total += shares @ self._ones[: shares.shape[1]]
            self._output += shares @ values

    def _shift(self, scores: NDArray[Any]) -> Floats | None:
        """Make a tile's scores relative to each row's largest score so far; return by how much what was summed before
        is to be moved."""
        before, self._max = self._max, np.maximum(self._max, scores.max(axis=1))
        seen = np.where(np.isneginf(self._max), 0, self._max)  # a row that has seen no key yet
        scores -= seen[:, None]
        moved: Floats = np.where(np.isneginf(before), seen, before).astype(np.float64) - seen
        return moved

    def _mask(self, scores: NDArray[Any], part: slice) -> bool:
        """Hide what is hidden in this tile; return whether anything may be."""
        low = part.start - self._block.cols.start
        high, masked = low + part.stop - part.start, False
        for where, hidden in self._block.ragged:
            a, b = max(where.start, low), min(where.stop, high)
            if a < b:
                np.copyto(scores[:, a - low : b - low], -np.inf, where=hidden[:, a - where.start : b - where.start])
                masked = True
        return masked

    def ended(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return row_max, total, mean and output; −inf, 0, NaN and 0 for a row that saw no key."""
        nothing = self._total == 0
        total = np.where(nothing, 1.0, self._total)
        row_max = self._max.astype(np.float64)
        mean = np.where(nothing, np.nan, np.where(nothing, 0.0, row_max) + self._mean / total)
        return row_max, self._total, mean, self._output / total[:, None]


class _Around(_Running):
    """The same sums relative to a number that is known beforehand for each row, so that none is ever moved."""

    def __init__(self, block: Block, q: NDArray[Any], width: int, around: Floats) -> None:
        super().__init__(block, q, width)
        self._around = around

    def _shift(self, scores: NDArray[Any]) -> None:
        np.maximum(self._max, scores.max(axis=1), out=self._max)

    def ended(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return row_max, total, mean and output, relative to row_max as those of _Running."""
        top = np.where(np.isneginf(self._max), 0.0, self._max.astype(np.float64))
        with np.errstate(over="ignore", invalid="ignore"):
            _, total, mean, output = super().ended()
            return self._max + self._around, total * np.exp(-top), mean - top + self._around, output
