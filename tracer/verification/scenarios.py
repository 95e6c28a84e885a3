"""The situations in which a model's attention is looked at, each as one or more forward passes made from a prompt.

Must not know: torch, what is checked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from tracer.maths.visibility import Visibility
from tracer.verification.expected import Ints

Bools = NDArray[np.bool_]
# Padding, packing and caching show the same with few tokens as with many: these runs are kept short.
SHORT = 24
# What is run by default, and every scenario there is: "padded" is left and right padding at once, "cached" is "chunk"
# (several tokens on a cache) and then "decode" (one), told apart.
DEFAULT = ("plain", "packed", "padded", "cached")
NAMES = (*DEFAULT, "left_pad", "right_pad", "chunk", "decode")


@dataclass(frozen=True, eq=False)
class Step:
    """One forward pass. ids and positions [B, T]; ``real`` [B, S] tells the tokens that count, of all keys so far;
    ``mask`` whether the model is given it; ``starts`` where packed sequences start, and the total; ``judged`` whether
    the pass is looked at, or only fills the cache; ``name`` is the scenario's, where that has passes of two kinds."""

    ids: Ints
    positions: Ints
    real: Bools
    mask: bool = False
    starts: tuple[int, ...] = ()
    give_positions: bool = False
    judged: bool = True
    name: str = ""

    @property
    def past(self) -> int:
        """How many tokens came in earlier passes."""
        return int(self.real.shape[1] - self.ids.shape[1])

    @property
    def rows(self) -> Bools:
        """Which of this pass's own tokens count, [B, T]."""
        return self.real[:, self.past :]

    def visibility(self, row: int, keys: int, window: int | None) -> Visibility:
        """Return who may see whom in batch row ``row``, for the last ``keys`` of all tokens so far."""
        real = self.real[row, self.real.shape[1] - keys :]
        mask = None
        if not real.all():
            mask = self.rows[row][:, None] & real[None, :]
        return Visibility(
            tq=self.ids.shape[1],
            tk=keys,
            causal=True,
            left=None if window is None else window - 1,
            starts_q=self.starts,
            starts_k=self.starts,
            mask=mask,
        )


@dataclass(frozen=True, eq=False)
class Scenario:
    """A named situation: passes made one after the other, with one cache between them where there are several.

    ``plain_rows`` gives for each pass, batch row and token the place of the same token, with the same past, in the
    plain scenario (−1 where there is none).
    """

    id: str
    steps: tuple[Step, ...]
    plain_rows: tuple[Ints, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names under which its passes are told: each kind of pass on a cache is a scenario of its own."""
        return tuple(dict.fromkeys(self.name_of(step) for step in self.steps if step.judged))

    def name_of(self, step: Step) -> str:
        """Return the name under which one of its passes is told."""
        return step.name or self.id

    @property
    def cached(self) -> bool:
        """Whether the passes share a cache."""
        return len(self.steps) > 1


def plain(ids: Sequence[int]) -> Scenario:
    """Return the prompt as it is, in one pass."""
    return Scenario("plain", (_whole(ids),), (np.arange(len(ids))[None],))


def packed(ids: Sequence[int]) -> Scenario:
    """Return three sequences one after the other in one row, positions starting anew: each begins like the prompt."""
    length = min(len(ids), SHORT)
    lengths = [length - length // 3 - length // 4, length // 3, length // 4]
    lengths = [n for n in lengths if n]
    row = [id for n in lengths for id in ids[:n]]
    places = np.concatenate([np.arange(n) for n in lengths])
    step = Step(
        ids=np.array([row]),
        positions=places[None],
        real=np.ones((1, len(row)), dtype=np.bool_),
        starts=tuple(accumulate(lengths, initial=0)),
        give_positions=True,
    )
    return Scenario("packed", (step,), (places[None],))


def padded(id: str, ids: Sequence[int], pad: int, sides: str) -> Scenario:
    """Return a batch of the prompt and, for each of ``sides`` (l, r), a shorter row padded on that side."""
    row = list(ids[:SHORT])
    length, pads = len(row), max(1, len(row) // 4)
    real = np.ones((1 + len(sides), length), dtype=np.bool_)
    rows = [row]
    for number, side in enumerate(sides, 1):
        rows.append([pad] * pads + row[:-pads] if side == "l" else row[:-pads] + [pad] * pads)
        real[number, slice(0, pads) if side == "l" else slice(length - pads, length)] = False
    positions = np.maximum(np.cumsum(real, axis=1) - 1, 0)
    step = Step(np.array(rows), positions, real, mask=True, give_positions=True)
    return Scenario(id, (step,), (np.where(real, positions, -1),))


def cached(id: str, ids: Sequence[int], several: bool, one: bool) -> Scenario | None:
    """Return the prompt on a cache after a first pass: ``several`` tokens at once, ``one`` alone; None: too short."""
    row = list(ids[:SHORT])
    more = max(2, len(row) // 3) if several else 0
    bounds = [0, len(row) - more - one, *([len(row) - one] if several else []), *([len(row)] if one else [])]
    if bounds[1] < 1:
        return None
    steps, places = [], []
    for number, (a, b) in enumerate(pairwise(bounds)):
        at = np.arange(a, b)[None]
        name = "decode" if (number and b - a == 1) or not several else "chunk"
        steps.append(Step(np.array([row[a:b]]), at, np.ones((1, b), dtype=np.bool_), judged=number > 0, name=name))
        places.append(at)
    return Scenario(id, tuple(steps), tuple(places))


def make(name: str, ids: Sequence[int], pad: int) -> Scenario | None:
    """Return the scenario ``name`` (one of NAMES) of a prompt, or None where the prompt is too short for it."""
    if name == "plain":
        return plain(ids)
    if len(ids) < 3:
        return None
    if name == "packed":
        return packed(ids)
    if name in ("padded", "left_pad", "right_pad"):
        return padded(name, ids, pad, {"padded": "lr", "left_pad": "l", "right_pad": "r"}[name])
    return cached(name, ids, several=name != "decode", one=name != "chunk")


def _whole(ids: Sequence[int]) -> Step:
    row = np.array([list(ids)])
    return Step(row, np.arange(row.shape[1])[None], np.ones(row.shape, dtype=np.bool_))
