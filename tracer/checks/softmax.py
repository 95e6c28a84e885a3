"""Does each row of weights sum to 1, and is a row with no allowed key zero? Must not know: how numbers are shown."""

import numpy as np

from tracer.arrays import SPACING, Array, Floats
from tracer.checks.outcome import judged, outcome, overflow, say, untested
from tracer.checks.subject import Subject
from tracer.records import Check, Status
from tracer.texts import Message

_ROWS = 256
# Weights are summed in float64 here; what is left is the rounding of each weight, and of the softmax that made them.
# Beyond this the logsumexp is known too coarsely to say that weights sum to 1 and not to 2.
_BLIND = 0.5
_SPACINGS = 8


def sums(subject: Subject) -> Check:
    """Return ``softmax.rows``: the weights of every row sum to 1.

    From the kernel's own weights where it makes any; else Σ exp(score − logsumexp), the scores recomputed in float64
    and the logsumexp the kernel's, so that a wrong one shows.
    """
    reached = np.zeros(subject.head.visibility.tq, dtype=np.bool_)
    if subject.weights is not None:
        reached = subject.weights_reached
        kept = ~(subject.overflowed | reached | np.isnan(subject.head.lse))
        rows = subject.rows[kept[subject.rows]]  # NaN in q and k is in the weights too
        found = _sums(subject.weights)[rows]
        tolerance, reason = _SPACINGS * SPACING[subject.weights.dtype], say("softmax_rows_read")
    elif subject.lse is not None:
        head = subject.judged
        reached = subject.lse_reached
        rows = subject.rows[(np.isfinite(head.lse) & ~reached)[subject.rows]]  # the others are NaN in q and k already
        with np.errstate(invalid="ignore", over="ignore"):
            found = (head.total * np.exp(head.row_max - subject.lse))[rows]
        tolerance, reason = subject.lse_tolerance, say("softmax_rows_by_lse")
    else:
        return _untested(subject, say("no_lse_no_weights"))
    lost = int(subject.overflowed.sum())
    if not rows.size:
        why = subject.why_reached(int(reached.sum())) if reached.any() else subject.undefined
        return _untested(subject, overflow(lost, subject.dtype) if lost else why)
    off = np.abs(np.nan_to_num(found, nan=np.inf) - 1)
    worst = int(off.argmax())
    query, total = subject.position(int(rows[worst])), float(found[worst])
    status = judged(float(off[worst]) <= tolerance)
    if tolerance > _BLIND:
        status, reason = Status.NOT_TESTABLE, say("softmax_rows_blind", tolerance=tolerance)
    if lost and status is Status.PASS:
        status, reason = Status.NOT_TESTABLE, overflow(lost, subject.dtype)
    elif reached.any() and status is Status.PASS:
        status, reason = Status.NOT_TESTABLE, subject.why_reached(int(reached.sum()))
    return outcome(
        "softmax.rows",
        status,
        measured=say("softmax_rows_measured", total=total, query=query, rows=len(found)),
        expected=say("softmax_rows_expected"),
        tolerance=say("absolute", value=tolerance),
        reason=reason,
        site=subject.trace.kernel.site,
        figures={"total": total, "query": query, "rows": len(found), "tolerance": tolerance},
    )


def empty(subject: Subject) -> Check | None:
    """Return ``softmax.empty``: rows with no allowed key have output exactly zero; None where there are none.

    A flash kernel must give zero. Plain softmax spreads such a row evenly over hidden keys: nothing reads that row, so
    it is told and not judged. NaN is wrong everywhere.
    """
    found = subject.head.empty_rows
    if not found:
        return None
    rows = list(found)
    output = subject.output[rows]
    zero, defined = bool((output == 0).all()), bool(np.isfinite(output).all())
    if not defined and (subject.reached | np.isfinite(subject.output).all(axis=1))[rows].all():
        status, reason = Status.NOT_TESTABLE, subject.why_reached(int(subject.reached[rows].sum()))
    elif zero or subject.flash or not defined:
        status, reason = judged(zero), say("softmax_empty_why")
    else:
        status, reason = Status.NOT_TESTABLE, say("softmax_empty_plain")
    first = subject.position(found[0])
    largest = float(np.abs(output).max(initial=0.0))
    return outcome(
        "softmax.empty",
        status,
        measured=say("softmax_empty_measured", rows=len(found), first=first, largest=largest),
        expected=say("softmax_empty_expected"),
        tolerance=say("exact"),
        reason=reason,
        site=subject.trace.kernel.site,
        figures={"rows": len(found), "first": first, "largest": largest},
    )


def _sums(weights: Array) -> Floats:
    """Return the sum of each row of weights [Tq, Tk], in float64, a block of rows at a time."""
    parts = [weights[start : start + _ROWS].float64().sum(axis=1) for start in range(0, weights.shape[0], _ROWS)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _untested(subject: Subject, reason: Message) -> Check:
    return untested(
        "softmax.rows", expected=say("softmax_rows_expected"), reason=reason, site=subject.trace.kernel.site
    )
