"""Every check that ends a trace, for one head. Must not know: wording, how checks are shown."""

from tracer.checks import causal, heads, hidden, kernel, scale, softmax
from tracer.checks.subject import Subject
from tracer.maths.attention import Head
from tracer.records import Check, LayerTrace, Status

CHECKS = (
    scale.value,
    scale.lineage,
    scale.effective,
    causal.flag,
    causal.effect,
    hidden.weights,
    softmax.sums,
    softmax.empty,
    kernel.output,
    kernel.lse,
    heads.kv,
    kernel.bits,
)


def run_checks(trace: LayerTrace, head_index: int, head: Head) -> tuple[Check, ...]:
    """Return the checks of query head ``head_index``, those that failed first, otherwise in the order of CHECKS.

    ``head`` is that head's reference, as tracer.checks.reference makes it.
    """
    subject = Subject(trace, head_index, head)
    checks = [result for check in CHECKS if (result := check(subject)) is not None]
    return tuple(sorted(checks, key=lambda check: check.status is not Status.FAIL))
