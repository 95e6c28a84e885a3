"""Which probes one attention call is put through, and what they gave.

Must not know: what should come out.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tracer.arrays import Array
from tracer.engines.transformers import probes
from tracer.engines.transformers.calls import Call
from tracer.engines.transformers.observed import AttentionSeen
from tracer.records import ModelFacts
from tracer.verification.scenarios import Bools, Step

# Scores of about this size leave no exponential that does not subtract the row's maximum.
_LOUD = 1000.0
_STEADY = 8
_LAST = 64
_OTHER = 2
_LOUD_HEADS = 4


@dataclass(frozen=True)
class Plan:
    """How far to go: ``heads`` to look at; ``thorough`` changes every token in turn; ``tick`` is called after each."""

    heads: tuple[int, ...]
    thorough: bool = False
    tick: Callable[[], None] | None = None


@dataclass(frozen=True, eq=False)
class Moved:
    """Tokens (batch row, position) whose hidden states were negated, and the output rows that moved, [B, T]."""

    tokens: tuple[tuple[int, int], ...]
    rows: Bools


@dataclass(frozen=True, eq=False)
class Probed:
    """What running one call again showed. Fields are None where a probe was not run or could not be.

    ``eager``: plain matrix products in the same dtype, by batch row, output [Tq, heads, D]; ``loud_eager`` likewise,
    for the part that loud_part tells.
    """

    repeats: bool
    moved: tuple[Moved, ...] = ()
    weights: probes.Weights | None = None
    value_heads: tuple[int, ...] | None = None
    small: probes.Changed | None = None
    loud: Array | None = None
    loud_factor: float = 1.0
    eager: tuple[Array, ...] = ()
    loud_eager: Array | None = None


def probe(
    call: Call, seen: AttentionSeen, step: Step, facts: ModelFacts, plan: Plan, full: bool, steady: bool = False
) -> Probed:
    """Return what the call's probes gave; ``full`` adds those that need to be run once a layer only; ``steady`` says
    that this layer is known to give the same bits each time."""
    keys = _keys(seen, step)
    found = probes.weights(call, keys, facts.head_dim, facts.heads, range(keys))
    moved = tuple(_moved(call, tokens, plan) for tokens in changes(step, plan.thorough))
    if found is None and not (plan.thorough or step.past or step.starts or step.mask) and step.ids.shape[1] > 2:
        # what moves is all that shows who sees whom: the first tokens, too
        moved += (Moved(((0, 1),), probes.moved_rows(call, [(0, 1)])),)
    # Rows that kept their bits have shown that the call repeats; only where few did must that be looked at.
    repeats = steady or any(int((~one.rows).sum()) >= _STEADY for one in moved) or probes.repeats(call)
    eager = _eager(seen, step, facts, plan)
    value_heads = probes.value_heads(call, keys, facts.kv_heads, facts.head_dim, step.rows)
    if not full:
        return Probed(repeats, moved, found, value_heads, eager=eager)
    factor = _loud_factor(seen, facts)
    loud = probes.loud(call, factor) if factor else None
    return Probed(
        repeats=repeats,
        moved=moved,
        weights=found,
        value_heads=value_heads,
        small=_small(call, seen, facts),
        loud=loud,
        loud_factor=factor or 1.0,
        eager=eager,
        loud_eager=_loud_eager(seen, factor, step, facts, plan) if factor else None,
    )


def _moved(call: Call, tokens: tuple[tuple[int, int], ...], plan: Plan) -> Moved:
    moved = Moved(tokens, probes.moved_rows(call, tokens))
    if plan.tick is not None:
        plan.tick()
    return moved


def _keys(seen: AttentionSeen, step: Step) -> int:
    return seen.interface.key.shape[2] if seen.interface is not None else step.real.shape[1]


def changes(step: Step, thorough: bool) -> list[tuple[tuple[int, int], ...]]:
    """Return the tokens to change, run by run.

    In one pass without padding: an odd one in the middle, which ends a pair (the last is changed for the whole model),
    or each in turn. With padding: all of it at once.
    Packed: the first sequence's end and the last one's beginning, where a leak into what lies between shows first.
    """
    if step.past:
        return []
    length = step.ids.shape[1]
    if step.starts:
        return [((0, step.starts[1] - 1), (0, step.starts[-2]))]
    if step.mask:
        return [tuple((int(row), int(t)) for row, t in np.argwhere(~step.real))]
    tried = range(1, length) if thorough else [length // 2 | 1]
    return [((0, t),) for t in tried if 0 < t < length]


def _small(call: Call, seen: AttentionSeen, facts: ModelFacts) -> probes.Changed | None:
    """Run with hidden states so small that the norm's eps is as large as the mean square it is added to."""
    made = seen.call("q_proj")
    size = 0.0 if made is None else float(np.sqrt(np.mean(made.gave.float64() ** 2)))
    if not 0 < size < np.inf:
        return None
    steps = round(float(np.log2(np.sqrt(max(facts.norm_eps, 1e-7)) / size)))
    # where they are as small already, a second run must still be another one: then larger
    return probes.quiet(call, 2.0 ** (steps if abs(steps) >= _OTHER else _OTHER))


def _loud_factor(seen: AttentionSeen, facts: ModelFacts) -> float | None:
    """Return the power of two by which queries are multiplied so that scores reach some hundreds."""
    if seen.interface is None or not _grouped(seen):
        return None
    query, key = (array[0].numbers().astype(np.float32) for array in (seen.interface.query, seen.interface.key))
    query = query[:, -_LAST:]
    group = query.shape[0] // key.shape[0]
    with np.errstate(over="ignore", invalid="ignore"):
        tops = [float(np.abs(query[head] @ key[head // group].T).max(initial=0.0)) for head in range(query.shape[0])]
    largest = max(tops) * facts.head_dim**-0.5
    return float(2.0 ** np.floor(np.log2(_LOUD / largest))) if 0 < largest < np.inf else None


def _grouped(seen: AttentionSeen) -> bool:
    """Return whether each key head belongs to as many query heads: without that there are no plain products."""
    return seen.interface is not None and seen.interface.query.shape[1] % seen.interface.key.shape[1] == 0


def _eager(seen: AttentionSeen, step: Step, facts: ModelFacts, plan: Plan) -> tuple[Array, ...]:
    interface = seen.interface
    if interface is None or not _grouped(seen):
        return ()
    query, key, value = interface.query, interface.key, interface.value
    return tuple(_plain(query[n], key[n], value[n], n, step, facts, plan) for n in range(len(step.ids)))


def loud_part(length: int, plan: Plan) -> tuple[slice, tuple[int, ...]]:
    """Return the queries and heads that are looked at with large scores: the last queries, which see most keys, of some
    heads; all of them where it is to be thorough."""
    if plan.thorough:
        return slice(0, length), plan.heads
    return slice(max(0, length - _LAST), length), plan.heads[:: max(1, len(plan.heads) // _LOUD_HEADS)]


def _loud_eager(seen: AttentionSeen, factor: float, step: Step, facts: ModelFacts, plan: Plan) -> Array | None:
    if seen.interface is None:
        return None
    rows, heads = loud_part(step.ids.shape[1], plan)
    visible = step.visibility(0, seen.interface.key.shape[2], facts.window).rows(rows.start, rows.stop)
    query, key, value = seen.interface.query[0][:, rows], seen.interface.key[0], seen.interface.value[0]
    return probes.eager(query, key, value, facts.head_dim**-0.5, visible, heads, factor)


def _plain(query: Array, key: Array, value: Array, row: int, step: Step, facts: ModelFacts, plan: Plan) -> Array:
    visible = step.visibility(row, key.shape[1], facts.window).rows(0, step.ids.shape[1])
    return probes.eager(query, key, value, facts.head_dim**-0.5, visible, plan.heads)
