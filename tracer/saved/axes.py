"""A step of different code bases in one layout, so that its numbers can be compared one by one.

One engine keeps a batch axis, another packs tokens; one puts heads before tokens; one keeps the cosines of both halves
of a head, another of one. Must not know: engines, distances.
"""

import numpy as np

from tracer.arrays import Array

_TOKENS = ("T", "Tq")
_HALVES = ("cos", "sin")  # each angle turns a pair (i, i + D/2): some code keeps it once, some twice


def tokens_first(array: Array, axes: tuple[str, ...], name: str) -> Array:
    """Return ``array``, whose axes are named, without its batch axis and with its tokens first."""
    bits = array.bits
    if "B" in axes:
        place = axes.index("B")
        bits = np.squeeze(bits, axis=place)
        axes = axes[:place] + axes[place + 1 :]
    tokens = next((place for place, axis in enumerate(axes) if axis in _TOKENS), 0)
    bits = np.moveaxis(bits, tokens, 0)
    if name in _HALVES and axes[-1] == "D":
        first, second = np.split(bits, 2, axis=-1)
        if np.array_equal(first, second):
            bits = first
    return Array(array.dtype, np.ascontiguousarray(bits))
