"""Where queries and keys cannot be seen, judge what came of them: the weights, against those that follow from the
projections by norm, rotary embedding, scale and mask.

Must not know: torch.
"""

import numpy as np

from tracer.maths.attention import head as attention
from tracer.verification.case import Case
from tracer.verification.records import Finding
from tracer.verification.verdict import finding, passed, say, untested

# A score is a sum of head_dim products, each rounded in the dtype; its error moves a weight by as much, relatively.
_ROUNDINGS = 8


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
        within = _ROUNDINGS * case.unit * (1 + top) + 1e-6
        if within > 0.25:
            reason = say("reference_blind", top=top)
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
