"""Attributes that are set from outside: on another object than the method's own, by setattr, on a class or a module.

Must not know: what is set inside a class's own methods by plain assignment (tracer.lineage.attributes).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from tracer.lineage import operations
from tracer.lineage.demand import ASSUMED, Demand, Edge, EndKind, Kind, say
from tracer.lineage.flow import Flow, Key, Test, literal_key
from tracer.lineage.module import Module
from tracer.lineage.parts import Class, Function

if TYPE_CHECKING:
    from tracer.lineage.slicer import Slicer

_DICTIONARY = "__dict__"


@dataclass(frozen=True)
class Write:
    """``receiver.name = value``. ``name`` is None where it is computed, ``plain`` is an ordinary assignment."""

    module: Module
    function: Function | None
    receiver: cst.BaseExpression
    name: str | None
    value: cst.CSTNode
    path: tuple[Key, ...]
    tests: tuple[Test, ...]
    plain: bool


class Writes:
    """What sets attributes in one program."""

    def __init__(self, slicer: "Slicer") -> None:
        self._slicer = slicer

    def elsewhere(self, cls: Class, line: Sequence[Class], name: str, rest: tuple[Key, ...]) -> Iterator[Edge]:
        """Yield what may set ``name`` of an object of ``cls`` beside plain assignments in methods of ``line`` (its
        bases and subclasses), each with its reason."""
        for write in (*self._named.get(name, ()), *self._named.get(None, ())):
            owner = _owner(write)
            if owner is not None and (write.plain or owner not in line):
                continue  # self: told by the class itself, or another object
            known = owner is not None or self._is_of(write, line)
            if known or (known is None and write.name is not None):  # a computed name of some object says nothing
                yield self._edge(write, cls, name, rest, known is True)

    def of_module(self, module: Module, name: str) -> Iterator[Edge]:
        """Yield what is put in the place of the top-level ``name`` of ``module``: ``module.name = value``."""
        for write in self._named.get(name, ()):
            if self._slicer.program.full_name(write.module, write.receiver) == module.name:
                yield self._edge(write, None, name, (), True)

    def _edge(self, write: Write, cls: Class | None, name: str, rest: tuple[Key, ...], known: bool) -> Edge:
        span = write.module.span(write.value)
        place = f"{write.module.file.member}:{span.line}"
        owner = cls.name if cls is not None else write.module.name
        why = say("set_outside" if known else "set_perhaps", name=name, owner=owner, place=place)
        to = Demand(write.module, write.value, (*write.path, *rest))
        return Edge(to, Kind.ATTRIBUTE, f".{name}", why, write.tests, cost=1 + 3 * ASSUMED)

    def _is_of(self, write: Write, line: Sequence[Class]) -> bool | None:
        """Whether the receiver is an object of (or is) one of ``line``; None where the files read do not tell."""
        ends = [end for end, _ in self._slicer.ends(Demand(write.module, write.receiver))]
        if any(end.cls in line for end in ends if end.kind in (EndKind.INSTANCE, EndKind.CLASS)):
            return True
        told = [end for end in ends if end.known and not operations.is_none(end.at.node)]
        return False if told and all(end.known for end in ends) else None

    @cached_property
    def _named(self) -> dict[str | None, list[Write]]:
        found: dict[str | None, list[Write]] = {}
        for module in self._slicer.program.modules.values():
            for flow, function in module.every_flow():
                for write in (*_assigned(module, flow, function), *_called(module, flow, function)):
                    found.setdefault(write.name, []).append(write)
        return found


def _assigned(module: Module, flow: Flow, function: Function | None) -> Iterator[Write]:
    for made in flow.attributes:
        name = made.target.attr.value
        yield Write(module, function, made.target.value, name, made.value, made.path, made.tests, True)


def _called(module: Module, flow: Flow, function: Function | None) -> Iterator[Write]:
    """``setattr(x, "name", value)``, ``x.register_buffer("name", value)``, ``x.__dict__.update(name=value)``."""
    for call in flow.calls:
        args = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
        called = operations.dotted(call.func)
        tests = flow.tests.get(call, ())
        if called in ("setattr", "object.__setattr__") and len(args) == 3:
            yield Write(module, function, args[0], _text(args[1]), args[2], (), tests, False)
        elif isinstance(call.func, cst.Attribute):
            base, method = call.func.value, call.func.attr.value
            if method in ("register_buffer", "register_parameter", "__setattr__") and len(args) >= 2:
                yield Write(module, function, base, _text(args[0]), args[1], (), tests, False)
            elif method == "update" and (owner := _behind(base)) is not None:
                for arg in call.args:
                    name = arg.keyword.value if arg.keyword is not None else None
                    yield Write(module, function, owner, name, arg.value, (), tests, False)


def _behind(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return x where ``node`` is ``x.__dict__`` or ``vars(x)``."""
    if isinstance(node, cst.Attribute) and node.attr.value == _DICTIONARY:
        return node.value
    if isinstance(node, cst.Call) and operations.dotted(node.func) == "vars" and len(node.args) == 1:
        return node.args[0].value
    return None


def _text(node: cst.BaseExpression) -> str | None:
    key = literal_key(node)
    return key[1:-1] if isinstance(key, str) else None


def _owner(write: Write) -> Class | None:
    """Return the class whose method writes to its own object, None where it writes to another."""
    function = write.function
    if function is None or function.receiver is None or not isinstance(write.receiver, cst.Name):
        return None
    return function.owner if write.receiver.value == function.receiver.name.value else None
