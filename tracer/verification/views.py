"""One head of one batch row, its effective weights set against the reference: what shows there, found in one go.

Must not know: claims, wording, torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tracer.arrays import Floats
from tracer.maths.attention import Head
from tracer.verification.case import Case
from tracer.verification.expected import Ints
from tracer.verification.scenarios import Bools

# A key counts as missing where the reference gives it more than this and the model nothing at all; a float16 holds
# nothing below 6e-8.
_SURE, _SURE_16 = 1e-3, 1e-2
_NOTHING = 1e-30
_SHARE = 1e-3  # weights below this are too small to tell a relative error by
_END = 32


@dataclass(frozen=True)
class Fault:
    """A weight where none should be, or none where one should be (then ``reference`` says how large)."""

    kind: str  # future | other | pad | old | missing | short
    row: int
    head: int
    query: int
    key: int
    weight: float
    reference: float


@dataclass(frozen=True, eq=False)
class View:
    """``right`` [Tq]: the queries that count and give weight to exactly the keys they may see. ``totals`` [Tq] is the
    sum of each row and ``largest`` its largest weight. ``relative`` is the largest relative error of a weight."""

    reference: Head
    right: Bools
    faults: tuple[Fault, ...]
    totals: Floats
    largest: Floats
    relative: float | None


def view(case: Case, row: int, index: int) -> View | None:
    """Return what one head shows, None where its weights or its arguments were not seen; kept with the case."""
    return case.once(f"view.{row}.{index}", lambda: _view(case, row, index))


def faults(case: Case) -> list[Fault]:
    """Return the worst fault of each kind for each batch row and head, also where arguments were not seen."""
    found: list[Fault] = []
    weights = case.probed.weights
    if weights is None:
        return found
    heads = [index for index in case.every_head if index < weights.values.shape[1]]
    for row in range(case.step.ids.shape[0]):
        leaks = ((weights.values[row] != 0) & kinds(case, row)["any"] & case.rows[row][:, None]).any()
        for index in heads:
            seen = view(case, row, index) if index in case.heads else None
            if seen is not None:
                found += seen.faults
            elif leaks:
                found += _leaks(case, row, index)
    return found


def kinds(case: Case, row: int) -> Mapping[str, Bools]:
    """Return which pairs [Tq, keys read] are hidden for what reason; a pair has one reason only. Kept with the case."""
    return case.once(f"kinds.{row}", lambda: _kinds(case, row))


def _view(case: Case, row: int, index: int) -> View | None:
    weights, head = case.probed.weights, case.reference(row, index)
    if weights is None or head is None or index >= weights.values.shape[1]:
        return None
    values, counts = weights.values[row, index], case.rows[row]
    rows = _rows(case, row)
    reference = np.concatenate([head.weights(part) for part in rows])
    hidden = kinds(case, row)["any"]
    leaks = _leaks(case, row, index)
    right = counts & ~((values != 0) & hidden).any(axis=1) if leaks else counts.copy()
    at = np.concatenate([np.arange(part.start, part.stop) for part in rows])
    some = values[at]
    gone = (reference > (_SURE_16 if case.dtype == "F16" else _SURE)) & (np.abs(some) < _NOTHING) & counts[at, None]
    missing: list[Fault] = []
    if gone.any() and np.isfinite(values).all() and case.probed.repeats:
        missing = _missing(case, row, index, at, some, reference, gone)
        right[at[gone.any(axis=1)]] = False
    usable = (reference > _SHARE) & right[at, None]
    relative = None
    if usable.any():
        with np.errstate(invalid="ignore", over="ignore"):
            relative = float(np.abs(some[usable] / reference[usable] - 1).max())
    return View(
        reference=head,
        right=right,
        faults=(*leaks, *missing),
        totals=values.sum(axis=1, dtype=np.float64),
        largest=values.max(axis=1).astype(np.float64),
        relative=relative,
    )


def _leaks(case: Case, row: int, index: int) -> list[Fault]:
    weights = case.probed.weights
    if weights is None:
        return []
    values, counts = weights.values[row, index], case.rows[row]
    sorts = kinds(case, row)
    if not ((values != 0) & sorts["any"] & counts[:, None]).any():
        return []
    found = []
    size = np.abs(np.nan_to_num(values.astype(np.float64), nan=np.inf))
    for kind, mask in sorts.items():
        score = np.where(mask & counts[:, None], size, 0.0)
        if kind != "any" and score.max(initial=0.0) > 0:
            found.append(_at(kind, row, index, score, weights.columns, 0.0))
    return found


def _rows(case: Case, row: int) -> tuple[slice, ...]:
    """Return the queries whose weights are compared with the reference one by one: all, or the first and last of many.

    Leaks are looked for in every row; what a fault takes away, it takes from these too.
    """
    length = case.rows.shape[1]
    if case.thorough or length <= 2 * _END:
        return (slice(0, length),)
    return slice(0, _END), slice(length - _END, length)


def _missing(case: Case, row: int, index: int, at: Ints, values: Floats, reference: Floats, gone: Bools) -> list[Fault]:
    weights = case.probed.weights
    if weights is None:
        return []
    distance = at[:, None] + case.keys - case.rows.shape[1] - weights.columns[None, :]
    # A key hidden beyond the farthest one seen is a window's doing; any other one is not.
    farthest = np.where(values > 0, distance, -1).max(axis=1, keepdims=True)
    beyond = (distance > farthest) & (farthest >= 0)
    found = []
    for kind, mask in (("missing", gone & ~beyond), ("short", gone & beyond)):
        if mask.any():
            score = np.where(mask, reference, 0.0)
            fault = _at(kind, row, index, score, weights.columns, float(score.max()))
            found.append(replace(fault, query=int(at[fault.query])))
    return found


def _at(kind: str, row: int, head: int, score: Floats, columns: Ints, reference: float) -> Fault:
    query, column = np.unravel_index(int(score.argmax()), score.shape)
    weight = 0.0 if reference else float(score.max())
    return Fault(kind, row, head, int(query), int(columns[column]), weight, reference)


def _kinds(case: Case, row: int) -> dict[str, Bools]:
    length, keys = case.step.ids.shape[1], case.keys
    columns = case.probed.weights.columns if case.probed.weights is not None else np.arange(keys)
    places = np.arange(length)[:, None] + keys - length
    at = columns[None, :]
    real = case.step.real[row, case.step.real.shape[1] - keys :][columns]
    sequence = np.searchsorted(np.array(case.step.starts or (0, keys)), np.arange(keys), side="right")
    other = sequence[columns][None, :] != sequence[keys - length :, None]
    pad = ~other & ~real[None, :]
    future = ~other & ~pad & (at > places)
    old = np.zeros_like(future)
    if case.facts.window is not None:
        old = ~other & ~pad & (at <= places - case.facts.window)
    return {"other": other, "pad": pad, "future": future, "old": old, "any": other | pad | future | old}
