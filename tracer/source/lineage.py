"""A value's path from its definition to the kernel: which hops the source itself proves to be joined.

A hop is joined to the one before it when its expression reads the name that the one before bound: an attribute of the
same class, a local name of the same function, or a parameter of the function that the call names. Where a call goes
through a variable (a table of attention functions, functools.partial) the source does not say which function runs; such
a hop is not called joined here, and identity at run time has to prove it. Must not know: run-time values.
"""

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from tracer.source.anchors import Anchor, PathStep, Table


@dataclass(frozen=True)
class StaticHop:
    """One hop as the source shows it. ``linked``: the source proves that it reads what the hop before it bound."""

    anchor: Anchor
    binds: str
    linked: bool


def path(table: Table, steps: Sequence[PathStep]) -> tuple[StaticHop, ...]:
    """Return the hops of ``steps``; the first, the definition, is linked to nothing and counts as linked."""
    hops: list[StaticHop] = []
    for step in steps:
        anchor = table.anchors[step.anchor]
        hops.append(StaticHop(anchor, step.binds, not hops or _reads(hops[-1], anchor)))
    return tuple(hops)


def _reads(before: StaticHop, anchor: Anchor) -> bool:
    read = _names(anchor.code)
    if before.binds.startswith("self."):
        same_class = before.anchor.scope.rsplit(".", 1)[0] == anchor.scope.rsplit(".", 1)[0]
        return same_class and before.binds in read
    if before.binds.endswith("="):
        name, called = before.binds[:-1], before.anchor.callee
        reached = anchor.scope in (called, f"{called}.__init__")  # a class is called through its constructor
        return reached and name in anchor.parameters and name in read
    return before.anchor.scope == anchor.scope and before.binds in read


def _names(code: str) -> set[str]:
    """Return the plain names and dotted attributes that an expression mentions."""
    found = set()
    for node in ast.walk(ast.parse(f"({code})", mode="eval")):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(ast.unparse(node))
    return found
