"""One batch row of a watched call as the record that ends a trace, so that a trace's own checks judge it too.

Must not know: what those checks claim.
"""

from pathlib import Path

import numpy as np

from tracer.arrays import Array
from tracer.checks.subject import Subject
from tracer.records import (
    Capture,
    CheckpointFacts,
    Choice,
    Effects,
    KernelCall,
    LayerTrace,
    Lineage,
    Request,
    Site,
    Span,
)
from tracer.texts import message
from tracer.verification.case import Case

_NOWHERE = Site("", "", "", Span(1, 0, 1, 0), "", "", "", None, "none", Path())
_NO_CHECKPOINT = CheckpointFacts("", None, "", "", "", False)


def trace_of(case: Case, row: int) -> LayerTrace | None:
    """Return batch row ``row`` of ``case`` as a layer's trace, or None where the attention function was not seen."""
    return case.once(f"trace.{row}", lambda: _make(case, row))


def subject(case: Case, row: int, index: int) -> Subject | None:
    """Return one head of a row for a trace's checks, None where it was not seen."""

    def make() -> Subject | None:
        trace, head = trace_of(case, row), case.reference(row, index)
        return None if trace is None or head is None else Subject(trace, index, head)

    return case.once(f"subject.{row}.{index}", make)


def _make(case: Case, row: int) -> LayerTrace | None:
    interface = case.interface
    if interface is None or row >= len(case.probed.eager):
        return None
    why = Choice(case.kind, message("verify.nothing"))
    site = kernel_site(case) or _NOWHERE
    lse = case.seen.kernel.lse if case.seen.kernel is not None else None
    heads_first = {"q": interface.query, "k": interface.key, "v": interface.value}
    captures = {
        name: Capture(name, name, ("T", "H", "D"), _tokens_first(array[row]), site, name)
        for name, array in heads_first.items()
    }
    request = Request(case.layer, 0, None, (), why, why, why, Choice(case.dtype, why.reason))
    return LayerTrace(
        request=request,
        versions={},
        checkpoint=_NO_CHECKPOINT,
        model=case.facts,
        tokens=(),
        scale=Lineage(_scale(case), "", ()),
        causal=Lineage(None, "", ()),
        kernel=KernelCall(
            function=interface.function,
            provider="",
            arguments={},
            site=site,
            output=interface.output[row],
            lse=None if lse is None else Array("F32", lse[row].astype("<f4")),
        ),
        captures=captures,
        effects=Effects(case.probed.repeats, (), case.probed.eager[row], case.heads),
    )


def kernel_site(case: Case) -> Site | None:
    """Return the call of the kernel, or of the attention function where no kernel of its own was seen."""
    kernel, interface = case.seen.kernel, case.interface
    if case.bare and interface is not None:
        places = case.places
        return places.site("scale.scores") or places.at(interface.code) or places.at(interface.place)
    inner = case.places.at(kernel.place) if kernel is not None else None
    if inner is not None or interface is None:
        return inner
    return case.places.at(interface.code) or case.places.at(interface.place)


def _scale(case: Case) -> float | None:
    return case.interface.scaling if case.interface is not None else None


def _tokens_first(array: Array) -> Array:
    return Array(array.dtype, np.ascontiguousarray(np.swapaxes(array.bits, 0, 1)))
