"""Is it a softmax over keys: rows that sum to one, right row maximum and logsumexp, precise enough, safe for large
scores, and zero where nothing may be seen?

Must not know: torch.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from tracer.arrays import SPACING, Floats
from tracer.checks import softmax as trace_softmax
from tracer.checks.outcome import say as trace_say
from tracer.maths.attention import Head
from tracer.maths.attention import head as attention
from tracer.maths.criterion import difference, lse_tolerance, numerics
from tracer.names import spans
from tracer.records import Site, Status
from tracer.verification.case import Case
from tracer.verification.probing import Plan, loud_part
from tracer.verification.records import Finding
from tracer.verification.subjects import kernel_site, subject
from tracer.verification.verdict import finding, passed, say, untested
from tracer.verification.views import view

_BEYOND = 300.0  # a hidden score this far above the visible ones exceeds any constant that is still finite on purpose
_OVERFLOWS = 89.0  # the exponential of this is no float32 any more
_UNLIKE = 0.02  # a relative error beyond this is no rounding: exp, sum and quotient in bfloat16 make less
_MANY = 1024  # as many numbers tell how large the error of plain products is
_SPACINGS = 8  # rows are summed here; what is left is the rounding of each weight, and of the softmax that made them


def rows(case: Case) -> list[Finding]:
    """Return kernel.output, kernel.lse, softmax.rows, softmax.row_max, softmax.precision, and softmax.empty where rows
    without an allowed key exist: one finding for all heads, or one for each that fails."""
    if case.interface is None or not case.probed.eager:
        wanted, hidden = trace_say("kernel_output_expected"), say("interface_hidden")
        found = [untested(case, "kernel.output", expected=wanted, reason=hidden)]
        return found if case.probed.weights is None else [*found, *_over_heads(case, _sums)]
    judges = (_output, _lse, _sums, _row_max, _precision, _empty)
    return [one for judge in judges for one in _over_heads(case, judge)]


Judge = Callable[[Case, int, int], Finding | None]


def _over_heads(case: Case, judge: Judge) -> list[Finding]:
    """Return what fails, head by head; else the first pass as one for all heads, and one for those that could not be
    tested, by the first reason."""
    found = [
        one
        for row in range(case.step.ids.shape[0])
        for index in case.heads
        if (one := judge(case, row, index)) is not None
    ]
    failed = [one for one in found if one.check.status is Status.FAIL]
    passed_ones = [one for one in found if one.check.status is Status.PASS]
    blind = [one for one in found if one.check.status is Status.NOT_TESTABLE]
    if passed_ones and blind:
        blind = [_of_some_heads(blind)]
    return [*failed, *(replace(one, head=None) for one in (*([] if failed else passed_ones[:1]), *blind[:1]))]


def _of_some_heads(blind: list[Finding]) -> Finding:
    """Return what could not be tested for some heads, with them."""
    heads = sorted({one.head for one in blind if one.head is not None})
    told = say("heads_one_of" if len(heads) == 1 else "heads_many", numbers=spans(heads))
    reason = say("of_heads", heads=told, reason=blind[0].check.reason)
    return replace(blind[0], check=replace(blind[0].check, reason=reason))


def _output(case: Case, row: int, index: int) -> Finding | None:
    """kernel.output: flash-attention's criterion, with its three numbers."""
    head, interface = case.reference(row, index), case.interface
    wanted = trace_say("kernel_output_expected")
    if head is None or interface is None:
        return None
    counts = case.rows[row] & np.isfinite(head.lse)
    if not counts.any():
        return None
    eager = case.probed.eager[row][:, case.heads.index(index)].float64()
    result = numerics(interface.output[row, :, index].float64()[counts], eager[counts], head.output[counts], case.dtype)
    kernel, allowed = result.kernel, max(result.tolerance, _allowance(case, row))
    if kernel.mismatched:
        query = int(np.flatnonzero(counts)[kernel.first_mismatch[0]]) if kernel.first_mismatch else 0
        measured = trace_say("mismatch", count=kernel.mismatched, query=query)
    else:
        measured = trace_say("kernel_output_measured", kernel=kernel.largest)
    if result.eager_error is None or allowed > result.tolerance:
        tolerance = trace_say("kernel_output_tolerance_spacing", value=allowed)
    else:
        tolerance = trace_say("kernel_output_tolerance", eager=result.eager_error, value=allowed)
    overflow = result.eager_overflow
    return finding(
        case,
        "kernel.output",
        passed(kernel.within(allowed)),
        measured=measured,
        expected=wanted,
        tolerance=tolerance,
        reason=trace_say("kernel_output_overflow", rows=overflow) if overflow else trace_say("kernel_output_why"),
        site=kernel_site(case),
        head=index,
        kernel_error=kernel.largest,
        eager_error=result.eager_error,
        allowed=allowed,
        mismatched=kernel.mismatched,
        eager_overflow_rows=overflow,
    )


def _allowance(case: Case, row: int) -> float:
    """Return what the criterion allows at least: the dtype's spacing at the largest output where only a few numbers are
    compared, among which plain products may come near by chance; else 0."""
    numbers = int(case.rows[row].sum()) * case.facts.head_dim
    if numbers >= _MANY:
        return 0.0
    heads = [head for index in case.heads if (head := case.reference(row, index)) is not None]
    return SPACING[case.dtype] * max((float(np.abs(head.output).max(initial=0.0)) for head in heads), default=0.0)


def _lse(case: Case, row: int, index: int) -> Finding | None:
    """kernel.lse: the kernel's logsumexp is the natural logarithm of Σ exp over scaled scores."""
    head, lse = case.reference(row, index), case.seen.kernel.lse if case.seen.kernel is not None else None
    wanted = trace_say("kernel_lse_expected")
    if head is None or lse is None:
        return untested(case, "kernel.lse", expected=wanted, reason=say("no_lse"))
    counts = case.rows[row] & np.isfinite(head.lse)
    if not counts.any():
        return None
    given, right = lse[row, index][counts], head.lse[counts]
    within = lse_tolerance(case.dtype, float(np.abs(head.row_max[counts]).max(initial=0.0)))
    off = difference(given, right)
    holds = off.within(within)
    base_two = not holds and difference(given * math.log(2), right).within(within)
    measured = trace_say("kernel_lse_measured", error=off.largest)
    if off.mismatched and off.first_mismatch:
        query = int(np.flatnonzero(counts)[off.first_mismatch[0]])
        measured = trace_say("mismatch", count=off.mismatched, query=query)
    return finding(
        case,
        "kernel.lse",
        passed(holds),
        measured=measured,
        expected=wanted,
        tolerance=say("absolute", value=within),
        reason=trace_say("kernel_lse_base_two") if base_two else say("lse_why"),
        site=kernel_site(case),
        head=index,
        error=off.largest,
        allowed=within,
        base_two=base_two,
    )


def _empty(case: Case, row: int, index: int) -> Finding | None:
    """softmax.empty: rows with no allowed key are zero; a plain softmax may spread them over what is hidden."""
    if case.rows[row, 0]:  # a row that begins with padding has queries without an allowed key, others have none
        return None
    head = subject(case, row, index)
    check = None if head is None else trace_softmax.empty(head)
    return None if check is None else Finding(case.scenario.id, case.layer, index, check)


def _sums(case: Case, row: int, index: int) -> Finding | None:
    """softmax.rows: the weights of every row, read through unit vectors as values, sum to one."""
    wanted, weights = say("sums_expected"), case.probed.weights
    if weights is None:
        return untested(case, "softmax.rows", expected=wanted, reason=say("weights_hidden"), head=index)
    counts = np.flatnonzero(case.rows[row])
    seen = view(case, row, index)
    with np.errstate(invalid="ignore"):
        totals = weights.values[row, index].sum(axis=1, dtype=np.float64) if seen is None else seen.totals
    totals = totals[counts]
    off = np.abs(np.nan_to_num(totals, nan=np.inf) - 1)
    worst = int(off.argmax())
    within = _SPACINGS * 2 * case.single_unit
    return finding(
        case,
        "softmax.rows",
        passed(float(off[worst]) <= within),
        measured=say("sums_measured", total=float(totals[worst]), query=int(counts[worst]), rows=len(counts)),
        expected=wanted,
        tolerance=say("absolute", value=within),
        reason=say("weights_read"),
        site=softmax_site(case),
        head=index,
        total=float(totals[worst]),
        query=int(counts[worst]),
    )


def _row_max(case: Case, row: int, index: int) -> Finding | None:
    """softmax.row_max: the largest score of each row, from the kernel's logsumexp and its largest weight."""
    wanted = say("row_max_expected")
    lse = case.seen.kernel.lse if case.seen.kernel is not None else None
    weights, seen = case.probed.weights, view(case, row, index)
    if lse is None or weights is None or seen is None:
        return untested(case, "softmax.row_max", expected=wanted, reason=say("no_lse"), head=index)
    head = _judged(case, row, index) or seen.reference
    counts = seen.right & np.isfinite(head.row_max) & (seen.largest > 0)
    if not counts.any():
        return untested(case, "softmax.row_max", expected=wanted, reason=say("no_rows"), head=index)
    off = difference(lse[row, index][counts] + np.log(seen.largest[counts]), head.row_max[counts])
    # a weight is read in the run's dtype: its logarithm is off by that dtype's roundoff
    within = lse_tolerance(case.dtype, float(np.abs(head.row_max[counts]).max(initial=0.0))) + 4 * case.unit
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
        allowed=within,
    )


def _precision(case: Case, row: int, index: int) -> Finding | None:
    """softmax.precision: the weights are as exact as a softmax computed in float32 makes them."""
    wanted, seen = say("precision_expected"), view(case, row, index)
    if seen is None:
        return untested(case, "softmax.precision", expected=wanted, reason=say("weights_hidden"), head=index)
    if case.dtype not in ("F32", "F64"):
        return untested(case, "softmax.precision", expected=wanted, reason=say("precision_16"), head=index)
    if seen.relative is None or not case.probed.repeats:
        return untested(case, "softmax.precision", expected=wanted, reason=say("no_rows"), head=index)
    scores = float(np.abs(seen.reference.row_max[np.isfinite(seen.reference.row_max)]).max(initial=0.0))
    # float32 rounds a score by its own size times the roundoff, and the exponential turns that into a relative error;
    # scores are sums of head_dim products
    within = 2.0**-24 * (64 + 16 * scores)
    if not seen.relative <= _UNLIKE:  # not a matter of rounding: other checks say what it is
        return untested(case, "softmax.precision", expected=wanted, reason=say("precision_unlike"), head=index)
    if seen.relative > within and not _scale_is_right(case):
        return untested(case, "softmax.precision", expected=wanted, reason=say("precision_unlike"), head=index)
    return finding(
        case,
        "softmax.precision",
        passed(seen.relative <= within),
        measured=say("precision_measured", error=seen.relative),
        expected=wanted,
        tolerance=say("relative", value=within),
        reason=say("precision_why"),
        site=softmax_site(case),
        head=index,
        error=seen.relative,
        allowed=within,
    )


def _scale_is_right(case: Case) -> bool:
    """Return whether every value of the scale that was seen is the right one."""
    kernel, interface = case.seen.kernel, case.interface
    seen = [kernel.scale if kernel is not None else None, interface.scaling if interface is not None else None]
    return all(value is None or value == case.scale for value in seen)


def _judged(case: Case, row: int, index: int) -> Head | None:
    """Return the reference at the scale that acts, so that a wrong one fails its own checks only."""
    if case.scenario.id != "plain":
        return case.reference(row, index)
    head = subject(case, row, index)
    return None if head is None else head.judged


def large(case: Case) -> list[Finding]:
    """Return softmax.large and causal.large: scores of some hundreds give finite, right rows, also where the largest
    score of all is a hidden one."""
    if case.probed.loud is None or case.interface is None:
        reason = say("interface_hidden" if case.interface is None else "large_zero")
        return [
            untested(case, id, expected=say("large_expected"), reason=reason)
            for id in ("softmax.large", "causal.large")
        ]
    return [*_over_heads(case, partial(_large, hidden=False)), *_over_heads(case, partial(_large, hidden=True))]


def _large(case: Case, row: int, index: int, hidden: bool) -> Finding | None:
    """Judge the rows whose largest score is hidden from them, or the others; an undefined row counts to the others."""
    loud, eager = case.probed.loud, case.probed.loud_eager
    id, wanted = "causal.large" if hidden else "softmax.large", say("large_expected")
    last, heads = loud_part(case.step.ids.shape[1], Plan(case.heads, case.thorough))
    if loud is None or row or index not in heads:
        return None
    seen = view(case, 0, index)
    if eager is None or (seen is not None and not seen.right[case.rows[0]].all()):
        return untested(case, id, expected=wanted, reason=say("large_sight"), head=index)
    reference, beyond = _loud_reference(case, index, last)
    output = loud[0, last, index].float64()
    broken = ~np.isfinite(output).all(axis=1)
    rows = (beyond > 0) & ~broken if hidden else (beyond <= 0) | broken
    furthest = float(beyond[rows].max(initial=0.0)) if rows.any() else 0.0
    if not rows.any() or (hidden and furthest < _BEYOND):
        reason = say("large_no_hidden", beyond=furthest) if hidden else say("no_rows")
        return untested(case, id, expected=wanted, reason=reason, head=index)
    top = float(np.abs(reference.row_max[np.isfinite(reference.row_max)]).max(initial=0.0))
    if not hidden and top < _OVERFLOWS:
        return untested(case, id, expected=wanted, reason=say("large_small", top=top), head=index)
    judged = numerics(output[rows], eager[:, heads.index(index)].float64()[rows], reference.output[rows], case.dtype)
    measured = say("large_measured", error=judged.kernel.largest, top=top)
    if judged.kernel.mismatched:
        measured = say("large_nan", count=judged.kernel.mismatched, top=top)
    elif hidden:
        measured = say("large_hidden_measured", error=judged.kernel.largest, beyond=furthest)
    return finding(
        case,
        id,
        passed(judged.ok),
        measured=measured,
        expected=wanted,
        tolerance=say("absolute", value=judged.tolerance),
        reason=say("large_why", factor=case.probed.loud_factor),
        site=_large_site(case) if hidden and case.bare else softmax_site(case),
        head=index,
        error=judged.kernel.largest,
        mismatched=judged.kernel.mismatched,
        top=top,
    )


def _loud_reference(case: Case, index: int, last: slice) -> tuple[Head, Floats]:
    """Return attention with large scores for the last queries, and by how much each row's largest hidden score exceeds
    its largest visible one (negative infinity where none is hidden)."""
    return case.once(f"loud.{index}", lambda: _make_loud(case, index, last))


def _make_loud(case: Case, index: int, last: slice) -> tuple[Head, Floats]:
    kv = case.facts.kv_head(index)
    acting = _judged(case, 0, index)
    scale = case.scale if acting is None else acting.scale
    visible = replace(case.visibility(0), tq=last.stop - last.start)  # bottom right: the last queries keep their places
    query, key = case.given["q"][0, index][last] * case.probed.loud_factor, case.given["k"][0, kv]
    reference = attention(query, key, case.given["v"][0, kv], scale, visible)
    hidden = np.where(visible.rows(0, visible.tq), -np.inf, query @ key.T * scale).max(axis=1, initial=-np.inf)
    return reference, hidden - reference.row_max


def _large_site(case: Case) -> Site | None:
    """Return where rows become wrong but not undefined for large scores: where the mask is added."""
    return case.places.site("causal.masked", "softmax.call") or kernel_site(case)


def softmax_site(case: Case) -> Site | None:
    """Return the softmax itself where it is an expression of its own, else the kernel's call."""
    if case.bare:
        return case.places.site("softmax.call") or kernel_site(case)
    return kernel_site(case)
