"""Find the scale that a kernel really used, from what it gave back.

Must not know: what scale was asked for, traces, wording.

The scale s is fitted so that softmax(s·QKᵀ + M) gives the kernel's logsumexp (or output). How exactly that can be known
depends on the input: κ, the root mean square over rows of s·E[q·k], says how far the logsumexp moves when s changes by
its own size. With noise δ in the logsumexp, s is known to about δ/κ; the tolerance is four times that.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tracer.arrays import SPACING, Floats
from tracer.errors import InputError
from tracer.maths.attention import Head
from tracer.maths.visibility import Bools, Ints

# The noise of a kernel's logsumexp that held in trials.
LSE_NOISE = {"F64": 5e-7, "F32": 5e-7, "F16": 2e-5, "BF16": 2e-5}
# Above this relative tolerance an input says nothing about the scale: few tokens, or nearly uniform scores.
LARGEST_TOLERANCE = 0.05
_SMALLEST_TOLERANCE = 1e-6
_FACTOR = 4.0
# A step this small (relative) leaves an error of ½·Var·step², far below the noise: no second step is needed.
_ONE_STEP = 3e-5
_STEPS = 60
_SAMPLED_ROWS = 256
_SAMPLED_NUMBERS = 1 << 22
# An output saturates when the scale is far too large, so its fit starts from several scales, in units of the expected.
_STARTS = (1.0, 0.25, 4.0, 16.0)


@dataclass(frozen=True)
class ScaleFit:
    """The scale that fits best, and how well it is known.

    ``residual`` is the largest remaining distance to the kernel's values; where it is not small, no scale fits, and the
    cause is elsewhere (a wrong mask moves it too). ``tolerance`` is relative to the scale, infinite where the values do
    not depend on it at all.
    """

    scale: float
    rows: int  # how many queries were used
    kappa: float
    residual: float
    tolerance: float

    @property
    def tells(self) -> bool:
        """Whether this input says anything about the scale."""
        return self.tolerance <= LARGEST_TOLERANCE


def fit_lse(head: Head, lse: Floats, noise: float) -> ScaleFit | None:
    """Return the scale that fits a kernel's ``lse`` [Tq] (natural log), or None where no row can be used.

    Starts at the head's own scale, where one step over all rows is enough if the kernel used the same; else it goes
    on with Gauss-Newton steps on evenly spaced rows, so the memory stays bounded. Rows with no allowed key, and rows
    where either side is not finite, are left out. Raises InputError for another number of rows.
    """
    if lse.shape != head.lse.shape:
        raise InputError("maths.lse_shape", rows=head.lse.shape[0], found=lse.shape)
    rows = np.flatnonzero(np.isfinite(lse) & np.isfinite(head.lse) & np.isfinite(head.mean))
    if rows.size == 0:
        return None
    slope, apart = head.mean[rows] / head.scale, lse[rows] - head.lse[rows]
    step = _least_squares(slope, apart)
    if abs(step) <= _ONE_STEP * abs(head.scale):
        scale, left = head.scale + step, apart - slope * step
    else:
        rows = _spread(rows, head.k.shape[0])
        sample = _Sample(head, rows)
        scale = _newton(lambda s: sample.lse_step(s, lse[rows]), head.scale)
        at = sample.at(scale)
        slope, left = at.mean_dot, lse[rows] - at.lse
    kappa = abs(scale) * float(np.sqrt(np.mean(slope**2)))
    return ScaleFit(scale, int(rows.size), kappa, float(np.abs(left).max()), _tolerance(noise, kappa))


def fit_output(head: Head, output: Floats, dtype: str, scores_dtype: str) -> ScaleFit | None:
    """Return the scale that fits a kernel's ``output`` [Tq, Dv], for kernels without a logsumexp.

    Uses evenly spaced rows. The noise is what rounding the output to ``dtype`` and the scores to ``scores_dtype`` (the
    same for plain products, F32 inside a flash kernel) makes of the output's root mean square. None as in fit_lse.
    """
    usable = np.isfinite(output).all(axis=1) & np.isfinite(head.output).all(axis=1) & np.isfinite(head.mean)
    rows = np.flatnonzero(usable)
    if rows.size == 0:
        return None
    rows = _spread(rows, head.k.shape[0])
    sample, wanted = _Sample(head, rows), output[rows]
    found = [_newton(lambda s: sample.output_step(s, wanted), head.scale * start) for start in _STARTS]
    residual, scale = min((float(np.abs(wanted - sample.at(s).output).max()), s) for s in found)
    kappa = abs(scale) * float(np.sqrt(np.mean(sample.slope(scale) ** 2)))
    # Rounding differs from number to number and averages out; what a float32 sum does to all scores alike does not.
    largest = float(np.abs(head.row_max[rows]).max())
    rounding = (SPACING[dtype] + SPACING[scores_dtype] * largest) * 2 / wanted.size**0.5
    noise = (rounding + SPACING["F32"] * largest) * float(np.sqrt(np.mean(wanted**2)))
    return ScaleFit(scale, int(rows.size), kappa, residual, _tolerance(noise, kappa))


@dataclass(frozen=True, eq=False)
class _At:
    """The sampled rows at one scale: weights [rows, Tk]; lse and mean_dot = E[q·k] [rows]; output [rows, Dv]."""

    weights: Floats
    lse: Floats
    mean_dot: Floats
    output: Floats


class _Sample:
    """Some rows of a head, whose softmax can be had at any scale."""

    def __init__(self, head: Head, rows: Ints) -> None:
        self._visible: Bools = head.visibility.at(rows)
        with np.errstate(invalid="ignore", over="ignore"):
            self._dots: Floats = np.where(self._visible, head.q[rows] @ head.k.T, 0.0)
        self._v = np.where(np.isfinite(head.v), head.v, 0.0)

    def at(self, scale: float) -> _At:
        scores = np.where(self._visible, scale * self._dots, -np.inf)
        row_max = scores.max(axis=1, keepdims=True)
        shares = np.exp(scores - row_max)
        total = shares.sum(axis=1, keepdims=True)
        weights = shares / total
        lse = (row_max + np.log(total))[:, 0]
        return _At(weights, lse, np.einsum("ij,ij->i", weights, self._dots), weights @ self._v)

    def lse_step(self, scale: float, wanted: Floats) -> float:
        at = self.at(scale)
        return _least_squares(at.mean_dot, wanted - at.lse)

    def output_step(self, scale: float, wanted: Floats) -> float:
        at = self.at(scale)
        return _least_squares(self._slope(at).ravel(), (wanted - at.output).ravel())

    def slope(self, scale: float) -> Floats:
        """Return ∂O/∂s [rows, Dv] = Σ A·(q·k − E[q·k])·v."""
        return self._slope(self.at(scale))

    def _slope(self, at: _At) -> Floats:
        slope: Floats = (at.weights * (self._dots - at.mean_dot[:, None])) @ self._v
        return slope


def _newton(step: Callable[[float], float], start: float) -> float:
    """Return where the steps come to rest; each is kept below half the scale, so that none runs away."""
    scale = start
    for _ in range(_STEPS):
        limit = 0.5 * abs(scale) + 1e-3 * abs(start)
        change = float(np.clip(step(scale), -limit, limit))
        scale += change
        if abs(change) <= 1e-14 * abs(scale):
            break
    return scale


def _least_squares(slope: Floats, apart: Floats) -> float:
    """Return the step along ``slope`` that brings ``apart`` nearest to zero; 0 where nothing depends on the scale."""
    square = float(slope @ slope)
    return float(slope @ apart) / square if square > 0 else 0.0


def _spread(rows: Ints, keys: int) -> Ints:
    """Return evenly spaced ones of ``rows``, first and last among them, few enough for bounded memory."""
    most = max(2, min(_SAMPLED_ROWS, _SAMPLED_NUMBERS // max(1, keys)))
    if rows.size <= most:
        return rows
    return rows[np.linspace(0, rows.size - 1, most).astype(np.int64)]


def _tolerance(noise: float, kappa: float) -> float:
    return max(_SMALLEST_TOLERANCE, _FACTOR * noise / kappa) if kappa > 0 else float("inf")
