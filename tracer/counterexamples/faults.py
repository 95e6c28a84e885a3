"""Attention done wrong on purpose: what a kernel with one well-known fault would give, from one head's real numbers.

NumPy only; float64 except where the fault is one of number range. Must not know: traces, checks, wording.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tracer.arrays import Floats
from tracer.maths.visibility import Visibility


@dataclass(frozen=True, eq=False)
class Inputs:
    """What attention of one head is computed from: q [Tq, D], k and v [Tk, D] and [Tk, Dv], all float64."""

    q: Floats
    k: Floats
    v: Floats
    scale: float
    visibility: Visibility


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of it: scores and weights [Tq, Tk], output [Tq, Dv], logsumexp [Tq]. NaN and infinity stay."""

    scores: Floats
    weights: Floats
    output: Floats
    lse: Floats


Attention = Callable[[Inputs], Outcome]


def right(given: Inputs) -> Outcome:
    """Return attention as it should be."""
    return _attention(given.q @ given.k.T * given.scale, given.visibility.rows(0, given.visibility.tq), given.v)


def no_scale(given: Inputs) -> Outcome:
    """Return attention on q·k as it is."""
    return _attention(given.q @ given.k.T, given.visibility.rows(0, given.visibility.tq), given.v)


def scale_twice(given: Inputs) -> Outcome:
    """Return attention scaled by 1/d where 1/√d is right."""
    scores = given.q @ given.k.T / given.q.shape[1]
    return _attention(scores, given.visibility.rows(0, given.visibility.tq), given.v)


def no_mask(given: Inputs) -> Outcome:
    """Return attention in which every query sees every key."""
    everything = np.ones((given.visibility.tq, given.visibility.tk), dtype=np.bool_)
    return _attention(given.q @ given.k.T * given.scale, everything, given.v)


def mask_after_softmax(given: Inputs) -> Outcome:
    """Return attention whose weights are made over all keys, and those of hidden keys then set to zero."""
    whole = no_mask(given)
    weights = np.where(given.visibility.rows(0, given.visibility.tq), whole.weights, 0.0)
    return Outcome(whole.scores, weights, weights @ given.v, whole.lse)


def wrong_axis(given: Inputs) -> Outcome:
    """Return attention whose softmax runs over the queries: each column of the weights sums to 1, not each row.

    The logsumexp is that of the columns. Needs as many queries as keys.
    """
    scores = np.where(given.visibility.rows(0, given.visibility.tq), given.q @ given.k.T * given.scale, -np.inf)
    weights, lse = _softmax(scores.T)
    return Outcome(scores, weights.T, weights.T @ given.v, lse)


def no_max(given: Inputs) -> Outcome:
    """Return attention in float32 whose softmax takes exp of the scores as they are: above 88.7 that is infinite."""
    visible = given.visibility.rows(0, given.visibility.tq)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        scores = np.where(visible, given.q @ given.k.T * given.scale, -np.inf).astype(np.float32)
        shares = np.exp(scores)
        total = shares.sum(axis=1, keepdims=True)
        weights = shares / total
        output = weights @ given.v.astype(np.float32)
        lse = np.log(total[:, 0])
    return Outcome(*(part.astype(np.float64) for part in (scores, weights, output, lse)))


def _attention(scores: Floats, visible: np.ndarray, v: Floats) -> Outcome:
    masked = np.where(visible, scores, -np.inf)
    weights, lse = _softmax(masked)
    return Outcome(masked, weights, weights @ v, lse)


def _softmax(scores: Floats) -> tuple[Floats, Floats]:
    """Return weights and logsumexp along the last axis; a row of −inf only gives NaN, as plain arithmetic does."""
    with np.errstate(invalid="ignore", divide="ignore"):
        top = scores.max(axis=1, keepdims=True)
        shares = np.exp(scores - top)
        total = shares.sum(axis=1, keepdims=True)
        return shares / total, (top + np.log(total))[:, 0]


FAULTS: Mapping[str, Attention] = {
    "no_scale": no_scale,
    "scale_twice": scale_twice,
    "no_mask": no_mask,
    "mask_after_softmax": mask_after_softmax,
    "wrong_axis": wrong_axis,
    "no_max": no_max,
}
