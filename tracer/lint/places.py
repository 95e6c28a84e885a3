"""Values and steps as places and hops that a report shows.

Must not know: rules, output formats.
"""

from collections.abc import Sequence

from tracer.lint.records import Hop, Place
from tracer.lint.values import Step, Value

MOST_LINES = 6


def place(value: Value) -> Place:
    """Return where an expression stands."""
    module = value.at.scope.module
    span = module.span(value.node)
    lines = module.text.lines(span.line, min(span.end_line, span.line + MOST_LINES - 1))
    return Place(module.read.name, module.read.file, span, value.at.scope.name, module.text.code(span), lines)


def hops(steps: Sequence[Step]) -> tuple[Hop, ...]:
    """Return steps from the kernel back to the origin as hops from the origin to the kernel, without repeats."""
    found: dict[Place, Hop] = {}
    for step in steps:
        where = place(step.value)
        found.setdefault(where, Hop(where, step.binds, step.why))
    return tuple(reversed(found.values()))
