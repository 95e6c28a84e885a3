"""How far vectors lie from the right ones, each token and head by itself, and which of them stand out.

A mean over all of them would hide what is wrong for a few tokens or in one head. Must not know: what the vectors are.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracer.arrays import Floats
from tracer.verification.expected import Ints
from tracer.verification.scenarios import Bools


@dataclass(frozen=True, eq=False)
class Part:
    """Some of the vectors [tokens, heads, D]: indices of tokens and of heads."""

    tokens: Ints
    heads: Ints

    def of(self, vectors: NDArray[Any]) -> Floats:
        """Return these tokens and heads of ``vectors``, in float64."""
        return self.all_heads(vectors)[:, self.heads]

    def all_heads(self, vectors: NDArray[Any]) -> Floats:
        """Return these tokens of ``vectors`` in every head, in float64: small differences are made of them."""
        return vectors[self.tokens].astype(np.float64)


def distances(found: NDArray[Any], right: NDArray[Any], grain: float = 0.0) -> NDArray[Any]:
    """Return how far each vector of ``found`` lies from that of ``right``, relative to its length: [..., D] → [...].

    Two zero vectors lie 0 apart; infinity where only the right one is zero, or where a number is not finite. ``grain``:
    how far a component may be off whatever its size (what a dtype cannot hold).
    """
    with np.errstate(invalid="ignore", over="ignore"):
        gap = found - right
        off = np.sqrt(np.vecdot(gap, gap)) - grain * found.shape[-1] ** 0.5
        size = np.sqrt(np.vecdot(right, right))
    off = np.where(np.isfinite(off), np.maximum(off, 0.0), np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        relative: NDArray[Any] = np.where(off == 0, 0.0, off / size)
    return np.where(np.isnan(relative), np.inf, relative)


def distance(found: Floats, right: Floats) -> float:
    """Return the root mean square of ``found`` − ``right`` relative to that of ``right``, 0 where both are zero."""
    with np.errstate(invalid="ignore", over="ignore"):
        gap = found - right
        size, off = (float(np.sqrt(np.vdot(x, x) / max(1, x.size))) for x in (right, gap))
    if off == 0:
        return 0.0
    return off / size if size > 0 and np.isfinite(off) else float("inf")


def ratios(found: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """Return for each head how long its vectors [tokens, heads, D] are, measured along the right ones; 1 for zeros."""
    size = np.einsum("thd,thd->h", right, right)
    with np.errstate(invalid="ignore", divide="ignore"):
        along: NDArray[Any] = np.where(size > 0, np.einsum("thd,thd->h", found, right) / size, 1.0)
    return along


def ends(count: int, most: int) -> Ints:
    """Return the first and last ``most`` of ``count`` indices, all of them where there are no more."""
    every = np.arange(count)
    return every if count <= 2 * most else np.concatenate([every[:most], every[-most:]])


def worst(bad: Bools, rows: Ints, most: int) -> Part:
    """Return the part of ``bad`` [tokens, heads] to find the reason by: tokens of the batch row (``rows`` [tokens])
    with most of them, at most 2·``most``, in those heads that are wrong at least half as often as the worst one."""
    row = int(np.bincount(rows, weights=bad.sum(axis=1)).argmax())
    mine = bad & (rows == row)[:, None]
    often = mine.sum(axis=0)
    heads = np.flatnonzero(2 * often >= often.max())
    tokens = np.flatnonzero(mine[:, heads].any(axis=1))
    return Part(tokens[ends(len(tokens), most)], heads)
