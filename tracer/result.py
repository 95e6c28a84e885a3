"""Trace: one head of one traced layer, its reference and its checks. What every renderer is given.

Must not know: how it was made, how it is shown.
"""

import os
from dataclasses import dataclass

from tracer.bounds import check_head
from tracer.checks.reference import reference
from tracer.checks.suite import run_checks
from tracer.language import of_environment
from tracer.maths.attention import Head
from tracer.records import Check, LayerTrace, Status


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """One head of a traced layer: all that was captured, the head recomputed in float64 from it, and the checks."""

    layer: LayerTrace
    head: int
    reference: Head
    checks: tuple[Check, ...]

    @property
    def exit_code(self) -> int:
        """0: no check failed and at least one passed; 1: one failed; 3: nothing could be tested."""
        statuses = {check.status for check in self.checks}
        if Status.FAIL in statuses:
            return 1
        return 0 if Status.PASS in statuses else 3

    # A notebook asks the object itself how it looks; the renderers are above this module, so they are reached late.
    def __repr__(self) -> str:
        from tracer.render.text import repr_of

        return repr_of(self)

    def _repr_html_(self) -> str:
        from tracer.render.text import html_of

        return html_of(self, of_environment(os.environ))


def look_at(layer: LayerTrace, number: int) -> Trace:
    """Return one head of a traced layer, recomputed in float64 from its captures, with its checks."""
    check_head(number, layer.model.heads)
    recomputed = reference(layer, number)
    return Trace(layer, number, recomputed, run_checks(layer, number, recomputed))
