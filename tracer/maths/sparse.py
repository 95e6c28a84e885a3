"""What every query of a long prompt attends to, without a matrix: entropy, the weight on its heaviest key, on the first
token and on itself for all queries in O(T · D); the heaviest keys themselves for those that are asked for.

Must not know: tokens, what is shown.
"""

from dataclasses import dataclass

import numpy as np

from tracer.arrays import Floats
from tracer.maths.attention import Head
from tracer.maths.visibility import Ints

_ROWS = 16  # rows of weights that exist at one time


@dataclass(frozen=True, eq=False)
class Sparse:
    """Per query [Tq]: entropy in nats; the weight on its heaviest key, on key 0, and on the key at its own place (0
    where that key is hidden). All NaN for a query that sees no key."""

    entropy: Floats
    heaviest: Floats
    first: Floats
    own: Floats


@dataclass(frozen=True, eq=False)
class Top:
    """The heaviest keys of some queries, heaviest first: keys and weights [queries, count]; where a query sees fewer
    keys, the last ones have weight 0."""

    queries: Ints
    keys: Ints
    weights: Floats


def sparse(head: Head) -> Sparse:
    """Return the figures of every query."""
    tq, tk = head.visibility.tq, head.visibility.tk
    rows = np.arange(tq)
    none = np.isneginf(head.lse)
    with np.errstate(invalid="ignore", over="ignore"):
        heaviest = np.exp(head.row_max - head.lse)
    return Sparse(
        entropy=np.where(none, np.nan, head.entropy),
        heaviest=np.where(none, np.nan, heaviest),
        first=np.where(none, np.nan, _weights(head, np.zeros(tq, dtype=np.int64))),
        own=np.where(none, np.nan, _weights(head, rows + (tk - tq))),
    )


def _weights(head: Head, keys: Ints) -> Floats:
    """Return each query's weight on one key of its own, 0 where it is hidden or does not exist."""
    rows = np.arange(head.visibility.tq)
    there = (keys >= 0) & (keys < head.visibility.tk)
    safe = np.where(there, keys, 0)
    first, end = head.visibility.interval(rows)
    seen = there & (safe >= first) & (safe < end)
    if head.visibility.mask is not None:
        seen &= head.visibility.mask[rows, safe]
    with np.errstate(invalid="ignore", over="ignore"):
        scores = head.scale * np.einsum("ij,ij->i", head.q, head.k[safe])
        return np.where(seen, np.exp(scores - head.lse), 0.0)


def top(head: Head, queries: Ints, count: int) -> Top:
    """Return the ``count`` heaviest keys of each of ``queries``, in that order (equal weights: the earlier key)."""
    count = min(count, head.visibility.tk)
    keys, weights = np.zeros((len(queries), count), dtype=np.int64), np.zeros((len(queries), count))
    for start in range(0, len(queries), _ROWS):
        part = slice(start, start + _ROWS)
        rows = queries[part]
        seen = head.visibility.at(rows)
        with np.errstate(invalid="ignore", over="ignore"):
            shares = np.exp((head.q[rows] @ head.k.T) * head.scale - head.lse[rows, None])
        found = np.where(seen, np.nan_to_num(shares, nan=0.0), 0.0)
        order = np.argsort(-found, axis=1, kind="stable")[:, :count]
        keys[part], weights[part] = order, np.take_along_axis(found, order, axis=1)
    return Top(queries, keys, weights)
