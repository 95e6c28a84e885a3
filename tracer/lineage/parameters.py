"""Where a parameter's value comes from: the call that is being looked into, every call of the function, the default.

Must not know: how calls are found.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from tracer.lineage import binding, operations
from tracer.lineage.demand import ASSUMED, DECLARED, Demand, Edge, End, EndKind, Frame, Kind, Source, as_declared, say
from tracer.lineage.parts import Function
from tracer.texts import Message

if TYPE_CHECKING:
    from tracer.lineage.slicer import Slicer


class Parameters:
    """Parameters of one program."""

    def __init__(self, slicer: "Slicer") -> None:
        self._slicer = slicer
        modules = slicer.program.modules.values()
        functions = [function for module in modules for function in module.functions.values()]
        self._owners: dict[cst.CSTNode, Function] = {
            param: function for function in functions for param in function.parameters
        }

    def owner(self, param: cst.CSTNode) -> Function:
        """Return the function that ``param`` is a parameter of."""
        return self._owners[param]

    def sources(self, d: Demand, callers: bool) -> list[Source]:
        """Return what fills the parameter that ``d`` asks for. Without ``callers`` it is an input, whoever calls."""
        param = d.node
        function = self.owner(param)
        depth = next((i for i in reversed(range(len(d.frames))) if d.frames[i].function is function), None)
        if param is function.receiver and function.owner is not None:
            if d.path:
                return list(self._slicer.attributes.sources(function.owner, d, callers=callers))
            return [End(EndKind.INSTANCE, d, cls=function.owner, declared=True)]
        if depth is not None:
            return self._filled(d, function, d.frames[depth], d.frames[:depth])
        called = callers and bool(self._slicer.calls.sites(function))
        declared = list(self._declared(d, param, callers, ASSUMED + DECLARED if called else DECLARED))
        if not callers:
            return declared or [End(EndKind.INPUT, d, why=say("no_caller", scope=function.scope))]
        if declared and not called:
            return declared  # nobody calls it: all there is to go by
        return [*self._from_callers(d, function), *declared]

    def _declared(self, d: Demand, param: cst.CSTNode, callers: bool, cost: int) -> Iterator[Source]:
        """Yield what the class that a parameter is declared as says; whether such an object comes is assumed."""
        annotated = param.annotation.annotation if isinstance(param, cst.Param) and param.annotation else None
        declared = self._slicer.program.class_of(d.module, annotated) if annotated is not None else None
        if declared is None or not isinstance(param, cst.Param):
            return
        why = say("declared", name=param.name.value, cls=declared.name)
        if d.path:
            for source in self._slicer.attributes.sources(declared, d, declared=True, callers=callers):
                yield as_declared(source, why, cost)
        else:
            kind = EndKind.CLASS if operations.is_class_annotation(annotated) else EndKind.INSTANCE
            yield End(kind, d, cls=declared, declared=True, why=why)

    def _filled(self, d: Demand, function: Function, frame: Frame, below: tuple[Frame, ...]) -> list[Source]:
        found = self._arguments(d, function, frame.call, frame.partials, frame.bound, below)
        if not found or all(edge.kind is Kind.OPENED for edge in found):
            return [*found, *self._default(d, function)]
        return [*found]

    def _arguments(
        self,
        d: Demand,
        function: Function,
        call: Demand,
        partials: tuple[Demand, ...],
        bound: bool,
        below: tuple[Frame, ...],
        why: Message | None = None,
    ) -> list[Edge]:
        """Return what a call gives a parameter, or the functools.partial calls that its function went through do."""
        origin: dict[int, Demand] = {}
        before: list[cst.Arg] = []
        after: list[cst.Arg] = []
        for at in (call, *partials):
            args = operations.arguments(at.node)[0 if at is call else 1 :]
            origin |= {id(arg.value): at for arg in args}
            positional = [arg for arg in args if arg.keyword is None and arg.star != "**"]
            before = [*positional, *before]
            after += [arg for arg in args if arg not in positional]
        name = d.node.name.value if isinstance(d.node, cst.Param) else ""
        edges = []
        for filled in binding.fill(function, name, [*before, *after], bound, d.path):
            at = origin[id(filled.node)]
            kind = Kind.OPENED if filled.opened else Kind.ARGUMENT
            frames = below if at is call else at.frames
            cost = (1 + ASSUMED if why is not None else 1) + (3 if filled.opened else 0)
            edges.append(Edge(Demand(at.module, filled.node, filled.path, frames), kind, filled.binds, why, cost=cost))
        return edges

    def _from_callers(self, d: Demand, function: Function) -> list[Source]:
        sites = self._slicer.calls.sites(function)
        found: list[Source] = []
        left_out = not sites
        for site in sites:
            edges = self._arguments(d, function, site.call, site.partials, site.bound, (), site.why)
            found += edges
            left_out = left_out or not edges or all(edge.kind is Kind.OPENED for edge in edges)
        if left_out:
            found += self._default(d, function, None if sites else say("no_caller", scope=function.scope))
        return found

    def _default(self, d: Demand, function: Function, why: Message | None = None) -> list[Source]:
        param = d.node
        if isinstance(param, cst.Param) and param.default is not None:
            cost = 4 + (ASSUMED if why is not None else 0)
            return [Edge(Demand(d.module, param.default, d.path), Kind.DEFAULT, param.name.value, why, cost=cost)]
        if isinstance(param, cst.Param) and param.star:
            return []  # nothing was given under that name
        return [End(EndKind.INPUT, d, why=why or say("not_given", scope=function.scope))]
