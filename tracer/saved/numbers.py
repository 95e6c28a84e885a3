"""How far apart two tensors are, and how far that is for numbers of their size and dtype.

Must not know: what the tensors are.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from tracer.arrays import SPACING, Array

_BLOCK = 1 << 20
# The exponent of the smallest normal number: below it the spacing no longer shrinks.
_SMALLEST = {"F64": -1022, "F32": -126, "BF16": -126, "F16": -14}


class Status(StrEnum):
    """How a tensor in two traces compares."""

    SAME = "same"  # bit for bit
    DIFFERS = "differs"
    SHAPE = "shape"  # the shapes differ, so numbers are not compared
    ONLY_A = "only_a"
    ONLY_B = "only_b"


@dataclass(frozen=True)
class Held:
    """How a tensor is held."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class TensorDiff:
    """One tensor in two traces, None where one has none. ``max_spacings`` is the largest distance in units of the
    spacing, in the coarser of both dtypes, between neighbouring numbers of the size of the largest one compared.
    Distances are over numbers finite in both, None where nothing was compared; ``nonfinite`` counts those that are not,
    unless both are the same.
    """

    name: str
    status: Status
    a: Held | None
    b: Held | None
    differing: int = 0
    max_abs: float | None = None
    mean_abs: float | None = None
    max_spacings: float | None = None
    nonfinite: int = 0
    at: tuple[int, ...] | None = None


def compare(name: str, a: Array | None, b: Array | None) -> TensorDiff:
    """Return how ``a`` and ``b`` compare; either may be absent, not both."""
    held_a, held_b = (None if one is None else Held(one.shape, one.dtype) for one in (a, b))
    if a is None or b is None:
        return TensorDiff(name, Status.ONLY_B if a is None else Status.ONLY_A, held_a, held_b)
    if a.shape != b.shape:
        return TensorDiff(name, Status.SHAPE, held_a, held_b)
    if a.same_bits(b):
        return TensorDiff(name, Status.SAME, held_a, held_b, max_abs=0.0, mean_abs=0.0, max_spacings=0.0)
    return _measured(name, a, b)


def spacing(dtype: str, size: float) -> float:
    """Return the distance between neighbouring ``dtype`` numbers of that ``size``."""
    _, exponent = np.frexp(max(size, 2.0 ** _SMALLEST[dtype]))
    return float(np.ldexp(SPACING[dtype], int(exponent) - 1))


def largest(*arrays: Array) -> float:
    """Return the size of the largest finite number in any of ``arrays``, 0 where there is none."""
    sizes = (np.abs(each.float64()) for each in arrays)
    return max(float(np.max(size, where=np.isfinite(size), initial=0.0)) for size in sizes)


def _measured(name: str, a: Array, b: Array) -> TensorDiff:
    coarser = max(a.dtype, b.dtype, key=lambda dtype: SPACING.get(dtype, 0.0))
    differing = nonfinite = finite = 0
    total, most, size, place = 0.0, -1.0, 0.0, 0
    for start in range(0, a.bits.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        one, other = (Array(each.dtype, each.bits.reshape(-1)[part]) for each in (a, b))
        x, y = one.float64(), other.float64()
        differing += int(np.count_nonzero(_unequal(one, other)))
        both = np.isfinite(x) & np.isfinite(y)
        nonfinite += int(np.count_nonzero(~both & ~((x == y) | (np.isnan(x) & np.isnan(y)))))
        with np.errstate(invalid="ignore", over="ignore"):
            distance = np.where(both, np.abs(x - y), 0.0)
        finite += int(np.count_nonzero(both))
        total += float(distance.sum())
        if distance.max() > most:
            most, place = float(distance.max()), start + int(distance.argmax())
        size = max(size, largest(one, other))
    return TensorDiff(
        name,
        Status.DIFFERS,
        Held(a.shape, a.dtype),
        Held(b.shape, b.dtype),
        differing=differing,
        max_abs=most if finite else None,
        mean_abs=total / finite if finite else None,
        max_spacings=most / spacing(coarser, size) if finite and coarser in SPACING else None,
        nonfinite=nonfinite,
        at=tuple(int(index) for index in np.unravel_index(place, a.shape)) if finite else None,
    )


def _unequal(a: Array, b: Array) -> NDArray[np.bool_]:
    """Return where two flat arrays differ: in any bit for one dtype, in value for two."""
    if a.dtype == b.dtype:
        bits = f"<u{a.bits.dtype.itemsize}"
        same: NDArray[np.bool_] = a.bits.view(bits) == b.bits.view(bits)
    else:
        x, y = a.float64(), b.float64()
        same = (x == y) | (np.isnan(x) & np.isnan(y))
    return ~same
