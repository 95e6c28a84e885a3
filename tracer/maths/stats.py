"""What a tensor's numbers look like at a glance: extremes, mean, spread, and how many are no numbers at all.

Always in float64, a block at a time, over the finite numbers only. Must not know: what the tensor is.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracer.arrays import Array, Floats
from tracer.maths.attention import Head
from tracer.maths.visibility import blocks

_BLOCK = 1 << 18


@dataclass(frozen=True)
class Stats:
    """Over the finite numbers: min, max, mean, standard deviation (of the numbers themselves, not an estimate), root
    mean square; None where there are none. ``count`` counts all numbers, ``nonfinite`` those that are NaN or infinite.
    """

    count: int
    nonfinite: int
    min: float | None
    max: float | None
    mean: float | None
    std: float | None
    rms: float | None


def of_array(array: Array) -> Stats:
    """Return the statistics of a tensor of any dtype."""
    flat = array.bits.reshape(-1)
    starts = range(0, flat.size, _BLOCK)
    return of_blocks(Array(array.dtype, flat[start : start + _BLOCK]).numbers() for start in starts)


def of_blocks(parts: Iterable[NDArray[Any]]) -> Stats:
    """Return the statistics of all numbers in ``parts``."""
    running = _Running()
    for part in parts:
        running.add(part)
    return running.stats()


def of_head(head: Head) -> tuple[Stats, Stats]:
    """Return the statistics of a head's scores and weights over the keys that its queries may see.

    Blocks of rows are computed and dropped again: nothing of size Tq · Tk is ever held.
    """
    scores, weights = _Running(), _Running()
    for block in blocks(head.visibility):
        rows, seen = slice(block.start, block.stop), block.visible()
        visible = head.scores(rows, block.cols)[seen]
        scores.add(visible)
        lse = np.broadcast_to(head.lse[rows, None], seen.shape)[seen]
        with np.errstate(invalid="ignore"):
            weights.add(np.exp(visible - lse))
    return scores.stats(), weights.stats()


class _Running:
    """Statistics that grow by blocks: means and squared distances are merged, so that no large sum eats small ones."""

    def __init__(self) -> None:
        self._count = self._finite = 0
        self._low, self._high = math.inf, -math.inf
        self._mean = self._around_mean = self._squares = 0.0

    def add(self, block: NDArray[Any]) -> None:
        """Take in the numbers of ``block``."""
        numbers = block.astype(np.float64, copy=False).reshape(-1)
        self._count += numbers.size
        known = np.isfinite(numbers)
        numbers = numbers if known.all() else numbers[known]
        size = numbers.size
        if not size:
            return
        self._low, self._high = min(self._low, float(numbers.min())), max(self._high, float(numbers.max()))
        with np.errstate(over="ignore", invalid="ignore"):
            self._squares += _squares(numbers)
            mean = float(numbers.mean())
            numbers = numbers - mean
            apart = mean - self._mean
            between = apart * apart * self._finite * size / (self._finite + size)
            self._around_mean += _squares(numbers) + between
        self._finite += size
        self._mean += apart * size / self._finite

    def stats(self) -> Stats:
        """Return the statistics of all that was taken in; a square beyond float64 leaves None."""
        if not self._finite:
            return Stats(self._count, self._count, None, None, None, None, None)
        std, rms = (math.sqrt(total / self._finite) for total in (self._around_mean, self._squares))
        nonfinite = self._count - self._finite
        return Stats(self._count, nonfinite, self._low, self._high, *(_plain(x) for x in (self._mean, std, rms)))


def _squares(numbers: Floats) -> float:
    """Return Σ x². Not through BLAS: its threads cost more than they save on a block that fits the cache."""
    return float(np.einsum("i,i->", numbers, numbers))


def _plain(number: float) -> float | None:
    return number if math.isfinite(number) else None
