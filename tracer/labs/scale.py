"""How q·k spreads as d grows, and what the scale does to it: measured on random vectors and on real heads.

    Var(q·k) = d for independent components of mean 0 and variance 1, so that 1/√d brings it back to 1

Must not know: pages, where real heads come from.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tracer.arrays import Floats
from tracer.errors import InputError
from tracer.maths.attention import Head, head, rescaled
from tracer.maths.stats import of_head
from tracer.maths.visibility import Visibility

MOST_DIMENSIONS, MOST_SAMPLES, MOST_SIZES = 4096, 1_000_000, 16
# Random numbers drawn for one lab: about ten seconds of them.
_BUDGET = 400_000_000
_CHUNK = 1 << 20
KEYS = 64  # keys that each query shares its weight among
_QUERIES = 256


@dataclass(frozen=True)
class Spread:
    """Random vectors of ``d`` components: the variance of q·k and of q·k/√d over ``samples`` independent pairs, and
    what a softmax over KEYS keys makes of the products with each scale. Entropies are shares of ln KEYS."""

    d: int
    samples: int
    variance: float
    scaled_variance: float
    entropy_unscaled: float
    entropy_scaled: float
    entropy_by_d: float
    largest_unscaled: float
    largest_scaled: float


@dataclass(frozen=True)
class RealHead:
    """One real head over the pairs its queries may see. ``independent`` is the variance that q·k would have if the
    components kept their sizes but knew nothing of each other. Entropies are shares of those of equal weights."""

    head: int
    d: int
    scale: float
    variance: float
    independent: float
    scaled_variance: float
    entropy_unscaled: float
    entropy_scaled: float
    entropy_by_d: float


def check(dimensions: Sequence[int], samples: int) -> None:
    """Raise InputError where the lab would be meaningless or would take more than a moment."""
    if not dimensions or len(dimensions) > MOST_SIZES:
        raise InputError("labs.scale_sizes", most=MOST_SIZES, found=len(dimensions))
    wrong = [d for d in dimensions if not 1 <= d <= MOST_DIMENSIONS]
    if wrong:
        raise InputError("labs.size", option="--dims", lowest=1, highest=MOST_DIMENSIONS, found=wrong[0])
    if not 100 <= samples <= MOST_SAMPLES:
        raise InputError("labs.size", option="--samples", lowest=100, highest=MOST_SAMPLES, found=samples)
    if 2 * samples * sum(dimensions) > _BUDGET:
        raise InputError("labs.scale_budget", samples=_BUDGET // (2 * sum(dimensions)), found=samples)


def spread(d: int, samples: int, seed: int) -> Spread:
    """Return what independent normal components do; the same for equal ``d``, ``samples`` and ``seed``."""
    random = np.random.default_rng([seed, d])
    products = _products(random, d, samples)
    one = head(
        random.standard_normal((_QUERIES, d)),
        random.standard_normal((KEYS, d)),
        np.zeros((KEYS, 1)),
        float(d) ** -0.5,
        Visibility(tq=_QUERIES, tk=KEYS, causal=False),
    )
    bare = rescaled(one, 1.0)
    return Spread(
        d=d,
        samples=samples,
        variance=float(products.var()),
        scaled_variance=float((products / d**0.5).var()),
        entropy_unscaled=_relative(bare),
        entropy_scaled=_relative(one),
        entropy_by_d=_relative(rescaled(one, 1.0 / d)),
        largest_unscaled=float(bare.weights(slice(None)).max(axis=1).mean()),
        largest_scaled=float(one.weights(slice(None)).max(axis=1).mean()),
    )


def real(number: int, one: Head) -> RealHead:
    """Return the same figures of a real head."""
    d = one.q.shape[1]
    bare = rescaled(one, 1.0)
    return RealHead(
        head=number,
        d=d,
        scale=one.scale,
        variance=_variance(bare),
        independent=float((np.square(one.q).mean(axis=0) * np.square(one.k).mean(axis=0)).sum()),
        scaled_variance=_variance(one),
        entropy_unscaled=_relative(bare),
        entropy_scaled=_relative(one),
        entropy_by_d=_relative(rescaled(one, 1.0 / d)),
    )


def _products(random: np.random.Generator, d: int, samples: int) -> Floats:
    """Return q·k of ``samples`` independent pairs, [samples]; nothing larger than a chunk is ever held."""
    step = max(1, _CHUNK // d)
    parts = []
    for start in range(0, samples, step):
        size = (min(step, samples - start), d)
        parts.append(np.vecdot(random.standard_normal(size), random.standard_normal(size)))
    return np.concatenate(parts)


def _variance(one: Head) -> float:
    scores, _ = of_head(one)
    return float("nan") if scores.std is None else scores.std**2


def _relative(one: Head) -> float:
    """Return the entropy of all rows together, as a share of what equal weights would have; NaN without a choice."""
    first, end = one.visibility.interval(np.arange(len(one.q)))
    even = float(np.log(np.maximum(end - first, 1)).sum())
    return float(np.nansum(one.entropy)) / even if even > 0 else float("nan")
