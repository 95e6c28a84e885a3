"""How widely q·k spreads in a head, beside the model that the scale 1/√d is motivated by: independent components of
mean 0 and variance 1, whose dot product has variance d.

Must not know: wording.
"""

from dataclasses import dataclass

import numpy as np

from tracer.arrays import Floats
from tracer.maths.attention import Head

_MOST_TOKENS = 1024


@dataclass(frozen=True)
class Spread:
    """Of the visible pairs of a head (those of its first ``tokens`` tokens).

    mean and variance are those of q·k; ``scaled`` is the variance after the scale. ``independent`` is what the variance
    of q·k would be if the components of q and k were independent with this head's own means and mean squares:
    Σ_d (E[q²]·E[k²] − E[q]²·E[k]²). ``sampled`` is the variance measured on at least as many products of standard
    normal vectors of the same width, drawn with a fixed seed. Entropies are means over rows, in nats.
    """

    tokens: int
    pairs: int
    width: int
    mean: float
    variance: float
    scaled: float
    q_square: float
    k_square: float
    independent: float
    sampled: float
    entropy: float
    entropy_unscaled: float


def spread(head: Head) -> Spread | None:
    """Return how q·k spreads; None where fewer than two pairs are visible or a number is not finite."""
    count = min(_MOST_TOKENS, head.visibility.tq, head.visibility.tk)
    q, k = head.q[:count], head.k[:count]
    visible = head.visibility.rows(0, count, slice(count))
    if visible.sum() < 2 or not (np.isfinite(q).all() and np.isfinite(k).all()):
        return None
    dots = q @ k.T
    seen = dots[visible]
    moments = (q**2).mean(axis=0) @ (k**2).mean(axis=0) - (q.mean(axis=0) ** 2) @ (k.mean(axis=0) ** 2)
    return Spread(
        tokens=count,
        pairs=int(visible.sum()),
        width=q.shape[1],
        mean=float(seen.mean()),
        variance=float(seen.var()),
        scaled=float((seen * head.scale).var()),
        q_square=float((q**2).mean()),
        k_square=float((k**2).mean()),
        independent=float(moments),
        sampled=_sampled(len(seen), q.shape[1]),
        entropy=_entropy(dots * head.scale, visible),
        entropy_unscaled=_entropy(dots, visible),
    )


def _sampled(pairs: int, width: int) -> float:
    random = np.random.default_rng(0)
    dots = np.einsum("nd,nd->n", *(random.standard_normal((max(pairs, 4096), width)) for _ in range(2)))
    return float(dots.var())


def _entropy(scores: Floats, visible: np.ndarray) -> float:
    rows = visible.any(axis=1)
    masked = np.where(visible, scores, -np.inf)[rows]
    shares = np.exp(masked - masked.max(axis=1, keepdims=True))
    weights = shares / shares.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(weights > 0, weights * np.log(weights), 0.0)
    return float(-parts.sum(axis=1).mean())
