"""Where the result of a call comes from: what the function returns, an object's making, or the call's own arguments.

Must not know: which function a call runs.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import libcst as cst

from tracer.lineage import operations
from tracer.lineage.calls import Callee
from tracer.lineage.demand import ASSUMED, Demand, Edge, End, EndKind, Frame, Kind, Source, because, part, say
from tracer.lineage.flow import literal_key
from tracer.lineage.parts import Builtin, Imported

if TYPE_CHECKING:
    from tracer.lineage.slicer import Slicer

_DEEPEST = 8  # calls inside calls; deeper than any program looked at, and recursion has to end
_CASTS = {"float", "int", "bool", "str"}
_COPIES = {"tuple", "list", "copy.copy", "copy.deepcopy", "typing.cast", "contextlib.nullcontext"}


class Results:
    """Results of the calls of one program."""

    def __init__(self, slicer: "Slicer") -> None:
        self._slicer = slicer

    def sources(self, d: Demand, node: cst.Call, data: bool) -> Iterable[Source]:
        """Return where the result of the call ``node``, which is ``d``'s, comes from."""
        special = self._special(d, node)
        if special is not None:
            return special
        if data and operations.is_tensor_method(node) and not self._names_a_module(d, node):
            return [Edge(part(d, operations.receiver(node)), Kind.INNER)]
        found: list[Source] = []
        callees, unknown = self._slicer.calls.callees(d)
        for callee in callees:
            found += self._into(d, callee)
        if unknown is not None:
            found += self._unknown(d, node, unknown) if data else [End(EndKind.UNKNOWN, d, why=unknown.why)]
        return found

    def _special(self, d: Demand, node: cst.Call) -> list[Source] | None:
        args = [arg.value for arg in node.args if not arg.star and arg.keyword is None]
        name = self._library_name(d, node.func)
        if name == "functools.partial":
            return [End(EndKind.PARTIAL, d)]
        if name in _CASTS and args:
            return [Edge(part(d, args[0]), Kind.INNER)]
        if name in _COPIES and args:
            return [Edge(part(d, args[-1], d.path), Kind.INNER)]
        if name == "getattr" and len(args) >= 2:
            key = literal_key(args[1])
            edges: list[Source] = [Edge(part(d, args[0], (f".{str(key)[1:-1]}", *d.path)), Kind.INNER)] if key else []
            return [*edges, *(Edge(part(d, each, d.path), Kind.DEFAULT, cost=6) for each in args[2:])]
        if name == "dict" and d.path:
            return [*self._entry(d, ())]
        if isinstance(node.func, cst.Attribute) and node.func.attr.value == "copy" and _is_entry(d) and not node.args:
            return [Edge(part(d, node.func.value, d.path), Kind.INNER)]
        if isinstance(node.func, cst.Attribute) and node.func.attr.value in ("get", "pop") and args:
            key = literal_key(args[0])
            if isinstance(key, str):
                edges = [Edge(part(d, node.func.value, (key, *d.path)), Kind.INNER)]
                return [*edges, *(Edge(part(d, each, d.path), Kind.DEFAULT, cost=6) for each in args[1:])]
        return None

    @staticmethod
    def _entry(d: Demand, partials: tuple[Demand, ...]) -> Iterator[Edge]:
        """Yield what ``dict(…)`` puts under the key that is asked for; ``functools.partial`` may have given it."""
        rank = 100
        for at in (d, *partials):
            for arg in reversed(operations.arguments(at.node)[1 if at in partials else 0 :]):
                rank -= 1
                if arg.keyword is not None and f"[{arg.keyword.value}]" == d.path[0]:
                    to = Demand(at.module, arg.value, d.path[1:], at.frames)
                    yield Edge(to, Kind.ENTRY, f"{arg.keyword.value}=", rank=rank)
                    return
                if arg.keyword is None and arg.star != "*":
                    yield Edge(Demand(at.module, arg.value, d.path, at.frames), Kind.OPENED, "**", rank=rank)

    def _library_name(self, d: Demand, func: cst.BaseExpression) -> str:
        """Return the full name of a function outside the program that a callee names, or ""."""
        root: cst.CSTNode = func
        while isinstance(root, cst.Attribute):
            root = root.value
        if not isinstance(root, cst.Name):
            return ""
        for meaning in d.module.meanings(root):
            if isinstance(meaning, (Imported, Builtin)):
                rest = operations.dotted(func).partition(".")[2]
                return f"{meaning.name}.{rest}" if rest else meaning.name
        return ""

    def _names_a_module(self, d: Demand, node: cst.Call) -> bool:
        return isinstance(node.func, cst.Attribute) and bool(self._library_name(d, node.func.value))

    def _into(self, d: Demand, callee: Callee) -> Iterator[Source]:
        if callee.cls is not None:
            if d.path:
                for source in self._slicer.attributes.sources(callee.cls, d, exact=True):
                    yield because(source, callee.why)
            else:
                yield End(EndKind.INSTANCE, d, cls=callee.cls, why=callee.why)
            return
        function = callee.function
        if callee.builtin == "dict" and d.path:
            yield from (because(edge, callee.why) for edge in self._entry(d, callee.partials))
        if function is None:
            return
        if len(d.frames) >= _DEEPEST or any(frame.function is function for frame in d.frames):
            yield End(EndKind.UNKNOWN, d, why=say("recursion", scope=function.scope))
            return
        here = Demand(d.module, d.node, (), d.frames)
        frame = Frame(function, here, callee.partials, callee.bound, operations.on_self(d.node, function.name))
        for value, tests in function.flow.returns:
            cost = 1 + (ASSUMED if callee.why is not None else 0)
            to = Demand(function.module, value, d.path, (*d.frames, frame))
            yield Edge(to, Kind.RETURNED, function.name, callee.why, tests, cost)
        if not function.flow.returns:
            yield End(EndKind.LITERAL, d)

    def _unknown(self, d: Demand, node: cst.Call, unknown: End) -> Iterator[Source]:
        """The tensors that go into a call whose function is not among the files read."""
        target = self._slicer.naming.targets.get((node, d.path)) if d.path else None
        parts = [(arg.value, arg.keyword.value if arg.keyword else None) for arg in node.args if not arg.star]
        parts = [(value, keyword) for value, keyword in parts if not operations.is_literal(value)]
        several = bool(d.path) and len(parts) > 1
        for index, (value, keyword) in enumerate(parts):
            same = target is not None and target in (keyword, operations.dotted(value))
            why, cost = None, 2 + 3 * index  # the first argument of a library's function is the tensor it works on
            if several:
                name = "same_name" if same else "some_argument"
                why = say(name, call=operations.short(d.module.code(node.func)), name=target or "")
                cost = 2 + ASSUMED // 2 if same else 2 + 2 * ASSUMED
            yield Edge(part(d, value), Kind.CALL, why=why, cost=cost)
        method = isinstance(node.func, cst.Attribute) and not self._names_a_module(d, node)
        if method and not operations.on_self(node):
            yield Edge(part(d, operations.receiver(node)), Kind.CALL, why=unknown.why, cost=2 + ASSUMED)


def _is_entry(d: Demand) -> bool:
    return bool(d.path) and str(d.path[0]).startswith("[")
