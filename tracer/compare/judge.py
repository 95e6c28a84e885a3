"""How far two sides lie apart at a step, and whether rounding explains it.

The yardstick is one side's code run a second time in another precision: what that alone moves is what rounding does to
these numbers. flash-attention's own rule lets another implementation be twice as far from the precise result as plain
code in the same dtype is; two sides may then be three times that distance apart, and two spacings more where it is
nothing. Must not know: engines, wording.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from tracer.arrays import SPACING, Array
from tracer.compare.records import Distance, Pair, Standing, Value
from tracer.order import in_order
from tracer.saved.numbers import largest, spacing

FACTOR = 3.0
SPACINGS = 2.0


def pairs(
    a: Mapping[str, Value], b: Mapping[str, Value], other: Mapping[str, Value], own: Mapping[str, Value], unit: str
) -> tuple[Pair, ...]:
    """Return every step of ``a`` and ``b`` in the order they run.

    ``own`` and ``other`` are one side's run and that same code in another precision, the yardstick; ``unit`` is the
    dtype whose spacing distances are told in.
    """
    names = in_order(dict.fromkeys((*a, *b)))
    return tuple(pair(a.get(name), b.get(name), noise(own.get(name), other.get(name)), unit) for name in names)


def pair(a: Value | None, b: Value | None, rounding: float, unit: str) -> Pair:
    """Return one step of both sides; either may lack it. ``rounding`` is what the yardstick moved there."""
    one = a or b
    if one is None:
        raise ValueError("a step that neither side has")
    if a is None or b is None:
        site_a, site_b = (None if each is None else each.site for each in (a, b))
        return Pair(one.layer, one.name, Standing.ONLY_B if a is None else Standing.ONLY_A, site_a, site_b)
    if a.array.shape != b.array.shape:
        return Pair(one.layer, one.name, Standing.SHAPE, a.site, b.site, shapes=(a.array.shape, b.array.shape))
    found = distance(a.array, b.array, unit)
    allowed = FACTOR * rounding + SPACINGS * spacing(unit, largest(a.array, b.array))
    if found.largest == 0.0 and not found.nonfinite:
        standing = Standing.SAME
    elif found.nonfinite or found.largest > allowed:
        standing = Standing.PARTS
    else:
        standing = Standing.ROUNDING
    return Pair(one.layer, one.name, standing, a.site, b.site, found, allowed)


def noise(own: Value | None, other: Value | None) -> float:
    """Return the largest distance between two runs of one code in two precisions; 0 where it has no such step."""
    if own is None or other is None or own.array.shape != other.array.shape:
        return 0.0
    x, y = own.array.float64(), other.array.float64()
    with np.errstate(invalid="ignore"):
        moved = np.abs(x - y)
    return float(np.max(moved, where=np.isfinite(moved), initial=0.0))


def distance(a: Array, b: Array, unit: str) -> Distance:
    """Return how far two arrays of one shape lie apart."""
    x, y = a.float64(), b.float64()
    both = np.isfinite(x) & np.isfinite(y)
    unlike = ~both & ~((x == y) | (np.isnan(x) & np.isnan(y)))
    with np.errstate(invalid="ignore"):
        apart = np.where(both, np.abs(x - y), 0.0)
    place, step = int(apart.argmax()) if apart.size else 0, spacing(unit, largest(a, b))
    most, mean = float(apart.max(initial=0.0)), float(apart.sum() / max(1, int(both.sum())))
    return Distance(
        largest=most,
        mean=mean,
        spacings=most / step,
        mean_spacings=mean / step,
        unit=unit,
        nonfinite=int(unlike.sum()),
        at=tuple(int(index) for index in np.unravel_index(place, a.shape)) if apart.size else (),
    )


def coarser(dtypes: Iterable[str]) -> str:
    """Return the dtype with the widest spacing."""
    return max(dtypes, key=lambda dtype: SPACING[dtype])
