"""Small pictures of weights as SVG path data, one path a shade; and points on logarithmic axes. Must not know: what is
drawn."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

_STEPS = 8
_LEAST = 0.01


def cells(values: Sequence[Sequence[float | None]]) -> Mapping[str, str]:
    """Return for each class of cell the path that draws all of them on a grid of unit squares.

    Values are from 0 to 1; None is hidden and drawn as ``h``, −1 is no number and drawn as ``n``; ``s1`` to ``s8`` are
    the shades; what rounds to nothing is not drawn.
    """
    paths: dict[str, list[str]] = {}
    for y, row in enumerate(values):
        x = 0
        for name, run in groupby(map(_class, row)):
            width = len(list(run))
            if name:
                paths.setdefault(name, []).append(f"M{x} {y}h{width}v1h-{width}z")
            x += width
    return {name: "".join(parts) for name, parts in sorted(paths.items())}


def _class(value: float | None) -> str:
    if value is None or value != value:
        return "h"
    if value < 0:
        return "n"
    return f"s{max(1, round(value * _STEPS))}" if value >= _LEAST else ""


@dataclass(frozen=True)
class Axes:
    """Two logarithmic axes on a field of WIDTH × HEIGHT, with room at the left and below for what stands at ticks."""

    across: tuple[float, float]  # smallest and largest
    up: tuple[float, float]

    WIDTH, HEIGHT, LEFT, BELOW = 440, 240, 44, 24

    def x(self, value: float) -> float:
        """Return the place of ``value`` on the horizontal axis."""
        return round(self.LEFT + _between(value, self.across) * (self.WIDTH - self.LEFT - 12), 1)

    def y(self, value: float) -> float:
        """Return the place of ``value`` on the vertical axis, from above."""
        return round(self.HEIGHT - self.BELOW - _between(value, self.up) * (self.HEIGHT - self.BELOW - 8), 1)

    @property
    def decades(self) -> tuple[float, ...]:
        """The powers of ten on the vertical axis."""
        low, high = (math.log10(value) for value in self.up)
        return tuple(10.0**power for power in range(math.ceil(low), math.floor(high) + 1))


def axes(points: Sequence[tuple[float, float]]) -> Axes:
    """Return axes that hold ``points``, whose coordinates are above 0: whole powers of ten upwards."""
    across, up = ([point[place] for point in points] for place in (0, 1))
    low, high = (math.log10(value) for value in (min(up), max(up)))
    return Axes((min(across), max(across)), (10.0 ** math.floor(low), 10.0 ** math.ceil(high + 1e-9)))


def _between(value: float, ends: tuple[float, float]) -> float:
    low, high = (math.log(end) for end in ends)
    return (math.log(value) - low) / (high - low) if high > low else 0.5
