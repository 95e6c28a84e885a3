"""Which probes one attention call is put through, and what they gave.

Must not know: what should come out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tracer.arrays import Array
from tracer.engines.transformers import probes
from tracer.engines.transformers.observed import AttentionSeen
from tracer.engines.transformers.watching import Call
from tracer.records import ModelFacts
from tracer.verification.scenarios import Bools, Step

# Effective weights are read head_dim keys at a time; by default at most this many times.
_MOST_READS = 8
# Scores of about this size leave no exponential that does not subtract the row's maximum.
_LOUD = 1000.0


@dataclass(frozen=True)
class Plan:
    """How far to go: which rows' tokens are changed in turn (None: second, middle, last), and all keys or some."""

    heads: tuple[int, ...]
    thorough: bool = False


@dataclass(frozen=True, eq=False)
class Probed:
    """What running one call again showed. Fields are None where a probe was not run or could not be."""

    repeats: bool
    moved: tuple[tuple[int, int, Bools], ...] = ()  # batch row and token whose hidden state was negated → moved rows
    weights: probes.Weights | None = None
    value_heads: tuple[int, ...] | None = None
    small: probes.Changed | None = None
    loud: probes.Changed | None = None
    loud_factor: float = 1.0
    # plain matrix products in the same dtype, by batch row: output [Tq, heads, D] and weights [heads, Tq, columns]
    eager: tuple[tuple[Array, Array], ...] = ()
    loud_eager: tuple[Array, Array] | None = None
    columns: tuple[int, ...] = field(default=())


def probe(call: Call, seen: AttentionSeen, step: Step, facts: ModelFacts, plan: Plan, full: bool) -> Probed:
    """Return what the call's probes gave; ``full`` adds those that need to be run once a layer only."""
    keys = _keys(seen, step)
    columns = _columns(keys, facts.head_dim, plan.thorough)
    found = probes.weights(call, keys, facts.head_dim, facts.heads, columns)
    eager = _eager(call, seen, step, facts, plan, columns)
    if not full:
        return Probed(probes.repeats(call), _changes(call, step, plan), found, eager=eager, columns=columns)
    factor = _loud_factor(seen, facts)
    loud = probes.amplified(call, factor, keys, facts.head_dim, columns) if factor else None
    return Probed(
        repeats=probes.repeats(call),
        moved=_changes(call, step, plan),
        weights=found,
        value_heads=probes.value_heads(call, keys, facts.kv_heads, facts.head_dim, step.rows),
        small=_small(call, seen, facts),
        loud=loud,
        loud_factor=factor or 1.0,
        eager=eager,
        loud_eager=_loud_eager(loud, step, facts, plan, columns),
        columns=columns,
    )


def _keys(seen: AttentionSeen, step: Step) -> int:
    return seen.interface.key.shape[2] if seen.interface is not None else step.real.shape[1]


def _columns(keys: int, head_dim: int, thorough: bool) -> tuple[int, ...]:
    most = keys if thorough else min(keys, _MOST_READS * head_dim)
    return tuple(int(c) for c in np.unique(np.linspace(0, keys - 1, most).astype(np.int64)))


def _changes(call: Call, step: Step, plan: Plan) -> tuple[tuple[int, int, Bools], ...]:
    """Negate tokens in turn: in one pass without padding the asked ones, else the pads and the packed neighbours."""
    if step.past:
        return ()
    batch, length = step.ids.shape
    tokens: list[tuple[int, int]] = []
    if step.starts:
        tokens = [(0, start) for start in step.starts[:-1]] + [(0, end - 1) for end in step.starts[1:]]
    elif step.mask:
        tokens = [(row, t) for row in range(batch) for t in np.flatnonzero(~step.real[row])]
    elif plan.thorough:
        tokens = [(0, t) for t in range(1, length)]
    else:
        tokens = [(0, t) for t in sorted({1, length // 2, length - 1}) if 0 < t < length]
    return tuple((row, int(t), probes.moved_rows(call, int(t), row)) for row, t in sorted(set(tokens)))


def _small(call: Call, seen: AttentionSeen, facts: ModelFacts) -> probes.Changed | None:
    """Run with hidden states so small that the norm's eps is as large as the mean square it is added to."""
    made = seen.call("q_proj")
    if made is None:
        return None
    size = float(np.sqrt(np.mean(made.gave.float64() ** 2)))
    wanted = np.sqrt(max(facts.norm_eps, 1e-7))
    if not size > 0:
        return None
    return probes.small(call, 2.0 ** round(float(np.log2(wanted / size))))


def _loud_factor(seen: AttentionSeen, facts: ModelFacts) -> float | None:
    """Return the power of two by which queries are multiplied so that scores reach some hundreds."""
    if seen.interface is None:
        return None
    query, key = seen.interface.query.float64(), seen.interface.key.float64()
    largest = 0.0
    for head in range(query.shape[1]):
        scores = query[0, head] @ key[0, head * key.shape[1] // query.shape[1]].T * facts.head_dim**-0.5
        largest = max(largest, float(np.abs(scores).max(initial=0.0)))
    return 2.0 ** np.floor(np.log2(_LOUD / largest)) if 0 < largest < np.inf else None


def _eager(
    call: Call, seen: AttentionSeen, step: Step, facts: ModelFacts, plan: Plan, columns: Sequence[int]
) -> tuple[tuple[Array, Array], ...]:
    if seen.interface is None:
        return ()
    found = []
    for row in range(step.ids.shape[0]):
        visible = step.visibility(row, seen.interface.key.shape[2], facts.window).rows(0, step.ids.shape[1])
        found.append(_plain(seen.interface.query, seen.interface.key, seen.interface.value, row, visible, facts, plan))
    return tuple((output, _cut(shares, columns)) for output, shares in found)


def _loud_eager(
    loud: probes.Changed | None, step: Step, facts: ModelFacts, plan: Plan, columns: Sequence[int]
) -> tuple[Array, Array] | None:
    if loud is None or loud.query is None or loud.key is None or loud.value is None:
        return None
    visible = step.visibility(0, loud.key.shape[2], facts.window).rows(0, step.ids.shape[1])
    output, shares = _plain(loud.query, loud.key, loud.value, 0, visible, facts, plan)
    return output, _cut(shares, columns)


def _plain(
    query: Array, key: Array, value: Array, row: int, visible: Bools, facts: ModelFacts, plan: Plan
) -> tuple[Array, Array]:
    return probes.eager(query[row], key[row], value[row], facts.head_dim**-0.5, visible, plan.heads)


def _cut(shares: Array, columns: Sequence[int]) -> Array:
    return shares if len(columns) == shares.shape[2] else shares[:, :, list(columns)]
