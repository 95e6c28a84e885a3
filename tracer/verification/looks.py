"""Which layers and heads are looked at closely outside the plain scenario, where layers run the very same code.

Must not know: what is looked for.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tracer.engines.transformers.likeness import likeness
from tracer.engines.transformers.live import Live

# Of layers that are alike every so many-th is looked at closely, and of each so many heads.
_EVERY = 4
_FEWEST_HEADS, _HEADS = 2, 4


@dataclass(frozen=True)
class Look:
    """How one layer is looked at outside the plain scenario: ``closely``, by every check, or by those alone that show
    what padding, packing and a cache do; and the ``heads`` that are set against the reference where it is closely."""

    closely: bool
    heads: tuple[int, ...]


def looks(live: Live, layers: Sequence[int], heads: Sequence[int], thorough: bool) -> Mapping[int, Look]:
    """Return how each of ``layers`` is looked at: all closely, with all ``heads``, where it is to be ``thorough``; else
    the first and every fourth of those that run the same code in layers of one type."""
    if thorough:
        return {layer: Look(True, tuple(heads)) for layer in layers}
    groups: dict[object, list[int]] = {}
    for layer in layers:
        groups.setdefault((likeness(live.attentions[layer]), live.facts(layer).layer_type), []).append(layer)
    found = {}
    for alike in groups.values():
        close = alike[::_EVERY]
        for place, layer in enumerate(alike):
            chosen = some_heads(heads, len(close), place // _EVERY)
            found[layer] = Look(layer in close, chosen)
    return found


def some_heads(heads: Sequence[int], layers: int, place: int) -> tuple[int, ...]:
    """Return a few of ``heads`` for the layer at ``place`` of so many ``layers``: what padding, packing and a cache do
    is the same for all heads.

    The more layers there are, the fewer heads of each, but all come up about twice; those of one layer lie apart.
    """
    count = max(_FEWEST_HEADS, min(_HEADS, -(-2 * len(heads) // layers)))
    if len(heads) <= count:
        return tuple(heads)
    step = next(n for n in range(round(len(heads) * 0.618), 0, -1) if math.gcd(n, len(heads)) == 1)
    return tuple(sorted(heads[(place * count + n) * step % len(heads)] for n in range(count)))
