"""What a slice asks and what it hears: the value of an expression, where that comes from, and where the asking ends.

Must not know: how an answer is found.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import libcst as cst

from tracer.lineage.flow import Key, Test
from tracer.texts import Message, message

if TYPE_CHECKING:
    from tracer.lineage.module import Module
    from tracer.lineage.parts import Class, Function


@dataclass(frozen=True)
class Frame:
    """One call being looked into: ``partials`` are the functools.partial calls it went through, innermost last."""

    function: "Function | None"  # None: not a call but a comprehension, at its element ``element``
    call: "Demand"
    partials: tuple["Demand", ...] = ()
    bound: bool = False  # the first parameter is the object the method belongs to
    own: bool = False  # a method that an object calls on itself
    element: int | None = None


@dataclass(frozen=True)
class Demand:
    """The value of ``node`` (of its part ``path``), inside the calls ``frames``."""

    module: "Module"
    node: cst.CSTNode
    path: tuple[Key, ...] = ()
    frames: tuple[Frame, ...] = ()


class Kind(StrEnum):
    """How a value gets from one expression to the next."""

    START = "start"  # the kernel's argument
    ASSIGNED = "assigned"  # a local or global name
    ATTRIBUTE = "attribute"  # self.x = …, a class's own x = …
    ARGUMENT = "argument"  # of a call
    PARAMETER = "parameter"
    DEFAULT = "default"
    ENTRY = "entry"  # of a dictionary
    OPENED = "opened"  # **d in a call
    RETURNED = "returned"
    CALL = "call"  # a call that makes a new value of its arguments
    INNER = "inner"  # a part of an expression, not worth a line of its own
    BRIDGE = "bridge"  # through memory: written there, read here


class Unless(StrEnum):
    """What an edge is not taken for, once the value at its end is known: ``x if x is not None else y``, ``x or y``."""

    NEVER = ""
    NONE = "none"
    FALSE = "false"


@dataclass(frozen=True)
class Edge:
    """One way to where a value comes from. ``why`` says what was assumed (None: the source itself proves it). Of
    edges with a ``rank`` the highest that has the value at all wins: what was opened or updated last."""

    to: Demand
    kind: Kind
    binds: str = ""
    why: Message | None = field(default=None, compare=False)
    tests: tuple[Test, ...] = ()
    cost: int = 1
    unless: Unless = Unless.NEVER
    fills: bool = field(default=False, compare=False)  # ``if x is None: x = …``: taken only where x is None
    declared: bool = field(default=False, compare=False)  # only because a name is declared as a class
    rank: int = field(default=0, compare=False)


class EndKind(StrEnum):
    """What a slice ends at."""

    LITERAL = "literal"
    OPERATION = "operation"
    FUNCTION = "function"
    CLASS = "class"
    INSTANCE = "instance"
    PARTIAL = "partial"
    EXTERNAL = "external"  # leads out of the files read
    INPUT = "input"  # a parameter that no call among the files read fills
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class End:
    """Where a value is made, or where the files read say no more (``why``)."""

    kind: EndKind
    at: Demand
    function: "Function | None" = None
    cls: "Class | None" = None
    bound: bool = False
    declared: bool = False  # known by annotation only: a subclass may stand here
    why: Message | None = field(default=None, compare=False)

    @property
    def known(self) -> bool:
        """Whether the files read say what the value is."""
        return self.kind not in (EndKind.EXTERNAL, EndKind.UNKNOWN, EndKind.INPUT)


Source = Edge | End
ASSUMED = 40  # what an unproven step costs, in proven ones, when the most certain path is looked for
DECLARED = 6  # a declaration is mostly kept, and often all there is to go by


def part(d: Demand, node: cst.CSTNode, path: tuple[Key, ...] = ()) -> Demand:
    """Return the same question about another expression of the same place: the part ``path`` of ``node``."""
    return Demand(d.module, node, path, d.frames)


def further(tests: tuple[Test, ...], here: tuple[Test, ...]) -> tuple[Test, ...]:
    """Return the tests that a definition depends on beyond those its use depends on, too."""
    known = {(id(test), holds) for test, holds in here}
    return tuple((test, holds) for test, holds in tests if (id(test), holds) not in known)


def as_declared(source: Source, why: Message, cost: int) -> Source:
    """Return ``source`` as what a declaration says, and no more than that."""
    return replace(because(source, why, cost), declared=True)


def because(source: Source, why: Message | None, cost: int = ASSUMED) -> Source:
    """Return ``source`` with the assumption ``why`` (None: as it is), which costs ``cost``."""
    if why is None:
        return source
    if isinstance(source, End):
        return replace(source, why=source.why or why)
    return replace(source, why=source.why or why, cost=source.cost + cost)


def say(name: str, /, **values: object) -> Message:
    """Return the text ``lineage.<name>``."""
    return message(f"lineage.{name}", **values)
