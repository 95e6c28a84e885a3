"""Does weight lie only on the keys that a query may see?

Read from the weights where the kernel makes any; else from its logsumexp, which grows with every key that counts; else
from its output, compared with one that sees a single key more. Must not know: how numbers are shown.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tracer.arrays import Array, Floats, taken
from tracer.checks.outcome import Figure, judged, outcome, overflow, say, untested
from tracer.checks.subject import Subject
from tracer.maths.attention import Head, seen_by
from tracer.maths.criterion import difference
from tracer.maths.visibility import Ints, Visibility
from tracer.records import Check, Status
from tracer.texts import Message

# Up to this many keys a failed check compares with other masks, to say what the fault looks like.
_MOST_FOR_DIAGNOSIS = 4096
_ROWS = 256
_LARGEST_POWER = 700.0  # e to a higher one is no float64; a saved trace may hold any logsumexp


def weights(subject: Subject) -> Check:
    """Return ``causal.weights``: no weight lies on a hidden key, and none is missing from an allowed one."""
    if subject.weights is not None:
        return _from_weights(subject, subject.weights)
    if not _next_keys(subject.head.visibility)[0].size:
        return _untested(subject, _no_hidden(subject))
    share = next_share(subject.judged)
    if not np.isfinite(share).any():
        return _untested(subject, subject.undefined)
    if subject.natural_lse is not None:
        return _from_lse(subject, subject.natural_lse, share)
    return _from_output(subject, share)


def next_share(head: Head) -> Floats:
    """Return for each query the weight that the first key after its own would take if it were seen, [Tq]; else NaN."""
    rows, keys = _next_keys(head.visibility)
    share = np.full(head.visibility.tq, np.nan)
    with np.errstate(invalid="ignore", over="ignore"):
        score = head.scale * np.vecdot(taken(head.q, rows), taken(head.k, keys))
        share[rows] = np.exp(score - np.logaddexp(head.lse[rows], score))
    return share


def _from_weights(subject: Subject, weights: Array) -> Check:
    visible, lost = subject.head.visibility, int(subject.overflowed.sum())
    # A row that overflowed, or that NaN in q or k reached, is NaN at every key: that is no weight on a hidden one.
    reached = subject.weights_reached
    aside = subject.overflowed | reached | np.isnan(subject.head.lse)
    aside[list(subject.head.empty_rows)] = True
    largest, query, key, hidden = 0.0, 0, 0, False
    for start in range(0, visible.tq, _ROWS):
        stop = min(start + _ROWS, visible.tq)
        block, seen = np.nan_to_num(weights[start:stop].float64(), nan=np.inf), visible.rows(start, stop)
        hidden |= not bool(seen.all())
        block[seen] = 0.0
        block[aside[start:stop]] = 0.0
        if block.max(initial=0.0) > largest:
            row, col = np.unravel_index(int(block.argmax()), block.shape)
            largest, query, key = float(block.max()), start + int(row), int(col)
    if not hidden:
        return _untested(subject, _no_hidden(subject))
    if not largest and lost:
        return _untested(subject, overflow(lost, subject.dtype))
    if not largest and reached.any():
        return _untested(subject, subject.why_reached(int(reached.sum())))
    if aside.all():
        return _untested(subject, subject.undefined)
    figures: dict[str, Figure] = {"largest": largest, "by": "weights"}
    if largest:
        query = subject.position(query)
        figures |= {"query": query, "key": key}
    return _result(
        subject,
        judged(largest == 0.0),
        measured=say("causal_weights_largest", value=largest),
        tolerance=say("exact"),
        reason=say("causal_weights_read") if not largest else _at(subject, query, key),
        figures=figures,
    )


def _no_hidden(subject: Subject) -> Message:
    """Return why no token is hidden: the prompt is too short, or all of it but the last token was in a cache."""
    return say("causal_weights_cached" if subject.trace.cached else "causal_weights_no_hidden")


def _at(subject: Subject, query: int, key: int) -> Message:
    layer = subject.trace.request.layer
    return say("causal_weights_at", layer=layer, head=subject.index, query=query, key=key)


def _from_lse(subject: Subject, lse: Floats, next_shares: Floats) -> Check:
    next_key = float(np.nanmax(next_shares))
    rows = subject.rows[np.isfinite(lse[subject.rows]) & np.isfinite(subject.judged.lse[subject.rows])]
    tolerance = subject.lse_tolerance
    if not rows.size:
        reached = int(subject.lse_reached.sum())
        return _untested(subject, subject.why_reached(reached) if reached else say("causal_weights_undefined"))
    if next_key <= 2 * tolerance:
        return _untested(subject, say("causal_weights_blind", share=next_key, tolerance=tolerance))
    extra = -np.expm1(np.minimum(subject.judged.lse[rows] - lse[rows], _LARGEST_POWER))
    worst = int(np.abs(extra).argmax())
    share, query = float(extra[worst]), subject.position(int(rows[worst]))
    holds = abs(share) <= tolerance
    telling, hidden = _telling(next_shares[rows], tolerance)
    reason = say("causal_weights_by_lse", share=next_key, telling=telling, hidden=hidden)
    if not holds:
        looks = _resembles(subject, lambda head: difference(head.lse[rows], lse[rows]).largest, tolerance)
        # Another mask only adds keys or only leaves some out; where rows move both ways, something else is wrong.
        if looks == say("looks_like_nothing") and min(extra.max(), -extra.min()) > tolerance:
            return _untested(subject, say("causal_weights_both_ways"))
        reason = say("causal_weights_query", query=query, looks=looks)
    return _result(
        subject,
        judged(holds),
        measured=say("causal_weights_share", share=share),
        tolerance=say("absolute", value=tolerance),
        reason=reason,
        figures={
            "share": share,
            "query": query,
            "next_key": next_key,
            "tolerance": tolerance,
            "telling_rows": telling,
            "hidden_rows": hidden,
            "by": "lse",
        },
    )


def _telling(moved: Floats, tolerance: float) -> tuple[int, int]:
    """Return in how many rows one later key more would show, and how many rows have a later key at all.

    ``moved`` is how far that key would move each row's number, NaN where there is none.
    """
    return int((moved > 2 * tolerance).sum()), int(np.isfinite(moved).sum())


def _from_output(subject: Subject, share: Floats) -> Check:
    rows, keys = _next_keys(subject.head.visibility)
    reference, tolerance = subject.judged, subject.numerics.tolerance
    with np.errstate(invalid="ignore"):
        moved = np.abs(share[rows, None] * (reference.v[keys] - reference.output[rows]))
    moved[~np.isfinite(moved)] = np.nan  # what a number that is none would move shows nothing
    shift = float(np.nanmax(moved, initial=0.0))
    lost = int(subject.overflowed.sum())
    if lost and not subject.sound.size:
        return _untested(subject, overflow(lost, subject.dtype))
    reached = int(subject.reached.sum())
    if reached and not np.isfinite(reference.output[subject.sound]).all(axis=1).any():
        return _untested(subject, subject.why_reached(reached))
    if shift <= 2 * tolerance:
        return _untested(subject, say("causal_weights_blind_output", shift=shift, tolerance=tolerance))

    def apart(head: Head) -> float:
        found = difference(head.output[subject.sound], subject.output[subject.sound])
        return found.largest if found.compared and not found.mismatched else float("inf")

    distance = apart(reference)
    holds = distance <= tolerance
    looks = None if holds else _resembles(subject, apart, tolerance)
    if not holds and looks == say("looks_like_nothing"):
        return _untested(subject, say("causal_weights_other", distance=distance))
    if holds and lost:
        return _untested(subject, overflow(lost, subject.dtype))
    if holds and reached:
        return _untested(subject, subject.why_reached(reached))
    telling, hidden = _telling(np.where(np.isin(rows, subject.sound), moved.max(axis=1), np.nan), tolerance)
    by_output = say("causal_weights_by_output", shift=shift, telling=telling, hidden=hidden)
    return _result(
        subject,
        judged(holds),
        measured=say("causal_weights_distance", distance=distance),
        tolerance=say("absolute", value=tolerance),
        reason=by_output if looks is None else looks,
        figures={
            "distance": distance,
            "shift": shift,
            "tolerance": tolerance,
            "telling_rows": telling,
            "hidden_rows": hidden,
            "by": "output",
        },
    )


def _resembles(subject: Subject, apart: Callable[[Head], float], tolerance: float) -> Message:
    """Return which other mask gives what the kernel gave, if one of the usual faults does."""
    right = subject.head.visibility
    if max(right.tq, right.tk) > _MOST_FOR_DIAGNOSIS:
        return say("looks_like_unknown")
    faults: dict[str, Visibility] = {
        "looks_like_no_mask": replace(right, causal=False, left=None),
        "looks_like_one_more": replace(right, causal=False, right=1),
        "looks_like_one_less": replace(right, causal=False, right=-1),
    }
    if right.left is not None:
        faults["looks_like_no_window"] = replace(right, left=None)
        faults["looks_like_wider_window"] = replace(right, left=right.left + 1)
        faults["looks_like_narrower_window"] = replace(right, left=right.left - 1)
    if right.tq != right.tk:
        faults["looks_like_top_left"] = replace(right, causal=False, right=right.tq - right.tk)
    if right.starts_q:
        faults["looks_like_one_sequence"] = replace(right, starts_q=(), starts_k=())
    for name, fault in faults.items():
        if apart(seen_by(subject.judged, fault)) <= tolerance:
            return say(name)
    return say("looks_like_nothing")


def _next_keys(visibility: Visibility) -> tuple[Ints, Ints]:
    """Return the queries that have a later key hidden from them, and the first such key of each."""
    rows = np.arange(visibility.tq)
    _, end = visibility.interval(rows)
    rows = rows[end < visibility.tk]
    return rows, end[rows]


def _untested(subject: Subject, reason: Message) -> Check:
    expected, site = say("causal_weights_expected"), subject.trace.kernel.site
    return untested("causal.weights", expected=expected, reason=reason, site=site)


def _result(
    subject: Subject,
    status: Status,
    measured: Message,
    tolerance: Message,
    reason: Message,
    figures: dict[str, Figure],
) -> Check:
    return outcome(
        "causal.weights",
        status,
        measured=measured,
        expected=say("causal_weights_expected"),
        tolerance=tolerance,
        reason=reason,
        site=subject.trace.kernel.site,
        figures=figures,
    )
