"""Queries or keys on their way from the norm to the attention function: all tokens that count, in all heads.

Must not know: which fault explains what arrived, wording.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracer.arrays import Floats
from tracer.verification.case import Case
from tracer.verification.expected import Ints
from tracer.verification.scenarios import Bools
from tracer.verification.vectors import Part, distances, ratios, worst

# Rounding is not biased: a head's mean length is far more exact than one vector. With few numbers it is less so.
_LENGTH, _LENGTH_FEW = 1.0, 4.0
_LENGTH_LEAST = 2.0**-22  # what float32 leaves of cos and sin
# Vectors by which the reason of a mismatch is found, at each end of those that are wrong.
_MOST = 16


@dataclass(frozen=True, eq=False)
class Way:
    """Vectors [tokens, heads, D] before the rotary embedding, and as they arrived; the positions ``at`` [tokens].

    ``off`` [tokens, heads] is how far each arrived one lies from the right one, ``within`` [tokens] how far it may;
    ``bad`` [tokens, heads] tells those that are wrong: each by itself, or all of a head by their mean length.
    """

    before: NDArray[Any]
    after: NDArray[Any]
    at: Ints
    off: NDArray[Any]
    within: Floats
    bad: Bools

    @property
    def clean(self) -> bool:
        """Whether everything arrived as it should."""
        return not bool(self.bad.any())

    @property
    def farthest(self) -> float:
        """How far the worst vector is off."""
        return float(self.off.max(initial=0.0))


def way(case: Case, name: str) -> Way | None:
    """Return the way of "q" or "k", None where one end of it cannot be seen; kept with the case."""
    return case.once(f"way.{name}", lambda: between(case, case.normed(name, case.counted), name))


def between(case: Case, before: NDArray[Any] | None, name: str) -> Way | None:
    """Return the way from ``before`` to what arrived as ``name``."""
    after = case.arrived(name, case.counted)
    if case.rope is None or before is None or after is None or before.shape != after.shape:
        return None
    if not np.isfinite(before).all():
        return None
    right = case.turned(before)
    if right is None:
        return None
    at = case.positions
    within = case.rope_within(at) + case.loose(name) * np.ones(len(at))
    off = distances(after, right, case.grain)
    allowed = max(case.unit, _LENGTH_LEAST) * (_LENGTH + _LENGTH_FEW * (len(after) * after.shape[2]) ** -0.5)
    allowed += case.loose(name) / 4
    far = off > within[:, None]
    long = ~(np.abs(ratios(after, right) - 1) <= allowed) & ~far.any(axis=0)
    return Way(before, after, at, off, within, far | long)


def part(case: Case, bad: Bools) -> Part:
    """Return the vectors among ``bad`` [tokens, heads] to find the reason by."""
    return worst(bad, case.counted[0], _MOST)
