"""Every counterexample of one head, each put before the very checks that end a trace.

Must not know: wording, how anything is shown.
"""

from dataclasses import dataclass, replace

import numpy as np

from tracer.arrays import Floats
from tracer.checks.reference import reference
from tracer.checks.suite import run_checks
from tracer.counterexamples import faults
from tracer.counterexamples.faults import FAULTS, Attention, Inputs, Outcome
from tracer.counterexamples.planted import planted, rounded, with_eager
from tracer.counterexamples.shorter import beginning
from tracer.maths.attention import Head, seen_by
from tracer.records import Check, LayerTrace, Status

MOST_TOKENS = 64
# exp overflows float32 above ln(3.4e38) = 88.7; this is what the head's largest score is brought to.
LARGE_SCORE = 100.0
TILED, EMPTY, NO_MAX = "tiled_heads", "empty_row", "no_max"


@dataclass(frozen=True, eq=False)
class Counterexample:
    """One fault: the right outcome, the wrong one, and how every check ended on the wrong one.

    ``row`` is the query whose output moved most. ``figures`` are what the fault itself tells (see the functions).
    """

    id: str
    right: Outcome
    wrong: Outcome
    row: int
    checks: tuple[Check, ...]
    figures: dict[str, float | int]

    @property
    def caught_by(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if check.status is Status.FAIL)

    @property
    def changes(self) -> bool:
        """Whether the fault changes anything in this head."""
        return not np.array_equal(self.right.output, self.wrong.output, equal_nan=True)


def counterexamples(whole: LayerTrace, head: int) -> tuple[Counterexample, ...]:
    """Return all counterexamples of query head ``head``, from at most MOST_TOKENS tokens of the prompt."""
    layer = beginning(whole, MOST_TOKENS)
    found = [_large(layer, head) if id == NO_MAX else _fault(layer, head, id, fault) for id, fault in FAULTS.items()]
    if layer.model.kv_heads > 1:
        found.append(_tiled(layer, head))
    found.append(_empty(layer, head))
    return tuple(found)


def inputs(head: Head) -> Inputs:
    """Return what a head's attention is computed from."""
    return Inputs(head.q, head.k, head.v, head.scale, head.visibility)


def _fault(
    layer: LayerTrace, head: int, id: str, fault: Attention, figures: dict[str, float | int] | None = None
) -> Counterexample:
    """Return the counterexample of a fault in the arithmetic alone."""
    expected = reference(layer, head)
    given = inputs(expected)
    faulty = planted(layer, head, fault, given)
    good, bad = faults.right(given), fault(given)
    return Counterexample(
        id, good, bad, _most_moved(good.output, bad.output), run_checks(faulty, head, expected), figures or {}
    )


def _large(layer: LayerTrace, head: int) -> Counterexample:
    """Return ``no_max``: the queries are made larger by ``factor``, so that the largest score is ``largest``."""
    before = reference(layer, head)
    top = float(before.row_max[np.isfinite(before.row_max)].max(initial=0.0))
    factor = LARGE_SCORE / top if top > 0 else 1.0
    q = layer.captures["q"]
    bits = q.array.bits.copy()
    bits[:, head] = rounded(before.q * factor, q.array.dtype).bits
    larger = replace(layer, captures={**layer.captures, "q": replace(q, array=type(q.array)(q.array.dtype, bits))})
    after = reference(larger, head)
    figures: dict[str, float | int] = {"factor": factor, "largest": float(after.row_max.max(initial=0.0))}
    return _fault(with_eager(larger, head, inputs(after)), head, NO_MAX, faults.no_max, figures)


def _tiled(layer: LayerTrace, head: int) -> Counterexample:
    """Return ``tiled_heads``: query head h reads KV head h mod K in place of h // group (``read`` and ``own``)."""
    own, read = layer.model.kv_head(head), head % layer.model.kv_heads
    k, v = (layer.captures[name].array[:, read].float64() for name in ("k", "v"))

    def tiled(given: Inputs) -> Outcome:
        return faults.right(replace(given, k=k, v=v))

    return _fault(layer, head, TILED, tiled, {"own": own, "read": read})


def _empty(layer: LayerTrace, head: int) -> Counterexample:
    """Return ``empty_row``: every key is hidden from the query ``row``, and softmax is done all the same."""
    before = reference(layer, head)
    row = before.visibility.tq // 2
    visible = before.visibility.rows(0, before.visibility.tq)
    visible[row] = False
    hidden = replace(before.visibility, mask=visible)
    expected = seen_by(before, hidden)
    given = replace(inputs(before), visibility=hidden)
    faulty = planted(with_eager(layer, head, given), head, faults.right, given)
    good = faults.right(inputs(before))
    return Counterexample(
        EMPTY, good, faults.right(given), row, run_checks(faulty, head, expected), {"row": row, "keys": row + 1}
    )


def _most_moved(before: Floats, after: Floats) -> int:
    apart = np.nan_to_num(np.abs(after - before), nan=np.inf).max(axis=1)
    return int(apart.argmax())
