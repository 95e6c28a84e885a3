"""Whether a dictionary may have been changed between where a name was bound and where it is read: under another name,
in a function that it was handed to, by a method that changes it.

What changes it by the name itself, entry by entry, is told by tracer.lineage.flow. Must not know: what the entries are.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from tracer.lineage import operations
from tracer.lineage.binding import fill
from tracer.lineage.demand import Demand, say
from tracer.lineage.flow import Definition, Flow, Key, Way, literal_key
from tracer.lineage.module import Module
from tracer.lineage.parts import Function
from tracer.texts import Message

if TYPE_CHECKING:
    from tracer.lineage.slicer import Slicer

_READ_ONLY = frozenset({
    "len", "dict", "print", "str", "repr", "isinstance", "bool", "list", "tuple", "sorted", "id", "type", "iter",
    "hash", "set", "frozenset", "any", "all", "enumerate", "zip", "getattr", "hasattr", "copy.copy", "copy.deepcopy",
})  # fmt: skip
_LOOKS = frozenset({"get", "items", "keys", "values", "copy"})
_DEEPEST = 4


class Escapes:
    """Dictionaries of one program that more than one place may change."""

    def __init__(self, slicer: "Slicer") -> None:
        self._slicer = slicer

    def changed(self, d: Demand, made: Definition) -> Message | None:
        """Return what may have changed the entry ``d.path[0]`` of the name ``d.node``, bound by ``made``, before it is
        read; None where nothing can have, or no entry is asked for."""
        if not d.path or not str(d.path[0]).startswith("["):
            return None
        function = d.module.function_of(d.node)
        flow = function.flow if function is not None else d.module.flow
        spoken = [made.name]
        if made.way is Way.ASSIGNED and isinstance(made.value, cst.Name) and not made.path:
            spoken.append(made.value.value)  # the same object under the name it came by
        for name in spoken:
            found = self._of_name(d.module, flow, name, d.path[0], d.node, set(), _DEEPEST)
            if found is not None:
                span = d.module.span(found)
                place = f"{d.module.file.member}:{span.line}"
                return say("may_change", name=made.name, place=place, code=operations.short(d.module.code(found)))
        return None

    def _of_name(
        self, module: Module, flow: Flow, name: str, key: Key, before: cst.CSTNode | None, seen: set[str], depth: int
    ) -> cst.CSTNode | None:
        """Return the first expression in ``flow`` that may change the dictionary ``name``, up to ``before``."""
        seen.add(name)
        for node in _reads(module, flow, name):
            if before is not None and (node is before or not _runs_before(module, node, before)):
                continue
            parent = module.parents.get(node)
            if isinstance(parent, cst.Attribute) and parent.value is node:
                if _method_changes(module, parent, key):
                    return module.parents[parent]
            elif isinstance(parent, cst.Arg) and not parent.star:
                call = module.parents.get(parent)
                if isinstance(call, cst.Call) and parent in call.args and self._hands(module, call, parent, key, depth):
                    return call
            elif isinstance(parent, cst.Subscript) and _deleted(module, parent, key):
                return parent
            for alias in _aliases(module, node):
                if alias not in seen:
                    found = self._alias(module, flow, alias, key, before, seen, depth)
                    if found is not None:
                        return found
        return None

    def _alias(
        self, module: Module, flow: Flow, name: str, key: Key, before: cst.CSTNode | None, seen: set[str], depth: int
    ) -> cst.CSTNode | None:
        for made in flow.bound.get(name, ()):
            entry = made.way is Way.UPDATED and (made.key in (key, "*") or made.key is None)
            if entry and (before is None or _runs_before(module, made.node, before)):
                return made.node
        return self._of_name(module, flow, name, key, before, seen, depth)

    def _hands(self, module: Module, call: cst.Call, arg: cst.Arg, key: Key, depth: int) -> bool:
        """Whether a call that is given the dictionary may change its entry ``key``."""
        if operations.dotted(call.func) in _READ_ONLY:
            return False
        callees, unknown = self._slicer.calls.callees(Demand(module, call))
        if unknown is not None or not callees or depth == 0:
            return True
        for callee in callees:
            function = callee.function
            if callee.cls is not None:
                line = self._slicer.program.bases(callee.cls)
                function = next((each.methods["__init__"] for each in line if "__init__" in each.methods), None)
            if function is not None and self._in_callee(function, call, arg, callee.bound, key, depth):
                return True
        return False

    def _in_callee(self, function: Function, call: cst.Call, arg: cst.Arg, bound: bool, key: Key, depth: int) -> bool:
        for param in function.parameters:
            name = param.name.value
            if not any(filled.node is arg.value for filled in fill(function, name, call.args, bound, ())):
                continue
            for made in function.flow.bound.get(name, ()):
                if made.way is Way.UPDATED and (made.key in (key, "*") or made.key is None):
                    return True
            if self._of_name(function.module, function.flow, name, key, None, set(), depth - 1) is not None:
                return True
        return False


def _reads(module: Module, flow: Flow, name: str) -> Iterator[cst.Name]:
    """Yield where a flow, and the functions nested in it, read a name."""
    yield from (node for node in flow.reaching if node.value == name)
    for inner in flow.inner:
        function = module.functions.get(inner) if isinstance(inner, cst.FunctionDef) else None
        if function is not None and name not in function.flow.bound:
            yield from _reads(module, function.flow, name)


def _runs_before(module: Module, node: cst.CSTNode, read: cst.CSTNode) -> bool:
    """Whether ``node`` may run before ``read``: it stands before it, or a loop goes round both."""
    here, there = module.span(node), module.span(read)
    if (here.line, here.column) < (there.line, there.column):
        return True
    around = set(_loops(module, node))
    return any(loop in around for loop in _loops(module, read))


def _loops(module: Module, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    at: cst.CSTNode | None = node
    while at is not None:
        if isinstance(at, (cst.For, cst.While)):
            yield at
        at = module.parents.get(at)


def _method_changes(module: Module, attribute: cst.Attribute, key: Key) -> bool:
    """Whether ``d.method(…)`` may change the entry ``key``; update and setdefault as statements are told elsewhere."""
    call = module.parents.get(attribute)
    if not isinstance(call, cst.Call) or call.func is not attribute:
        return False
    name = attribute.attr.value
    if name in _LOOKS:
        return False
    if name in ("update", "setdefault"):
        return not isinstance(module.parents.get(call), cst.Expr)
    if name == "pop" and call.args:
        popped = literal_key(call.args[0].value)
        return popped is None or popped == key
    return name in ("clear", "popitem", "pop", "__setitem__", "__delitem__")


def _deleted(module: Module, entry: cst.Subscript, key: Key) -> bool:
    """Whether ``entry`` is deleted, and may be the one asked for."""
    if not isinstance(module.parents.get(entry), cst.Del):
        return False
    index = entry.slice[0].slice
    found = literal_key(index.value) if isinstance(index, cst.Index) else None
    return found is None or found == key


def _aliases(module: Module, node: cst.CSTNode) -> Iterator[str]:
    """Yield the names that the very object that ``node`` reads is bound to."""
    at = node
    parent = module.parents.get(at)
    while isinstance(parent, (cst.BooleanOperation, cst.IfExp)):
        at, parent = parent, module.parents.get(parent)
    if isinstance(parent, cst.Assign) and parent.value is at:
        yield from (each.target.value for each in parent.targets if isinstance(each.target, cst.Name))
    bound = parent.target if isinstance(parent, (cst.AnnAssign, cst.NamedExpr)) and parent.value is at else None
    if isinstance(bound, cst.Name):
        yield bound.value
