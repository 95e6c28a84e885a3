"""What a name can stand for in the files that are read: functions, classes, and names from elsewhere.

Must not know: how a name is resolved, other files.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst
from libcst.helpers import get_full_name_for_node

from tracer.lineage.flow import Definition, Flow, flow, parameters

if TYPE_CHECKING:
    from tracer.lineage.module import Module


@dataclass(eq=False)
class Function:
    """A function or method: ``owner`` is its class, ``parent`` the function it is nested in."""

    module: "Module"
    node: cst.FunctionDef
    scope: str
    owner: "Class | None"
    parent: "Function | None"

    @property
    def name(self) -> str:
        """Its bare name."""
        return self.node.name.value

    @cached_property
    def flow(self) -> Flow:
        """What its body does with names."""
        return flow(self.node)

    @cached_property
    def parameters(self) -> tuple[cst.Param, ...]:
        """Its parameters in the order they are written."""
        return parameters(self.node.params)

    @cached_property
    def decorators(self) -> frozenset[str]:
        """The dotted names of its decorators."""
        names = (dotted(each.decorator) for each in self.node.decorators)
        return frozenset(name for name in names if name)

    @property
    def receiver(self) -> cst.Param | None:
        """The parameter that a method gets its object in, else None."""
        if self.owner is None or self.decorators & {"staticmethod"} or not self.parameters:
            return None
        return self.parameters[0]


@dataclass(eq=False)
class Class:
    """A class with its own methods and what its body and its methods assign."""

    module: "Module"
    node: cst.ClassDef
    scope: str
    methods: dict[str, Function] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its bare name."""
        return self.node.name.value

    @cached_property
    def body(self) -> Flow:
        """What the class body itself binds."""
        return flow(self.node)

    @cached_property
    def is_dataclass(self) -> bool:
        """Whether the dataclass decorator writes its constructor."""
        names = (dotted(each.decorator) for each in self.node.decorators)
        return any(name in ("dataclass", "dataclasses.dataclass") for name in names)


@dataclass(frozen=True)
class Imported:
    """A name that comes from elsewhere: its full dotted name."""

    name: str


@dataclass(frozen=True)
class Builtin:
    """A name of Python itself."""

    name: str


Meaning = Definition | Function | Class | Imported | Builtin


def dotted(node: cst.CSTNode) -> str:
    """Return the dotted name that a name, an attribute or a call of one is; "" for any other expression."""
    if isinstance(node, cst.Call):
        node = node.func
    return get_full_name_for_node(node) or "" if isinstance(node, (cst.Name, cst.Attribute)) else ""
