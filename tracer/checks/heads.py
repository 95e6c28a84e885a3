"""Does a query head read the key/value head that it should? Must not know: how numbers are shown."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracer.arrays import Array
from tracer.checks.outcome import Figure, outcome, overflow, say
from tracer.checks.subject import Subject
from tracer.maths.threads import side_by_side
from tracer.maths.visibility import Bools, Ints
from tracer.records import Check, Status
from tracer.texts import Message

_FIRST_ROWS = 8  # early rows see few keys, so heads differ most there
_MOST_ROWS = 64
_MOST_NUMBERS = 1 << 22
_KEYS = 4096  # of which a core holds every head's values in float64 at one time


def kv(subject: Subject) -> Check:
    """Return ``heads.kv``: head h gives what key/value head h // group gives, and what no other one would give.

    Some rows of the output (the first ones and evenly spaced ones) are computed with keys and values of every head. Own
    keys with another head's values, and the other way round, count as others too.
    """
    model = subject.trace.model
    own, heads = model.kv_head(subject.index), model.kv_heads
    figures: dict[str, Figure] = {"head": subject.index, "expected": own, "kv_heads": heads}
    if heads == 1:
        return _result(subject, Status.NOT_TESTABLE, say("nothing"), say("none"), say("heads_kv_one"), figures)
    rows = _sample(subject)
    tolerance = subject.numerics.tolerance
    if not rows.size:
        lost = int(subject.overflowed.sum())
        reached = int(subject.reached.sum())
        why = subject.why_reached(reached) if reached else subject.undefined
        why = overflow(lost, subject.dtype) if lost else why
        return _result(subject, Status.NOT_TESTABLE, say("nothing"), say("none"), why, figures)
    apart = _distances(subject, rows)
    others = {pair: distance for pair, distance in apart.items() if pair != (own, own)}
    alike = [pair for pair, distance in sorted(others.items(), key=lambda item: item[1]) if distance <= tolerance]
    nearest = min(others.values())
    figures |= {"distance": apart[own, own], "nearest_other": nearest, "tolerance": tolerance, "rows": int(rows.size)}
    if apart[own, own] <= tolerance and alike:
        status, reason = Status.NOT_TESTABLE, say("heads_kv_alike", keys=alike[0][0], values=alike[0][1])
    elif apart[own, own] <= tolerance:
        status, reason = Status.PASS, say("heads_kv_why", nearest=nearest)
    elif alike:
        status, reason = Status.FAIL, say("heads_kv_other", keys=alike[0][0], values=alike[0][1])
        figures |= {"found_keys": alike[0][0], "found_values": alike[0][1]}
    else:
        status, reason = Status.NOT_TESTABLE, say("heads_kv_none")
    measured = say("heads_kv_measured", own=own, distance=apart[own, own], nearest=nearest)
    return _result(subject, status, measured, say("absolute", value=tolerance), reason, figures)


def _sample(subject: Subject) -> Ints:
    rows = subject.sound[np.isfinite(subject.head.output[subject.sound]).all(axis=1)]
    keys = subject.head.visibility.tk * subject.trace.model.kv_heads
    most = max(_FIRST_ROWS, min(_MOST_ROWS, _MOST_NUMBERS // max(1, keys)))
    if rows.size <= most:
        return rows
    spread = rows[np.linspace(0, rows.size - 1, most).astype(np.int64)]
    return np.union1d(rows[:_FIRST_ROWS], spread)


def _distances(subject: Subject, rows: Ints) -> dict[tuple[int, int], float]:
    """Return how far the kernel's rows lie from attention with keys of one head and values of another.

    Where the reference of a long prompt went through float32, so do these products: what is told apart here are heads.
    """
    k, v = (subject.trace.captures[name].array for name in ("k", "v"))
    number = np.float32 if subject.head.computed.number == "float32" else np.float64
    head = subject.judged
    visible, q = head.visibility.at(rows), (head.q[rows] * head.scale).astype(number)
    weights = np.stack([_weights(scores, visible) for scores in _scores(q, k, visible)])
    mixed = _mixed(weights, v, visible)
    with np.errstate(invalid="ignore"):
        distances = np.abs(mixed - subject.output[rows][None, :, None]).max(axis=(1, 3))
    return {
        (keys, values): float(distance) if np.isfinite(distance) else float("inf")
        for (keys, values), distance in np.ndenumerate(distances)
    }


def _scores(q: NDArray[Any], k: Array, visible: Bools) -> NDArray[Any]:
    """Return q [rows, D] times the keys of every head, [K, rows, Tk], 0 where a row sees nothing of a stretch."""
    scores = np.zeros((k.shape[1], *visible.shape), dtype=q.dtype)

    def fill(stretch: tuple[slice, Ints]) -> None:
        part, seen = stretch
        with np.errstate(invalid="ignore", over="ignore"):
            keys = k[part].numbers().astype(q.dtype, copy=False)
            for head in range(k.shape[1]):
                scores[head, seen, part] = q[seen] @ keys[:, head].T

    side_by_side(fill, _stretches(visible))
    return scores


def _mixed(weights: NDArray[Any], v: Array, visible: Bools) -> NDArray[Any]:
    """Return weights [K, rows, Tk] of every key head times the values of every head, [K, rows, K, D]."""
    heads, width = v.shape[1:]

    def product(stretch: tuple[slice, Ints]) -> NDArray[Any]:
        part, seen = stretch
        shares = weights[:, seen, part]
        with np.errstate(invalid="ignore", over="ignore"):
            values = v[part].numbers().astype(weights.dtype, copy=False).reshape(-1, heads * width)
            found: NDArray[Any] = shares.reshape(-1, shares.shape[-1]) @ values
        return found.reshape(heads, -1, heads * width)

    mixed, stretches = np.zeros((*weights.shape[:2], heads * width)), list(_stretches(visible))
    with np.errstate(invalid="ignore"):  # of two stretches one may hold ∞ and the other −∞
        for (_, seen), part in zip(stretches, side_by_side(product, stretches), strict=True):
            mixed[:, seen] += part
    return mixed.reshape(*weights.shape[:2], heads, width)


def _stretches(visible: Bools) -> Iterator[tuple[slice, Ints]]:
    """Yield some keys at a time, with the rows that see any of them."""
    for start in range(0, visible.shape[1], _KEYS):
        part = slice(start, start + _KEYS)
        seen = np.flatnonzero(visible[:, part].any(axis=1))
        if seen.size:
            yield part, seen


def _weights(scores: NDArray[Any], visible: Bools) -> NDArray[Any]:
    with np.errstate(invalid="ignore", over="ignore"):
        scores = np.where(visible, scores, -np.inf)
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights: NDArray[Any] = shares / shares.sum(axis=1, keepdims=True)
    return weights


def _result(
    subject: Subject,
    status: Status,
    measured: Message,
    tolerance: Message,
    reason: Message,
    figures: dict[str, Figure],
) -> Check:
    model = subject.trace.model
    return outcome(
        "heads.kv",
        status,
        claim=say("heads_kv_claim", head=subject.index, kv=model.kv_head(subject.index)),
        measured=measured,
        expected=say("heads_kv_expected", kv=model.kv_head(subject.index), head=subject.index, group=model.group),
        tolerance=tolerance,
        reason=reason,
        site=subject.trace.kernel.site,
        figures=figures,
    )
