"""Claims about whole runs, layer by layer: the same tokens give the same result however they come, a changed token
moves nothing before it anywhere in the model, and the kernel itself aligns its mask as flash-attention does.

Must not know: torch.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tracer.arrays import Array, Floats
from tracer.engines.transformers.observed import InterfaceCall, Parts
from tracer.verification.case import Case
from tracer.verification.probing import Probed
from tracer.verification.records import Finding
from tracer.verification.scenarios import Bools
from tracer.verification.subjects import kernel_site
from tracer.verification.vectors import distance
from tracer.verification.verdict import finding, passed, say, untested

# How far a layer's outputs may lie apart, relatively, when batch shapes and kernels' block sizes differ (transformers'
# own tests allow 4e-2 in 16 bits). What went in differs already after the first layer; the layer may make a difference
# this many times as large, or, where the softmax is sharp, a few times what its output moves by such a difference.
_GROWTH, _SHARPENED = 8.0, 4.0
_DRAWS = 3
_SAME = {"F64": 1e-6, "F32": 1e-4, "F16": 4e-2, "BF16": 4e-2}
# No rounding of earlier layers, however it grew, makes what goes into a layer differ by more than this.
_NO_ROUNDING = {"F64": 1e-3, "F32": 2e-2, "F16": 0.6, "BF16": 0.6}
_IDS = {"packed": "packing.same", **dict.fromkeys(("padded", "left_pad", "right_pad"), "padding.same")}
Direct = Callable[[int, int], tuple[NDArray[np.float32], Bools]]


_NOTHING = Array("F32", np.zeros((1, 1, 0, 1), dtype="<f4"))
_NO_PARTS = Parts({}, {}, {})


def _bare(case: Case) -> InterfaceCall | None:
    """Return the attention function's call without its tensors."""
    call = case.interface
    if call is None:
        return None
    return replace(call, query=_NOTHING, key=_NOTHING, value=_NOTHING, mask=None, output=_NOTHING, weights=None)


@dataclass(frozen=True, eq=False)
class PlainRun:
    """What the plain scenario showed of each layer, cut down to what later runs are compared with."""

    cases: dict[int, Case] = field(default_factory=dict)

    def keep(self, case: Case) -> None:
        """Keep what one layer's attention was given and gave, [1, T, C], and where its kernel stands."""
        seen = replace(case.seen, cos=None, sin=None, modules=(), interface=_bare(case), parts=_NO_PARTS)
        self.cases[case.layer] = replace(case, seen=seen, probed=Probed(case.probed.repeats))


def same_as_plain(case: Case, plain: PlainRun, step: int) -> Finding | None:
    """Return padding.same, packing.same or cache.same: real rows are those of the plain run, within rounding."""
    id = _IDS.get(case.scenario.id, "cache.same")
    rows = case.scenario.plain_rows[step]
    kept = rows >= 0
    if case.layer not in plain.cases or not kept.any():
        return None
    before = plain.cases[case.layer].seen
    given = distance(case.seen.hidden[kept].float64(), before.hidden[0][rows[kept]].float64())
    off = distance(case.seen.output[kept].float64(), before.output[0][rows[kept]].float64())
    usual = _SAME[case.dtype] + _GROWTH * given
    sharp = 0.0 if off <= usual else _SHARPENED * _sharpness(case, given)  # asked for only where it matters
    within = max(usual, _SAME[case.dtype] + sharp)
    site = case.places.site("cache.update") if case.scenario.cached else kernel_site(case)
    measured, reason = say("same_measured", off=off), say("same_why", given=given)
    if given > _NO_ROUNDING[case.dtype]:
        measured, reason, site = say("same_given", given=given), say("same_given_why", layer=case.layer), None
    elif within > 0.5:
        name = "same_sharp" if within > usual else "same_blind"
        reason = say(name, given=given, dtype=case.dtype, layer=case.layer)
        return untested(case, id, expected=say("same_expected"), reason=reason, site=site, given=given)
    return finding(
        case,
        id,
        passed(off <= within and given <= _NO_ROUNDING[case.dtype]),
        measured=measured,
        expected=say("same_expected"),
        tolerance=say("relative", value=within),
        reason=reason,
        site=site,
        off=off,
        given=given,
    )


def _sharpness(case: Case, given: float) -> float:
    """Return how far attention's output, of all heads, moves relatively where queries and keys move as far as what went
    in did, and by a rounding: a sharp softmax turns a small difference into a large one. 0 where they are not seen."""
    query, key = (case.given[name] if case.given else np.zeros((0, 1, 0, 1)) for name in "qk")
    if not query.size or query.shape[1] % key.shape[1]:
        return 0.0
    noise, size, furthest = np.random.default_rng(case.layer), given + 2 * case.unit, 0.0
    for row in range(len(case.step.ids)):
        visible = case.visibility(row).rows(0, query.shape[2])
        counts = case.rows[row] & visible.any(axis=1)
        right = _attended(case, row, query[row], key[row], visible)[:, counts]
        for _ in range(_DRAWS):
            q, k = (x[row] * (1 + size * noise.standard_normal(x[row].shape)) for x in (query, key))
            furthest = max(furthest, distance(_attended(case, row, q, k, visible)[:, counts], right))
    return furthest


def _attended(case: Case, row: int, query: Floats, key: Floats, visible: Bools) -> Floats:
    """Return attention [H, Tq, D] of query [H, Tq, D] and key [K, Tk, D]; rows that see nothing are of no use."""
    heads, length, size = query.shape
    own = query.reshape(len(key), -1, length, size)
    with np.errstate(invalid="ignore", over="ignore"):
        scores = np.where(visible, own @ key[:, None].swapaxes(2, 3) * case.scale, -np.inf)
        scores -= scores.max(axis=-1, keepdims=True)
        shares = np.exp(scores)
        shares /= shares.sum(axis=-1, keepdims=True)
        made: Floats = shares @ case.given["v"][row][:, None]
    return made.reshape(heads, length, -1)


def model_causal(case: Case, output: Array, changed: int) -> Finding:
    """Return causal.model: with the last token ``changed``, every earlier row of a layer's ``output`` [1, T, C] has the
    bits it had in the plain ``case``."""
    moved = (case.seen.output[0].bits != output[0].bits).any(axis=-1)
    leaks = np.flatnonzero(moved[:changed])
    wanted = say("causal_model_expected")
    if changed == 0 or not moved[changed]:
        reason = say("effect_blind" if changed else "effect_single")
        return untested(case, "causal.model", expected=wanted, reason=reason)
    measured = say("causal_model_measured", token=changed)
    if leaks.size:
        measured = say("effect_leak", token=changed, row=int(leaks[0]), batch=0)
    return finding(
        case,
        "causal.model",
        passed(not leaks.size),
        measured=measured,
        expected=wanted,
        reason=say("effect_why"),
        site=kernel_site(case),
        row=int(leaks[0]) if leaks.size else None,
    )


def kernel_shapes(case: Case, direct: Direct | None) -> list[Finding]:
    """Return kernel.alignment and kernel.empty_rows: the kernel called alone with fewer and more queries than keys."""
    wanted = {"kernel.alignment": say("alignment_expected"), "kernel.empty_rows": say("empty_expected")}
    if direct is None or case.interface is None or case.facts.head_dim < 5 or case.step.ids.shape[1] < 5:
        reason = say("kernel_not_lent") if direct is None else say("kernel_few_tokens")
        return [untested(case, id, expected=message, reason=reason) for id, message in wanted.items()]
    fewer, _ = direct(2, 5)
    more, zero = direct(5, 2)
    pattern = _pattern(fewer)
    site = kernel_site(case)
    return [
        finding(
            case,
            "kernel.alignment",
            passed(pattern == "11110 / 11111"),
            measured=say("alignment_measured", pattern=pattern),
            expected=wanted["kernel.alignment"],
            reason=say("alignment_why"),
            site=site,
            pattern=pattern,
        ),
        finding(
            case,
            "kernel.empty_rows",
            passed(bool(np.isfinite(more).all()) and zero.tolist() == [True, True, True, False, False]),
            measured=say("empty_measured", pattern=_pattern(more)),
            expected=wanted["kernel.empty_rows"],
            reason=say("empty_why"),
            site=site,
            pattern=_pattern(more),
        ),
    ]


def _pattern(weights: NDArray[np.float32]) -> str:
    rows = ("".join("?" if not np.isfinite(w) else "01"[bool(w != 0)] for w in row) for row in weights)
    return " / ".join(rows)
