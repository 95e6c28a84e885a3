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
_DECODED = 3
NAMES = ("plain", "packed", "left_pad", "right_pad", "decode", "chunk")


@dataclass(frozen=True, eq=False)
class Step:
    """One forward pass. ids and positions [B, T]; ``real`` [B, S] tells the tokens that count, of all keys so far;
    ``mask`` whether the model is given it; ``starts`` where packed sequences start, and the total."""

    ids: Ints
    positions: Ints
    real: Bools
    mask: bool = False
    starts: tuple[int, ...] = ()
    give_positions: bool = False

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
    def cached(self) -> bool:
        """Whether the passes share a cache."""
        return len(self.steps) > 1


def plain(ids: Sequence[int]) -> Scenario:
    """Return the prompt as it is, in one pass."""
    return Scenario("plain", (_whole(ids),), (np.arange(len(ids))[None],))


def left_pad(ids: Sequence[int], pad: int) -> Scenario:
    """Return a batch of two rows, the second padded on the left."""
    return _padded("left_pad", ids[:SHORT], pad, left=True)


def right_pad(ids: Sequence[int], pad: int) -> Scenario:
    """Return a batch of two rows, the second padded on the right."""
    return _padded("right_pad", ids[:SHORT], pad, left=False)


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


def decode(ids: Sequence[int]) -> Scenario | None:
    """Return the prompt with its last tokens one at a time on a cache; None where it is too short."""
    row = ids[:SHORT]
    first = len(row) - _DECODED
    return None if first < 1 else _in_parts("decode", row, [0, *range(first, len(row) + 1)])


def chunk(ids: Sequence[int]) -> Scenario | None:
    """Return the prompt in two passes, the second of several tokens on a cache; None where it is too short."""
    row = ids[:SHORT]
    second = max(2, len(row) // 3)
    return None if len(row) - second < 1 else _in_parts("chunk", row, [0, len(row) - second, len(row)])


def every(ids: Sequence[int], pad: int) -> tuple[Scenario, ...]:
    """Return all scenarios that can be made of the prompt, the plain one first."""
    made = [plain(ids), packed(ids) if len(ids) >= 3 else None]
    if len(ids) >= 3:
        made += [left_pad(ids, pad), right_pad(ids, pad)]
    made += [decode(ids), chunk(ids)]
    return tuple(scenario for scenario in made if scenario is not None)


def _whole(ids: Sequence[int]) -> Step:
    row = np.array([list(ids)])
    return Step(row, np.arange(row.shape[1])[None], np.ones(row.shape, dtype=np.bool_))


def _padded(id: str, ids: Sequence[int], pad: int, left: bool) -> Scenario:
    length = len(ids)
    pads = max(1, length // 4)
    short = list(ids[: length - pads])
    real = np.ones((2, length), dtype=np.bool_)
    if left:
        rows, real[1, :pads] = [list(ids), [pad] * pads + short], False
    else:
        rows, real[1, length - pads :] = [list(ids), short + [pad] * pads], False
    positions = np.maximum(np.cumsum(real, axis=1) - 1, 0)
    places = np.where(real, positions, -1)
    step = Step(np.array(rows), positions, real, mask=True, give_positions=True)
    return Scenario(id, (step,), (places,))


def _in_parts(id: str, row: Sequence[int], bounds: list[int]) -> Scenario:
    steps, places = [], []
    for a, b in pairwise(bounds):
        at = np.arange(a, b)[None]
        steps.append(Step(np.array([row[a:b]]), at, np.ones((1, b), dtype=np.bool_)))
        places.append(at)
    return Scenario(id, tuple(steps), tuple(places))
