"""Is the scale head_dim**-0.5: as the kernel was told it, on the way from its definition, and in effect?

Must not know: how numbers are shown.
"""

import numpy as np

from tracer.checks.outcome import judged, outcome, overflow, say, untested
from tracer.checks.subject import Subject
from tracer.maths.scale import LARGEST_TOLERANCE
from tracer.records import Check, Hop, ModelFacts, Status
from tracer.texts import Message


def value(subject: Subject) -> Check:
    """Return ``scale.value``: the kernel was given exactly head_dim**-0.5, or nothing, which means the same."""
    lineage, expected = subject.trace.scale, subject.expected_scale
    given = lineage.value
    if given is None:
        status, measured, reason = Status.PASS, say("scale_value_default", value=expected), say("scale_value_told_none")
    else:
        status, measured = judged(given == expected), say("number", value=float(given))
        reason = say("scale_value_exact")
        if status is Status.FAIL:
            reason = explain(float(given), subject.trace.model, 0.0) or say(
                "scale_ratio", ratio=float(given) / expected
            )
    wrong = next((hop for hop in lineage.hops if hop.value is not None and hop.value != expected), None)
    origin = wrong or next(iter(lineage.hops), None)
    return outcome(
        "scale.value",
        status,
        measured=measured,
        expected=say("scale_expected", head_dim=subject.trace.model.head_dim, value=expected),
        tolerance=say("exact"),
        reason=reason,
        site=origin.site if origin else subject.trace.kernel.site,
        figures={"value": None if given is None else float(given), "expected": expected, "default": given is None},
    )


def lineage(subject: Subject) -> Check:
    """Return ``scale.lineage``: every hop is joined to the one before it, by the source or by being the same object.

    Where a call goes through a variable the source does not say which function runs; the one float object that was seen
    on both sides does. A first hop that was not seen to run is the constructor of a model that was there before: its
    value stands for it.
    """
    hops = subject.trace.scale.hops
    given = subject.trace.scale.value
    differs = next((hop for hop in hops if hop.same_object is False or not _same(hop, given)), None)
    unlinked = next((hop for hop in hops if not (hop.linked or hop.same_object)), None)
    unseen = next((hop for hop in hops[1:] if not hop.seen), None)
    if not hops:
        status, reason, site = Status.NOT_TESTABLE, say("scale_lineage_none"), subject.trace.kernel.site
    elif differs is not None:
        status, reason, site = Status.FAIL, say("scale_lineage_differs", place=differs.site.place), differs.site
    elif unlinked is not None:
        status, site = Status.NOT_TESTABLE, unlinked.site
        reason = say("scale_lineage_unlinked", place=unlinked.site.place, code=unlinked.site.code)
    elif unseen is not None:
        status, reason, site = Status.NOT_TESTABLE, say("scale_lineage_unseen", place=unseen.site.place), unseen.site
    else:
        status, site = Status.PASS, hops[0].site
        reason = say("scale_lineage_seen") if hops[0].seen else say("scale_lineage_by_value")
    same = sum(hop.same_object is True for hop in hops)
    return outcome(
        "scale.lineage",
        status,
        measured=say("scale_lineage_measured", linked=sum(hop.linked for hop in hops), same=same, hops=len(hops)),
        expected=say("scale_lineage_expected", hops=len(hops)),
        tolerance=say("exact"),
        reason=reason,
        site=site,
        figures={"hops": len(hops), "linked": sum(hop.linked for hop in hops), "same_object": same},
    )


def effective(subject: Subject) -> Check:
    """Return ``scale.effective``: the scale fitted to the kernel's logsumexp (or output) is head_dim**-0.5."""
    fit, expected = subject.fit, subject.expected_scale
    by = say("fit_lse") if subject.lse is not None else say("fit_output")
    wanted = say("scale_expected", head_dim=subject.trace.model.head_dim, value=expected)
    if fit is None:
        lost, known = int(subject.overflowed.sum()), bool(np.isfinite(subject.head.lse).any())
        why = say("scale_effective_no_rows") if known else subject.undefined
        reached = int((subject.reached if subject.lse is None else subject.lse_reached).sum())
        why = subject.why_reached(reached) if reached else why
        return untested(
            "scale.effective",
            expected=wanted,
            reason=overflow(lost, subject.dtype) if lost else why,
            site=subject.trace.kernel.site,
            figures={"expected": expected},
        )
    within = fit.tolerance
    if not fit.tells:
        status, reason = Status.NOT_TESTABLE, say("scale_effective_blind", largest=100 * LARGEST_TOLERANCE)
    elif not fit.residual <= subject.largest_residual:
        status = Status.NOT_TESTABLE
        reason = say("scale_effective_no_fit", by=by, residual=fit.residual, largest=subject.largest_residual)
    else:
        status = judged(subject.scale_agrees)
        reason = say("scale_effective_why", by=by, kappa=fit.kappa, rows=fit.rows)
        if status is Status.FAIL:
            reason = explain(fit.scale, subject.trace.model, within) or say("scale_ratio", ratio=fit.scale / expected)
    return outcome(
        "scale.effective",
        status,
        measured=say("scale_effective_measured", value=fit.scale),
        expected=wanted,
        tolerance=say("relative", value=within) if np.isfinite(within) else say("none"),
        reason=reason,
        site=subject.trace.kernel.site,
        figures={
            "effective": fit.scale,
            "expected": expected,
            "tolerance": within,
            "residual": fit.residual,
            "kappa": fit.kappa,
            "rows": fit.rows,
        },
    )


def explain(found: float, model: ModelFacts, tolerance: float) -> Message | None:
    """Return what a wrong scale looks like (``tolerance`` is relative), or None where it is no usual fault."""
    expected = model.head_dim**-0.5
    faults = {
        "scale_is_hidden": (model.hidden_size / model.heads) ** -0.5,
        "scale_is_twice": 1 / model.head_dim,
        "scale_is_absent": 1.0,
        "scale_is_bf16": _bf16(expected),
    }
    for name, fault in faults.items():
        if fault != expected and abs(found / fault - 1) <= tolerance:
            return say(
                name, ratio=found / expected, head_dim=model.head_dim, hidden=model.hidden_size, heads=model.heads
            )
    return None


def _same(hop: Hop, given: float | bool | None) -> bool:
    return hop.value is None or given is None or hop.value == given


def _bf16(number: float) -> float:
    """Return ``number`` rounded to bfloat16, to nearest and ties to even."""
    bits = int(np.float32(number).view(np.uint32))
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return float(np.uint32(rounded).view(np.float32))
