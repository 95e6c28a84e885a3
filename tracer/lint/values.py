"""The records of following a value: what is asked for, each step on the way, and where the way ends.

Must not know: how a value is followed.
"""

import ast
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tracer.lint.facts import At, Class, Key, Scope
from tracer.texts import Message


@dataclass(frozen=True)
class Frame:
    """One call that is looked into: ``partials`` are the functools.partial calls it went through, innermost first."""

    function: Scope
    call: "Value"
    partials: tuple["Value", ...] = ()
    bound: bool = False
    why: Message | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Value:
    """The value of ``node`` (of its part ``path``) at a place, inside the calls ``frames``."""

    node: ast.AST
    at: At
    path: tuple[Key, ...] = ()
    frames: tuple[Frame, ...] = ()

    def of(self, node: ast.AST) -> "Value":
        """Return another expression at the same place, whole."""
        return replace(self, node=node, path=())

    @property
    def code(self) -> str:
        """The text of the expression."""
        return self.at.scope.module.code(self.node)


@dataclass(frozen=True)
class Step:
    """One step from the kernel towards the origin: the expression gone to, and what it is bound to."""

    value: Value
    binds: str
    why: Message | None = field(default=None, compare=False)


class RootKind(StrEnum):
    """Where a way ends."""

    LITERAL = "literal"
    OPERATION = "operation"
    CALL = "call"  # of something outside the files
    FUNCTION = "function"
    CLASS = "class"
    INSTANCE = "instance"
    PARTIAL = "partial"
    EXTERNAL = "external"  # a name of a package outside the files
    ATTRIBUTE = "attribute"  # of an object that the files do not show being made: config.head_dim
    INPUT = "input"  # a parameter that no call among the files fills
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Root:
    """An origin. ``tests`` are the conditions on the way, each with whether it holds; ``why`` is what was assumed."""

    kind: RootKind
    value: Value
    steps: tuple[Step, ...] = ()
    tests: tuple[tuple[Value, bool], ...] = ()
    why: Message | None = field(default=None, compare=False)
    scope: Scope | None = None
    cls: Class | None = None
    bound: bool = False
    name: str = ""  # full dotted, of EXTERNAL


@dataclass(frozen=True)
class Callee:
    """What a call may run."""

    scope: Scope | None
    cls: Class | None = None
    bound: bool = False
    partials: tuple[Value, ...] = ()
    external: str = ""
    why: Message | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Site:
    """A call of a function, seen from the function."""

    call: Value
    bound: bool
    partials: tuple[Value, ...] = ()
    why: Message | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Filled:
    """An argument: its value and how it is bound (``scale=``, ``**``)."""

    value: Value
    binds: str


def arguments(call: Value, partials: tuple[Value, ...] = ()) -> tuple[list[Value], dict[str, Value], list[Value]]:
    """Return what a call is given: positional values (a ``*x`` as its Starred node), keywords, ``**`` values."""
    positional: list[Value] = []
    keywords: dict[str, Value] = {}
    opened: list[Value] = []
    for each in (*partials, call):
        node = each.node
        if not isinstance(node, ast.Call):
            continue
        positional += [each.of(arg) for arg in (node.args[1:] if each in partials else node.args)]
        keywords.update({k.arg: each.of(k.value) for k in node.keywords if k.arg is not None})
        opened += [each.of(k.value) for k in node.keywords if k.arg is None]
    return positional, keywords, opened


def fill(names: list[str], call: Value, partials: tuple[Value, ...], name: str) -> tuple[Filled | None, list[Filled]]:
    """Return the argument that fills parameter ``name`` where positional parameters are ``names``, else None; and every
    opened ``*x`` or ``**x`` that may hold it."""
    positional, keywords, opened = arguments(call, partials)
    if name in keywords:
        return Filled(keywords[name], f"{name}="), []
    index = names.index(name) if name in names else -1
    maybe: list[Filled] = []
    for place, value in enumerate(positional):
        if isinstance(value.node, ast.Starred):
            if index >= place:
                key: Key = (index - place, 0) if not _more_starred(positional, place) else "*"
                maybe.append(Filled(replace(value.of(value.node.value), path=(key,)), "*"))
            break
        if place == index:
            return Filled(value, name), []
    maybe += [Filled(replace(value, path=(f"[{name}]",)), "**") for value in opened]
    return None, maybe


def _more_starred(positional: list[Value], place: int) -> bool:
    return any(isinstance(each.node, ast.Starred) for each in positional[place + 1 :])
