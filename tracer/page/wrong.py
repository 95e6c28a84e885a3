"""The counterexamples as a reader sees them: what is done wrong, what becomes of the numbers, which checks notice.

Must not know: how faults are planted, HTML.
"""

from dataclasses import replace

import numpy as np

from tracer.arrays import Floats
from tracer.counterexamples.run import EMPTY, MOST_TOKENS, NO_MAX, TILED, Counterexample, counterexamples
from tracer.page.checks import checks
from tracer.page.grids import token_name
from tracer.page.numbers import WALK_DECIMALS, fixed, significant
from tracer.page.record import Block
from tracer.page.sheet import Bars, Both, Map, Wrong, alike, both
from tracer.page.tokens import Shown
from tracer.page.wording import Words
from tracer.records import Check, Status
from tracer.result import Trace
from tracer.texts import message

_KEYS, _DIMENSIONS, _PICTURE = 8, 6, 24
_LEAST = 1e-4  # a weight that would be written 0.0000 is no row of the comparison
# The checks that only read what the kernel was told.
_TOLD = ("scale.value", "causal.flag")
_INSTEAD = {
    "no_scale": "S = Q·Kᵀ + M",
    "scale_twice": "S = Q·Kᵀ / d + M",
    "no_mask": "S = Q·Kᵀ·scale",
    "mask_after_softmax": "A = softmax(Q·Kᵀ·scale) ⊙ visible",
    "wrong_axis": "Aᵢⱼ = exp(Sᵢⱼ) / Σₖ exp(Sₖⱼ)",
    "no_max": "A = exp(S) / Σ exp(S)",
    "tiled_heads": "kv = h mod K",
    "empty_row": "M = −∞, −∞, …, −∞",
}


def wrongs(trace: Trace, names: tuple[Shown, ...], where: str) -> tuple[Wrong, ...]:
    """Return every counterexample of a trace's head."""
    return tuple(_wrong(trace, each, names, where) for each in counterexamples(trace.layer, trace.head))


def most_tokens() -> int:
    """Return how many tokens of a long prompt the counterexamples use."""
    return MOST_TOKENS


def _wrong(trace: Trace, each: Counterexample, names: tuple[Shown, ...], where: str) -> Wrong:
    visible = np.isfinite(each.right.scores)
    titles = alike("A"), both("map_after")
    return Wrong(
        id=each.id,
        title=both(f"wrong_{each.id}"),
        change=both(f"wrong_{each.id}_change"),
        instead=_INSTEAD[each.id],
        found=_found(trace, each),
        maps=(
            Map(both("map_before"), _picture(np.where(visible, each.right.weights, np.nan), visible)),
            Map(titles[1], _picture(each.wrong.weights, visible | (each.wrong.weights > 0))),
        ),
        bars=_bars(each, names),
        bars_title=both("bars_title", query=each.row, token=names[each.row].text),
        outputs=(
            (both("output_before"), _outputs(each.right.output[each.row])),
            (both("output_after"), _outputs(each.wrong.output[each.row])),
        ),
        verdict=_verdict(each),
        caught=_count(each),
        checks=(_failed(each.caught_by, "en"), _failed(each.caught_by, "zh")),
        cite=f"{where} · counterexample {each.id}",
    )


def _found(trace: Trace, each: Counterexample) -> Both:
    """Return in a sentence what became of the numbers."""
    moved = np.abs(each.wrong.output - each.right.output)
    figures: dict[str, object] = {
        "query": each.row,
        "moved": significant(float(np.nan_to_num(moved[each.row]).max()), 3),
    }
    rows = each.wrong.weights.sum(axis=1)
    if not each.changes:
        same = "same_kv" if each.id == TILED else "same"
        return both(f"wrong_{same}", head=trace.head, **each.figures)
    if each.id == NO_MAX:
        broken = int((~np.isfinite(each.wrong.output).all(axis=1)).sum())
        name = "wrong_no_max_found" if broken else "wrong_no_max_fine"
        return both(
            name,
            factor=fixed(each.figures["factor"], 2),
            largest=fixed(each.figures["largest"], 1),
            broken=broken,
            rows=len(rows),
        )
    if each.id == EMPTY:
        return both("wrong_empty_row_found", **each.figures)
    if each.id in ("mask_after_softmax", "wrong_axis"):
        figures |= {"low": fixed(float(rows.min()), 4), "high": fixed(float(rows.max()), 4)}
    if each.id in ("no_scale", "scale_twice"):
        figures |= {
            "before": fixed(_entropy(each.right.weights), 4),
            "after": fixed(_entropy(each.wrong.weights), 4),
        }
    if each.id == "no_mask":
        hidden = np.where(np.isfinite(each.right.scores), 0.0, each.wrong.weights).sum(axis=1)
        figures |= {"leak": fixed(float(hidden.max()), 4), "leaky": int(hidden.argmax())}
    if each.id == TILED:
        figures |= dict(each.figures) | {"head": trace.head}
    return both(f"wrong_{each.id}_found", **figures)


def _entropy(weights: Floats) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(-np.where(weights > 0, weights * np.log(weights), 0.0).sum(axis=1).mean())


def _bars(each: Counterexample, names: tuple[Shown, ...]) -> Bars:
    before, after = each.right.weights[each.row], each.wrong.weights[each.row]
    size = np.nan_to_num(before, nan=1.0) + np.nan_to_num(after, nan=1.0)
    heavy = [int(key) for key in np.argsort(-size, kind="stable")[:_KEYS] if size[key] >= _LEAST]
    keys = sorted(heavy or [each.row])
    rows = tuple(
        (token_name(names[key]), _text(before[key]), _share(before[key]), _text(after[key]), _share(after[key]))
        for key in keys
    )
    return Bars(rows, (_text(before.sum()), _text(after.sum())))


def _outputs(row: Floats) -> tuple[str, ...]:
    return tuple(_text(value) for value in row[:_DIMENSIONS])


def _text(value: float) -> str:
    return fixed(float(value), WALK_DECIMALS)


def _share(value: float) -> float:
    return float(min(max(value, 0.0), 1.0)) if np.isfinite(value) else 0.0


def _picture(weights: Floats, visible: np.ndarray) -> tuple[tuple[float | None, ...], ...]:
    """Return the weights of the first rows and keys for a small picture: None hidden, −1 no number."""
    return tuple(
        tuple(
            None if not seen else -1.0 if np.isnan(value) else _share(value)
            for value, seen in zip(row, sees, strict=True)
        )
        for row, sees in zip(weights[:_PICTURE, :_PICTURE], visible[:_PICTURE, :_PICTURE], strict=True)
    )


def _cell(value: float) -> float:
    return -1.0 if np.isnan(value) else _share(value)


def _verdict(each: Counterexample) -> Both:
    caught = each.caught_by
    if not caught:
        return both("caught_none") if each.changes else both("caught_nothing_to_catch")
    told = [check.id for check in each.checks if check.id in _TOLD and check.status is Status.PASS]
    return both("caught", checks=", ".join(check.id for check in caught), told=", ".join(told) or "—")


def _count(each: Counterexample) -> Both | None:
    count = len(each.caught_by)
    return both("caught_count_one" if count == 1 else "caught_count", count=count) if count else None


def _failed(caught: tuple[Check, ...], language: str) -> Block:
    """Return how the checks ended. What kernel.lse says of other checks holds of a run: here weights are read."""
    told = (
        replace(check, reason=message("report.wrong_lse_why")) if check.id == "kernel.lse" else check
        for check in caught
    )
    return checks(Words(language), tuple(told)).blocks[0]
