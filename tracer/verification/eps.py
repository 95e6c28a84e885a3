"""The eps that a norm acts with, measured by making the call again with small hidden states.

Must not know: what follows from it, wording.
"""

from dataclasses import dataclass

import numpy as np

from tracer.arrays import Array, Floats
from tracer.verification.case import Case


@dataclass(frozen=True)
class Acting:
    """The eps that a norm acts with, how exactly that is known, and the eps it should have."""

    eps: float
    within: float
    size: float
    wanted: float

    @property
    def differs(self) -> bool:
        """Whether it is another eps than the right one."""
        return abs(self.eps - self.wanted) > self.within

    @property
    def tells(self) -> bool:
        """Whether it is known exactly enough to tell a right one from a wrong one."""
        return self.within <= 0.5 * max(self.wanted, self.size) and self.within <= 0.5 * max(self.wanted, self.eps)


def acting_eps(case: Case, name: str) -> Acting | None:
    """Return the eps that shows when hidden states are made small; None where it cannot be seen. Kept with the case."""
    return case.once(f"eps.{name}", lambda: _measure(case, name))


def _measure(case: Case, name: str) -> Acting | None:
    small, weight, made, arrived = case.probed.small, case.norm_weights.get(name), case.made(name), case.arrived(name)
    projected = None if small is None else getattr(small, f"{name}_proj")
    array = None if small is None else (small.query if name == "q" else small.key)
    if weight is None or projected is None or array is None or made is None or arrived is None:
        return None
    if arrived.shape != made.shape:
        return None
    rows, places = case.sample
    quiet = projected[rows, places].float64().reshape(made.shape)
    cut = array.bits[rows, :, places + array.shape[2] - case.step.ids.shape[1]]
    came = Array(array.dtype, np.ascontiguousarray(cut)).float64()
    if came.shape != made.shape:
        return None
    # U = (mean square + eps) / g² in both runs, g² being the factor that the vectors got afterwards: two equations
    mean, other = np.mean(made**2, axis=-1), np.mean(quiet**2, axis=-1)
    under, under_other = divisor(weight, made, arrived), divisor(weight, quiet, came)
    with np.errstate(invalid="ignore", divide="ignore"):
        factor = median((mean - other) / (under - under_other))
    lower, under_lower = (mean, under) if median(mean) < median(other) else (other, under_other)
    size, eps = median(lower), median(factor * under_lower - lower)
    if not np.isfinite(eps) or not factor > 0:
        return None
    wanted = case.facts.norm_eps
    gap = abs(median(mean) - median(other)) / (max(median(mean), median(other)) + max(eps, wanted))
    rounding = 8 * case.single_unit * (size + (size + max(eps, wanted)) / gap)
    within = 0.05 * wanted + rounding
    return Acting(max(eps, 0.0), within, size, wanted) if eps > -within else None


def lengths_kept(case: Case, name: str) -> bool:
    """Return whether what arrived has the lengths of what the norm's module gave, up to one factor, as any turning
    leaves them; True where the norm was no call of a module."""
    normed, arrived = case.normed(name), case.arrived(name)
    if case.norm_call(name) is None or normed is None or arrived is None or normed.shape != arrived.shape:
        return True
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.sqrt(np.sum(arrived**2, axis=-1) / np.sum(normed**2, axis=-1))
    usable = ratio[np.isfinite(ratio)]
    return not usable.size or float(np.ptp(usable)) <= (8 * case.unit + 1e-5) * float(np.abs(usable).max())


def divisor(weight: Floats, before: Floats, after: Floats) -> Floats:
    """Return what a norm divided the square of each vector by: weight² · before² / after², summed over components."""
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio: Floats = np.sum((weight * before) ** 2, axis=-1) / np.sum(after**2, axis=-1)
    return ratio


def median(values: Floats) -> float:
    """Return the median of the values that are finite, NaN where none is."""
    usable = values[np.isfinite(values)]
    return float(np.median(usable)) if usable.size else float("nan")
