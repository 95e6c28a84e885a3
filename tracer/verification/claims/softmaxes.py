"""Is it a softmax over keys: rows that sum to one, right row maximum and logsumexp, precise enough, safe for large
scores, and zero where nothing may be seen?

Must not know: torch.
"""

import numpy as np

from tracer.checks import kernel as trace_kernel
from tracer.checks import softmax as trace_softmax
from tracer.checks.subject import Subject
from tracer.maths.attention import head as attention
from tracer.maths.criterion import difference, lse_tolerance, numerics
from tracer.records import Site
from tracer.verification.case import Case
from tracer.verification.claims.sight import right_rows
from tracer.verification.records import Finding
from tracer.verification.subjects import kernel_site, subject
from tracer.verification.verdict import finding, passed, say, untested

_SHARE = 1e-3  # weights below this are too small to tell a relative error by
_UNLIKE = 0.05  # a relative error beyond this is no rounding, not even to bfloat16
_SPACINGS = 8  # rows are summed here; what is left is the rounding of each weight, and of the softmax that made them


def per_head(case: Case) -> list[Finding]:
    """Return softmax.rows, softmax.row_max, softmax.precision, kernel.output and kernel.lse for each head, and
    softmax.empty where rows without an allowed key exist."""
    found: list[Finding] = []
    for row in range(case.step.ids.shape[0]):
        for index in case.heads:
            head = subject(case, row, index)
            if head is None:
                continue
            checks = [trace_kernel.output(head), trace_kernel.lse(head)]
            empty = trace_softmax.empty(head) if case.scenario.id != "right_pad" else None
            if empty is not None:
                checks.append(empty)
            found += [Finding(case.scenario.id, case.layer, index, check) for check in checks]
            found += [sums(case, row, index), row_max(case, row, head), precision(case, row, head)]
    if found:
        return found
    hidden = say("interface_hidden")
    return [untested(case, "kernel.output", expected=say("output_expected"), reason=hidden)]


def sums(case: Case, row: int, index: int) -> Finding:
    """Return softmax.rows: the weights of every row, read through unit vectors as values, sum to one."""
    wanted, weights = say("sums_expected"), case.probed.weights
    if weights is None or len(weights.columns) < case.keys:
        reason = say("weights_hidden" if weights is None else "weights_some")
        return untested(case, "softmax.rows", expected=wanted, reason=reason, head=index)
    rows = np.flatnonzero(case.rows[row])
    with np.errstate(invalid="ignore"):
        totals = weights.values[row, index].astype(np.float64).sum(axis=1)[rows]
    off = np.abs(np.nan_to_num(totals, nan=np.inf) - 1)
    worst = int(off.argmax())
    within = _SPACINGS * 2 * case.unit
    return finding(
        case,
        "softmax.rows",
        passed(float(off[worst]) <= within),
        measured=say("sums_measured", total=float(totals[worst]), query=int(rows[worst]), rows=len(rows)),
        expected=wanted,
        tolerance=say("absolute", value=within),
        reason=say("weights_read"),
        site=softmax_site(case),
        head=index,
        total=float(totals[worst]),
        query=int(rows[worst]),
    )


def row_max(case: Case, row: int, subject: Subject) -> Finding:
    """Return softmax.row_max: the largest score of each row, from the kernel's logsumexp and its largest weight."""
    wanted, index = say("row_max_expected"), subject.index
    lse = case.seen.kernel.lse if case.seen.kernel is not None else None
    weights, head = case.probed.weights, subject.judged
    if lse is None or weights is None or len(weights.columns) < case.keys:
        return untested(case, "softmax.row_max", expected=wanted, reason=say("no_lse"), head=index)
    largest = weights.values[row, index].astype(np.float64).max(axis=1)
    rows = right_rows(case, row, index) & np.isfinite(head.row_max) & (largest > 0)
    if not rows.any():
        return untested(case, "softmax.row_max", expected=wanted, reason=say("no_rows"), head=index)
    off = difference(lse[row, index][rows] + np.log(largest[rows]), head.row_max[rows])
    size = float(np.abs(head.row_max[rows]).max(initial=0.0))
    # a weight is read in the run's dtype: its logarithm is off by that dtype's roundoff
    within = lse_tolerance(case.dtype, size) + 4 * case.unit
    return finding(
        case,
        "softmax.row_max",
        passed(off.within(within)),
        measured=say("row_max_measured", off=off.largest),
        expected=wanted,
        tolerance=say("absolute", value=within),
        reason=say("row_max_why"),
        site=kernel_site(case),
        head=index,
        off=off.largest,
        within=within,
    )


def precision(case: Case, row: int, subject: Subject) -> Finding:
    """Return softmax.precision: the weights are as exact as a softmax computed in float32 makes them."""
    wanted, index = say("precision_expected"), subject.index
    weights, head = case.probed.weights, subject.judged
    if weights is None:
        return untested(case, "softmax.precision", expected=wanted, reason=say("weights_hidden"), head=index)
    if case.dtype not in ("F32", "F64"):
        return untested(case, "softmax.precision", expected=wanted, reason=say("precision_16"), head=index)
    reference = head.weights(slice(None))[:, weights.columns]
    values = weights.values[row, index].astype(np.float64)
    usable = (reference > _SHARE) & right_rows(case, row, index)[:, None] & np.isfinite(values)
    if not usable.any() or not case.probed.repeats:
        return untested(case, "softmax.precision", expected=wanted, reason=say("no_rows"), head=index)
    error = float(np.abs(values[usable] / reference[usable] - 1).max())
    scores = float(np.abs(head.row_max[np.isfinite(head.row_max)]).max(initial=0.0))
    # float32 rounds a score by its own size times the roundoff, and the exponential turns that into a relative error;
    # scores are sums of head_dim products
    within = 2.0**-24 * (64 + 16 * scores)
    if error > _UNLIKE:  # not a matter of rounding: other checks say what it is
        return untested(case, "softmax.precision", expected=wanted, reason=say("precision_unlike"), head=index)
    return finding(
        case,
        "softmax.precision",
        passed(error <= within),
        measured=say("precision_measured", error=error),
        expected=wanted,
        tolerance=say("relative", value=within),
        reason=say("precision_why"),
        site=softmax_site(case),
        head=index,
        error=error,
        within=within,
    )


def large(case: Case) -> list[Finding]:
    """Return softmax.large for each head: scores of some hundreds give finite, right rows and hide what they should."""
    loud, wanted = case.probed.loud, say("large_expected")
    if loud is None or loud.query is None or loud.key is None or loud.value is None or loud.output is None:
        return [untested(case, "softmax.large", expected=wanted, reason=say("large_hidden"))]
    found = []
    for place, index in enumerate(case.heads):
        if not right_rows(case, 0, index)[case.rows[0]].all():
            reason = say("large_sight")
            found.append(untested(case, "softmax.large", expected=wanted, reason=reason, head=index))
            continue
        kv = case.facts.kv_head(index)
        arrays = loud.query[0, index], loud.key[0, kv], loud.value[0, kv]
        reference = attention(*(array.float64() for array in arrays), _acting_scale(case, index), case.visibility(0))
        if case.probed.loud_eager is None:
            continue
        eager = case.probed.loud_eager[0][:, place].float64()
        judged = numerics(loud.output[0, :, index].float64(), eager, reference.output, case.dtype)
        leak = _leak(case, index)
        top = float(np.abs(reference.row_max[np.isfinite(reference.row_max)]).max(initial=0.0))
        measured = say("large_measured", error=judged.kernel.largest, top=top)
        if judged.kernel.mismatched:
            measured = say("large_nan", count=judged.kernel.mismatched, top=top)
        elif leak is not None:
            measured = say("large_leak", query=leak[0], key=leak[1], weight=leak[2], top=top)
        found.append(
            finding(
                case,
                "softmax.large",
                passed(judged.ok and leak is None),
                measured=measured,
                expected=wanted,
                tolerance=say("absolute", value=judged.tolerance),
                reason=say("large_why", factor=case.probed.loud_factor),
                site=case.places.site("causal.masked") if leak and case.bare else softmax_site(case),
                head=index,
                error=judged.kernel.largest,
                mismatched=judged.kernel.mismatched,
                top=top,
            )
        )
    return found


def _acting_scale(case: Case, index: int) -> float:
    """Return the scale that acts, so that a wrong one fails its own checks only."""
    head = subject(case, 0, index)
    return case.scale if head is None else head.judged.scale


def softmax_site(case: Case) -> Site | None:
    """Return the softmax itself where it is an expression of its own, else the kernel's call."""
    if case.bare:
        return case.places.site("softmax.call", "scale.scores")
    return kernel_site(case)


def _leak(case: Case, index: int) -> tuple[int, int, float] | None:
    """Return the largest weight on a hidden key when scores are large: query, key, weight."""
    loud = case.probed.loud
    if loud is None or loud.weights is None:
        return None
    visible = case.visibility(0).rows(0, case.step.ids.shape[1])[:, loud.weights.columns]
    values = np.where(visible, 0.0, np.nan_to_num(np.abs(loud.weights.values[0, index].astype(np.float64)), nan=0.0))
    if not values.any():
        return None
    query, column = np.unravel_index(int(values.argmax()), values.shape)
    return int(query), int(loud.weights.columns[column]), float(values.max())
