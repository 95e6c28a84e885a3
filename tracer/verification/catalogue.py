"""Every check of a verification: which functions make it, in which scenario.

Must not know: models, wording.
"""

from collections.abc import Callable

from tracer.verification.case import Case
from tracer.verification.claims import caches, headmaps, norms, ropes, scales, sight, softmaxes, whole
from tracer.verification.records import Finding

# In the order of a report: from what is written to what it does.
CHECKS = (
    "runs",
    "dropout.off",
    "projections",
    "norm.present",
    "norm.order",
    "norm.weights",
    "norm.eps",
    "rope.applied",
    "rope.pairing",
    "rope.positions",
    "rope.theta",
    "rope.factor",
    "scale.once",
    "scale.static",
    "scale.value",
    "scale.kernel",
    "scale.effective",
    "causal.flag",
    "causal.weights",
    "causal.effect",
    "causal.model",
    "causal.alignment",
    "window.effective",
    "window.none",
    "softmax.rows",
    "softmax.empty",
    "softmax.row_max",
    "softmax.precision",
    "softmax.large",
    "causal.large",
    "kernel.lse",
    "kernel.output",
    "kernel.alignment",
    "kernel.empty_rows",
    "weights.reference",
    "heads.keys",
    "heads.values",
    "heads.layout",
    "output.returned",
    "padding.weights",
    "padding.effect",
    "padding.same",
    "packing.weights",
    "packing.effect",
    "packing.same",
    "cache.rows",
    "cache.same",
)
# What fails when something else is wrong, too: told last.
CONSEQUENCES = frozenset(
    {
        "scale.effective",
        "causal.model",
        "softmax.row_max",
        "kernel.lse",
        "kernel.output",
        "padding.same",
        "packing.same",
        "cache.same",
        "weights.reference",
    }
)

Claims = Callable[[Case], list[Finding]]


def _one(claim: Callable[[Case], Finding]) -> Claims:
    return lambda case: [claim(case)]


# What is checked in every pass, and what once a layer, in the plain one.
EVERYWHERE: tuple[Claims, ...] = (
    headmaps.projections,
    norms.norms,
    ropes.ropes,
    _one(scales.at_interface),
    _one(scales.at_kernel),
    headmaps.values,
    _one(headmaps.layout),
    _one(headmaps.returned),
    _one(caches.dropout),
    sight.weights,
    sight.effect,
    sight.flag,
    softmaxes.rows,
)
ONCE: tuple[Claims, ...] = (
    _one(scales.static),
    scales.effective,
    softmaxes.large,
    whole.weights,
    headmaps.keys,
)
