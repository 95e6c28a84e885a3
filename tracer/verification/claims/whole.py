"""Where queries and keys cannot be seen, judge what came of them: the weights, against those that follow from the
projections by norm, rotary embedding, scale and mask.

Must not know: torch.
"""

from collections.abc import Iterator

import numpy as np

from tracer.arrays import NARROW, Floats
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
    every = np.zeros(case.step.ids.shape[1], dtype=np.int64), np.arange(case.step.ids.shape[1])
    queries, keys = (
        None if (x := case.norm_reference(name, every)) is None else case.turned(x, case.step.positions[0])
        for name in "qk"
    )
    if read is None or queries is None or keys is None:
        reason = say("weights_hidden") if read is None else say("reference_hidden")
        return [untested(case, "weights.reference", expected=wanted, reason=reason)]
    for index in case.heads:
        kv = case.facts.kv_head(index)
        reference = attention(queries[:, index], keys[:, kv], np.zeros((len(keys), 1)), case.scale, case.visibility(0))
        rows = case.rows[0]
        right = reference.weights(slice(None))[:, read.columns][rows]
        off = float(np.abs(np.nan_to_num(read.values[0, index][rows].astype(np.float64), nan=np.inf) - right).max())
        top = float(np.abs(reference.row_max[np.isfinite(reference.row_max)]).max(initial=0.0))
        within = (_ROUNDINGS_NARROW if case.dtype in NARROW else _ROUNDINGS) * case.unit * (1 + top) + 1e-6
        shown = min(_moves(case, index, read.columns, right), default=0.0)
        if off <= within and shown < _TOLD * within:
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


def _moves(case: Case, index: int, columns: Ints, right: Floats) -> Iterator[float]:
    """Yield how far each fault that this check is for would move a head's weights: a wrong scale, norms left out,
    positions left out, another key head."""
    every = np.zeros(case.step.ids.shape[1], dtype=np.int64), np.arange(case.step.ids.shape[1])
    normed = {name: case.norm_reference(name, every) for name in "qk"}
    plain = {name: case.made(name, every) for name in "qk"}
    kv, rows, positions = case.facts.kv_head(index), case.rows[0], case.step.positions[0]

    def moved(query: Floats | None, key: Floats | None, head: int = kv, scale: float = 1.0) -> Iterator[float]:
        if query is not None and key is not None:
            given = query[:, index], key[:, head], np.zeros((len(key), 1))
            weights = attention(*given, case.scale * scale, case.visibility(0)).weights(slice(None))
            yield float(np.abs(weights[:, columns][rows] - right).max())

    turned, unnormed = (
        {name: None if x is None else case.turned(x, positions) for name, x in vectors.items()}
        for vectors in (normed, plain)
    )
    yield from moved(turned["q"], turned["k"], scale=_WRONG_SCALE)
    yield from moved(unnormed["q"], unnormed["k"])
    if positions.max(initial=0) > positions.min(initial=0):
        yield from moved(normed["q"], normed["k"])
    if case.facts.kv_heads > 1:
        yield from moved(turned["q"], turned["k"], head=(kv + 1) % case.facts.kv_heads)
