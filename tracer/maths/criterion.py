"""When two results count as the same: flash-attention's own criterion for outputs, and bounds for a logsumexp.

Must not know: how results were computed, traces, wording.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tracer.arrays import SPACING, Floats
from tracer.maths.visibility import Bools, Ints

# flash-attention's tests allow twice the error that plain matrix products make in the same dtype, and this much more
# (Dao-AILab/flash-attention, tests/test_flash_attn.py).
FACTOR = 2.0
SLACK = 3e-5
# The largest error of a logsumexp that held in trials, for scores of ordinary size.
LSE_WITHIN = {"F64": 5e-6, "F32": 5e-6, "F16": 1e-4, "BF16": 1e-4}


# Plain products cost many times what a flash kernel does. Of a prompt longer than this only some rows are computed.
EAGER_WHOLE = 8192
_EAGER_ROWS = (256, 256, 512)  # the first, those with the largest numbers, and evenly spaced ones


def eager_rows(output: Floats) -> Ints:
    """Return the rows that plain products are computed for, given the kernel's ``output`` [T, D]: all, or of a long
    prompt the first ones, those with the largest numbers (rounding is coarsest there) and evenly spaced ones.

    Their largest error is at most that of all rows, so the criterion only becomes stricter.
    """
    count = len(output)
    if count <= EAGER_WHOLE:
        return np.arange(count)
    first, largest, spread = _EAGER_ROWS
    size = np.nan_to_num(np.maximum(output.max(axis=1), -output.min(axis=1)), nan=0.0)
    return np.unique(
        np.concatenate(
            [
                np.arange(first),
                np.argsort(-size, kind="stable")[:largest],
                np.linspace(0, count - 1, spread).astype(np.int64),
            ]
        )
    )


@dataclass(frozen=True)
class Difference:
    """How far two arrays lie apart. ``largest`` is over the places where both are finite, at index ``at``.

    ``mismatched`` counts places where only one side is finite, or where both are not but differ: NaN against a number
    is a mismatch, never a pass. ``undefined`` counts places where both are the same NaN or infinity.
    """

    largest: float
    at: tuple[int, ...] | None
    mismatched: int
    first_mismatch: tuple[int, ...] | None
    undefined: int
    compared: int  # places where both are finite

    def within(self, tolerance: float) -> bool:
        """Return whether something was compared and nothing lies further apart than ``tolerance``."""
        return self.compared > 0 and self.mismatched == 0 and self.largest <= tolerance


def difference(a: Floats, b: Floats) -> Difference:
    """Return how far two arrays of one shape lie apart. Raises ValueError for different shapes."""
    if a.shape != b.shape:
        raise ValueError(f"arrays of one shape are compared, not {a.shape} and {b.shape}")
    with np.errstate(invalid="ignore", over="ignore"):
        apart = a - b
        np.abs(apart, out=apart)
    largest = float(apart.max(initial=0.0))
    if np.isfinite(largest):  # then all numbers are, as they are for all but the strangest inputs
        return Difference(largest, _place(apart), 0, None, 0, apart.size)
    both = np.isfinite(a) & np.isfinite(b)
    apart = np.abs(np.subtract(a, b, where=both, out=np.zeros_like(a)))
    same = both | (np.isnan(a) & np.isnan(b)) | (a == b)
    compared = int(both.sum())
    return Difference(
        largest=float(apart.max(initial=0.0)),
        at=_place(apart) if compared else None,
        mismatched=int((~same).sum()),
        first_mismatch=_index((~same).argmax(), a.shape) if not same.all() else None,
        undefined=int((same & ~both).sum()),
        compared=compared,
    )


@dataclass(frozen=True)
class Numerics:
    """The three numbers of flash-attention's criterion, over the rows that were compared.

    ``eager_error`` is None where plain products in that dtype overflow (then ``tolerance`` comes from the dtype alone).
    """

    kernel: Difference
    eager_error: float | None
    eager_overflow: int  # rows left out of eager_error because eager is not finite there
    tolerance: float
    eager_rows: int | None = None  # how many rows eager_error is over, where not over all

    @property
    def ok(self) -> bool:
        """Whether the kernel's output passes."""
        return self.kernel.within(self.tolerance)


def numerics(
    kernel: Floats, eager: Floats | None, reference: Floats, dtype: str, *, known: Bools | None = None
) -> Numerics:
    """Return flash-attention's criterion for outputs [rows, D]: max|kernel − ref| ≤ 2 · max|eager − ref| + 3e-5.

    ``reference`` is float64 from the same q, k, v; ``eager`` plain matrix products in the kernel's own ``dtype``. Rows
    where eager is not finite while the reference is (scores beyond float16) say nothing about the kernel: they are
    counted, and left out of eager's error. Without any other row the allowance is the dtype's spacing at the largest
    value of the reference, in place of eager's error; so too where there is no ``eager``. ``known`` [rows] are the rows
    that ``eager`` was computed for (see eager_rows); by default all.
    """
    some = None if known is None or known.all() else np.flatnonzero(known)
    lost, error = 0, None
    if eager is not None:
        lost, error = _eager_error(*((eager, reference) if some is None else (eager[some], reference[some])))
    allowance = error
    if allowance is None:
        allowance = SPACING[dtype] * float(np.abs(reference).max(initial=0.0, where=np.isfinite(reference)))
    return Numerics(
        kernel=difference(kernel, reference),
        eager_error=error,
        eager_overflow=lost,
        tolerance=FACTOR * allowance + SLACK,
        eager_rows=None if some is None else int(some.size),
    )


def _eager_error(eager: Floats, reference: Floats) -> tuple[int, float | None]:
    """Return how many rows of ``eager`` [rows, D] are lost to overflow, and the largest error of the others, or None.

    Place by place: one column of v that is not finite leaves no row whole, and says nothing of the others.
    """
    wanted = np.isfinite(reference)
    gone: Bools = np.asarray((wanted & ~np.isfinite(eager)).any(axis=1))
    usable = wanted & ~gone[:, None]
    apart = np.subtract(eager, reference, where=usable, out=np.zeros_like(reference))
    return int(gone.sum()), float(np.abs(apart).max(initial=0.0)) if usable.any() else None


def lse_tolerance(dtype: str, largest: float) -> float:
    """Return how far a kernel's logsumexp may lie from the reference, for scores of up to ``largest`` in size.

    A kernel keeps scores and logsumexp in float32 at best, so the bound grows with them: 16 float32 spacings of the
    largest score, where that is more than the bound for ordinary scores.
    """
    return max(LSE_WITHIN[dtype], 16 * SPACING["F32"] * largest)


def _place(apart: Floats) -> tuple[int, ...] | None:
    return _index(apart.argmax(), apart.shape) if apart.size else None


def _index(flat: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(flat), shape))
