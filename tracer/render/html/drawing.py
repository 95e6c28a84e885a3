"""Small pictures of weights as SVG path data, one path a shade. Must not know: what is drawn."""

from collections.abc import Mapping, Sequence
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
