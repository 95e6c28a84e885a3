"""Where queries and keys cannot be seen, judge what came of them: the weights, against those that follow from the
projections by norm, rotary embedding, scale and mask.

Must not know: torch.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tracer.arrays import NARROW, Floats
from tracer.maths.attention import Head
from tracer.maths.attention import head as attention
from tracer.verification.case import Case
from tracer.verification.expected import Ints
from tracer.verification.records import Finding
from tracer.verification.verdict import finding, passed, say, untested

# A score is a sum of head_dim products of rounded numbers; its error moves a weight by half as much at most. In 16 bits
# the roundings are many, and independent of one another.
_ROUNDINGS, _ROUNDINGS_NARROW = 8, 3
_TOLD = 2.0  # a fault that moves the weights by less than this many tolerances might pass
_WRONG_SCALE = 2.0**0.5


def weights(case: Case) -> list[Finding]:
    """Return weights.reference for each head, but only where the attention function's arguments were not seen."""
    if case.interface is not None:
        return []
    wanted, found = say("reference_expected"), []
    read = case.probed.weights
    if case.step.past:
        return []
    vectors = _vectors(case)
    if read is None or vectors is None:
        reason = say("weights_hidden") if read is None else say("reference_hidden")
        return [untested(case, "weights.reference", expected=wanted, reason=reason)]
    for index in case.heads:
        reference = _attended(case, vectors.right, index, case.facts.kv_head(index))
        rows = case.rows[0]
        right = reference.weights(slice(None))[:, read.columns][rows]
        off = float(np.abs(np.nan_to_num(read.values[0, index][rows].astype(np.float64), nan=np.inf) - right).max())
        top = float(np.abs(reference.row_max[np.isfinite(reference.row_max)]).max(initial=0.0))
        within = (_ROUNDINGS_NARROW if case.dtype in NARROW else _ROUNDINGS) * case.unit * (1 + top) + 1e-6
        if off <= within and (shown := min(_moves(case, vectors, index, read.columns, right))) < _TOLD * within:
            reason = say("reference_blind", top=top, shown=shown)
            found.append(untested(case, "weights.reference", expected=wanted, reason=reason, head=index))
            continue
        found.append(
            finding(
                case,
                "weights.reference",
                passed(off <= within),
                measured=say("reference_measured", off=off),
                expected=wanted,
                tolerance=say("absolute", value=within),
                reason=say("reference_why"),
                site=case.places.function("attention_forward"),
                head=index,
                off=off,
                within=within,
            )
        )
    return found


_Pair = tuple[Floats, Floats]  # queries and keys of all tokens, [T, heads, D]


@dataclass(frozen=True, eq=False)
class _Vectors:
    """What the projections make, normed and turned, turned without a norm, and normed without a turn."""

    right: _Pair
    unnormed: _Pair
    unturned: _Pair


def _vectors(case: Case) -> _Vectors | None:
    """Return the vectors, made once for all heads; None where they cannot be had."""
    every = np.zeros(case.step.ids.shape[1], dtype=np.int64), np.arange(case.step.ids.shape[1])
    normed = _pair(lambda name: case.norm_reference(name, every))
    plain = _pair(lambda name: case.made(name, every))
    if normed is None or plain is None:
        return None
    right, unnormed = (
        _pair(lambda name, pair=pair: case.turned(pair["qk".index(name)], case.step.positions[0]))  # type: ignore[misc]
        for pair in (normed, plain)
    )
    return None if right is None or unnormed is None else _Vectors(right, unnormed, normed)


def _pair(make: Callable[[str], Floats | None]) -> _Pair | None:
    query, key = make("q"), make("k")
    return None if query is None or key is None else (query, key)


def _attended(case: Case, pair: _Pair, index: int, kv: int, scale: float = 1.0) -> Head:
    """Return attention of query head ``index`` over key head ``kv``, for its weights: there are no values."""
    query, key = pair
    nothing = np.zeros((len(key), 1))
    return attention(query[:, index], key[:, kv], nothing, case.scale * scale, case.visibility(0))


def _moves(case: Case, vectors: _Vectors, index: int, columns: Ints, right: Floats) -> Iterator[float]:
    """Yield how far each fault that this check is for would move a head's weights: a wrong scale, norms left out,
    positions left out, another key head."""
    kv, positions = case.facts.kv_head(index), case.step.positions[0]
    wrong = [_attended(case, vectors.right, index, kv, _WRONG_SCALE), _attended(case, vectors.unnormed, index, kv)]
    if positions.max(initial=0) > positions.min(initial=0):
        wrong.append(_attended(case, vectors.unturned, index, kv))
    if case.facts.kv_heads > 1:
        wrong.append(_attended(case, vectors.right, index, (kv + 1) % case.facts.kv_heads))
    for head in wrong:
        yield float(np.abs(head.weights(slice(None))[:, columns][case.rows[0]] - right).max())
