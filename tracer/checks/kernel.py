"""Do the kernel's output and logsumexp agree with the reference, and did tracing change nothing?

Must not know: how numbers are shown.
"""

import numpy as np

from tracer.checks.outcome import Figure, judged, outcome, overflow, say, untested
from tracer.checks.subject import Subject
from tracer.maths.criterion import difference
from tracer.records import Check, Status
from tracer.texts import Message


def output(subject: Subject) -> Check:
    """Return ``kernel.output``: flash-attention's criterion, max|kernel − ref| ≤ 2 · max|eager − ref| + 3e-5."""
    result, site = subject.numerics, subject.trace.kernel.site
    single = subject.head.computed.number == "float32"
    lost, reached = int(subject.overflowed.sum()), int(subject.reached.sum())
    kernel, expected = result.kernel, say("kernel_output_expected_single" if single else "kernel_output_expected")
    if subject.eager is None or (kernel.compared == 0 and kernel.mismatched == 0):
        reason = say("kernel_output_no_eager")
        if subject.eager is not None:
            reason = overflow(lost, subject.dtype) if lost else subject.undefined
            reason = subject.why_reached(reached) if reached else reason
        figures: dict[str, Figure] = {"eager_overflow_rows": lost}
        return untested("kernel.output", expected=expected, reason=reason, site=site, figures=figures)
    if kernel.mismatched:
        query = subject.position(int(subject.sound[kernel.first_mismatch[0]])) if kernel.first_mismatch else 0
        measured = say("mismatch", count=kernel.mismatched, query=query)
    else:
        measured = say("kernel_output_measured", kernel=kernel.largest)
    if result.eager_error is None:
        tolerance = say("kernel_output_tolerance_spacing", value=result.tolerance)
    else:
        tolerance = say("kernel_output_tolerance", eager=result.eager_error, value=result.tolerance)
    status, reason = judged(result.ok), _why(subject, result.eager_rows)
    if lost and status is Status.PASS:
        status, reason = Status.NOT_TESTABLE, overflow(lost, subject.dtype)
    elif reached and status is Status.PASS:
        status, reason = Status.NOT_TESTABLE, subject.why_reached(reached)
    elif result.eager_overflow > subject.eager_reached:
        reason = say("kernel_output_overflow", rows=result.eager_overflow - subject.eager_reached)
    elif subject.eager_reached:
        reason = say("kernel_output_eager_reached", rows=subject.eager_reached)
    elif kernel.undefined:
        reason = say("kernel_output_undefined", count=kernel.undefined)
    return outcome(
        "kernel.output",
        status,
        measured=measured,
        expected=expected,
        tolerance=tolerance,
        site=site,
        reason=reason,
        figures={
            "kernel_error": kernel.largest,
            "eager_error": result.eager_error,
            "tolerance": result.tolerance,
            "mismatched": kernel.mismatched,
            "undefined": kernel.undefined,
            "eager_overflow_rows": result.eager_overflow - subject.eager_reached + lost,
            "reached_rows": reached,
            "query": subject.position(int(subject.sound[kernel.at[0]])) if kernel.at else None,
            "empty_rows": len(subject.head.empty_rows),
        },
    )


def _why(subject: Subject, eager_rows: int | None) -> Message:
    """Return why that tolerance, and of a long prompt what was computed for some rows only."""
    computed = subject.head.computed
    if eager_rows is None:
        return say("kernel_output_why")
    if computed.number == "float64":
        return say("kernel_output_sampled", rows=eager_rows)
    figures = {"checked": computed.rows, "output": computed.output, "lse": computed.lse}
    return say("kernel_output_single", rows=eager_rows, **figures)


def lse(subject: Subject) -> Check:
    """Return ``kernel.lse``: the kernel's logsumexp is the natural logarithm of Σ exp over scaled scores."""
    expected, site = say("kernel_lse_expected"), subject.trace.kernel.site
    given, rows = subject.lse, subject.rows
    reached = subject.lse_reached[rows]
    if reached.all() and reached.size:
        reason = subject.why_reached(int(reached.sum()))
        return untested("kernel.lse", expected=expected, reason=reason, site=site)
    rows = rows[~reached]
    wanted = subject.head.lse[rows]
    if given is None or not np.isfinite(wanted).any():
        reason = say("no_lse") if given is None else subject.undefined
        return untested("kernel.lse", expected=expected, reason=reason, site=site)
    found, within = difference(subject.reach.settled(given[rows], wanted, rows), wanted), subject.lse_tolerance
    query = found.first_mismatch or found.at
    reason = say("kernel_lse_base_two") if subject.base_two else say("kernel_lse_why")
    measured = say("kernel_lse_measured", error=found.largest)
    if found.mismatched and found.first_mismatch:
        measured = say("mismatch", count=found.mismatched, query=subject.position(int(rows[found.first_mismatch[0]])))
    status = judged(found.within(within))
    if reached.any() and status is Status.PASS:
        status, reason = Status.NOT_TESTABLE, subject.why_reached(int(reached.sum()))
    return outcome(
        "kernel.lse",
        status,
        measured=measured,
        expected=expected,
        tolerance=say("absolute", value=within),
        site=site,
        reason=reason,
        figures={
            "error": found.largest,
            "tolerance": within,
            "mismatched": found.mismatched,
            "undefined": found.undefined,
            "query": subject.position(int(rows[query[0]])) if query else None,
            "base_two": subject.base_two,
            "row_max": float(subject.head.row_max[rows].max()),
            "empty_rows": len(subject.head.empty_rows),
        },
    )


def bits(subject: Subject) -> Check:
    """Return ``run.bits``: the untraced module, run again, gave the same bits as the traced one."""
    same = subject.trace.effects.untraced_same
    return outcome(
        "run.bits",
        judged(same),
        measured=say("run_bits_same") if same else say("run_bits_differ"),
        expected=say("run_bits_expected"),
        tolerance=say("exact"),
        reason=say("run_bits_why_alone") if subject.alone else say("run_bits_why"),
        site=subject.trace.kernel.site,
        figures={"same": same},
    )
