"""Which function a call runs, and from where a function is called. What is decided at run time is marked as assumed.

Must not know: what values mean.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from tracer.lineage import binding, operations
from tracer.lineage.demand import Demand, Edge, End, EndKind, Kind, say
from tracer.lineage.flow import Key
from tracer.lineage.parts import Class, Function
from tracer.texts import Message

if TYPE_CHECKING:
    from tracer.lineage.slicer import Slicer

_LIKE_ENOUGH = 0.5  # the share of arguments that bear their parameter's name, for a call that may be the one


@dataclass(frozen=True)
class Callee:
    """What a call may run: a function, the making of an object of ``cls``, or a ``builtin`` function."""

    function: Function | None
    cls: Class | None = None
    bound: bool = False
    partials: tuple[Demand, ...] = ()
    builtin: str = ""
    why: Message | None = field(default=None, compare=False)


@dataclass(frozen=True)
class CallSite:
    """A call of a function, seen from the function."""

    call: Demand
    bound: bool
    partials: tuple[Demand, ...]
    why: Message | None = field(compare=False)


class Calls:
    """The calls of one program."""

    def __init__(self, slicer: "Slicer", within: frozenset[str] = frozenset()) -> None:
        self._slicer = slicer
        self._within = within
        self._callees: dict[Demand, tuple[tuple[Callee, ...], End | None]] = {}
        self._sites: dict[Function, tuple[CallSite, ...]] = {}

    def callees(self, call: Demand) -> tuple[tuple[Callee, ...], End | None]:
        """Return what ``call`` may run, and, where that is not all, the end at which the files read say no more."""
        key = replace(call, path=())
        if key not in self._callees:
            self._callees[key] = ((), End(EndKind.UNKNOWN, key, why=say("recursion", scope=call.module.name)))
            self._callees[key] = self._resolve(key)
        return self._callees[key]

    def _resolve(self, call: Demand) -> tuple[tuple[Callee, ...], End | None]:
        func = call.node.func if isinstance(call.node, cst.Call) else call.node
        return self._objects(replace(call, node=func), 0)

    def _objects(self, asked: Demand, depth: int) -> tuple[tuple[Callee, ...], End | None]:
        found: list[Callee] = []
        unknown: End | None = None
        for end, why in self._slicer.ends(asked, callers=False):
            reason = why or end.why
            if end.kind is EndKind.FUNCTION and end.function is not None:
                reason = reason or self._slicer.decorators.doubt(end.function)
                found.append(Callee(end.function, bound=end.bound, why=reason))
            elif end.kind is EndKind.CLASS and end.cls is not None:
                found += self._made(end.cls, reason)
            elif end.kind is EndKind.INSTANCE and end.cls is not None:
                found += self._called(end.cls, reason)
            elif end.kind is EndKind.PARTIAL and depth < 4:
                inner, open_end = self._partial(end.at, depth)
                found += [replace(each, why=each.why or why) for each in inner]
                unknown = unknown or open_end
            elif end.kind is EndKind.EXTERNAL and operations.dotted(end.at.node) == "dict" and end.why is None:
                found.append(Callee(None, builtin="dict", why=why))
            elif end.kind is EndKind.LITERAL:
                continue  # None cannot be called
            else:
                unknown = end if end.why is not None else replace(end, why=say("unknown_callee", code=self._code(end)))
        return tuple(dict.fromkeys(found)), unknown

    def _partial(self, at: Demand, depth: int) -> tuple[list[Callee], End | None]:
        first = operations.arguments(at.node)[0].value
        inner, unknown = self._objects(replace(at, node=first, path=()), depth + 1)
        return [replace(each, partials=(at, *each.partials)) for each in inner], unknown

    def _made(self, cls: Class, why: Message | None) -> Iterator[Callee]:
        for each in self._slicer.program.bases(cls):
            if "__init__" in each.methods:
                yield Callee(None, cls, True, why=why or self._slicer.decorators.doubt(each.methods["__init__"]))
                return
        yield Callee(None, cls, why=why)

    def _called(self, cls: Class, why: Message | None) -> Iterator[Callee]:
        for name in ("__call__", "forward"):  # torch.nn.Module.__call__ runs forward
            for each in self._slicer.program.bases(cls):
                if name in each.methods:
                    method = each.methods[name]
                    yield Callee(method, bound=True, why=why or self._slicer.decorators.doubt(method))
                    return

    @staticmethod
    def _code(end: End) -> str:
        return operations.short(end.at.module.code(end.at.node))

    # ------------------------------------------------------------------------------------- seen from the function

    def sites(self, function: Function) -> tuple[CallSite, ...]:
        """Return the calls of ``function``; where none is proven, those through a variable whose arguments fit it."""
        if function not in self._sites:
            known = tuple(self._index.get(function, ()))
            self._sites[function] = known or tuple(self._likely(function))
        return self._sites[function]

    def makers(self, cls: Class) -> tuple[CallSite, ...]:
        """Return the calls that make an object of ``cls``."""
        return tuple(self._makers.get(cls, ()))

    def field_sources(self, cls: Class, owner: Class, name: str, rest: tuple[Key, ...]) -> Iterator[Edge | End]:
        """Yield what fills the field ``name`` of a dataclass: an argument of each call that makes one, its default."""
        names = [name for each in reversed(self._slicer.program.bases(cls)) for name in each.body.bound]
        (made, *_) = owner.body.bound[name]
        sites = self.makers(cls)
        copies = [site for site in sites if self._inside(site.call) is cls]  # an object made of another one like it
        left_out = len(copies) == len(sites)
        for site in sites:
            args = operations.arguments(site.call.node)
            positional = [arg for arg in args if arg.keyword is None and not arg.star]
            given = [arg for arg in args if arg.keyword is not None and arg.keyword.value == name]
            given += [arg for n, arg in zip(names, positional, strict=False) if n == name]
            for arg in given[:1]:
                to = Demand(site.call.module, arg.value, rest, site.call.frames)
                yield Edge(to, Kind.ARGUMENT, f"{name}=", site.why)
            left_out = left_out or not given
        if made.value is not None and left_out:
            elsewhere = len(copies) == len(sites)
            why = say("made_elsewhere", cls=cls.name, name=name) if elsewhere else None
            yield Edge(Demand(owner.module, made.value, rest), Kind.DEFAULT, f"{owner.name}.{name}", why, cost=4)
        elif not sites:
            at = Demand(owner.module, made.node)
            yield End(EndKind.INPUT, at, why=say("made_elsewhere", cls=cls.name, name=name))

    @staticmethod
    def _inside(call: Demand) -> Class | None:
        function = call.module.function_of(call.node)
        while function is not None and function.owner is None and function.parent is not None:
            function = function.parent
        return function.owner if function is not None else None

    def _every(self) -> Iterator[Demand]:
        for module in self._slicer.program.modules.values():
            for flow, function in module.every_flow():
                if self._within and function is not None and function.scope.split(".")[0] not in self._within:
                    continue
                for call in flow.calls:
                    yield Demand(module, call)

    @cached_property
    def _index(self) -> dict[Function, list[CallSite]]:
        index: dict[Function, list[CallSite]] = {}
        for call in self._every():
            for callee in self.callees(call)[0]:
                function = callee.function
                if callee.cls is not None:
                    line = self._slicer.program.bases(callee.cls)
                    function = next((each.methods["__init__"] for each in line if "__init__" in each.methods), None)
                if function is not None:
                    site = CallSite(call, callee.bound, callee.partials, callee.why)
                    index.setdefault(function, []).append(site)
        return index

    @cached_property
    def _makers(self) -> dict[Class, list[CallSite]]:
        makers: dict[Class, list[CallSite]] = {}
        for call in self._every():
            for callee in self.callees(call)[0]:
                if callee.cls is not None:
                    makers.setdefault(callee.cls, []).append(CallSite(call, False, callee.partials, callee.why))
        return makers

    def _likely(self, function: Function) -> Iterator[CallSite]:
        bound = function.receiver is not None
        for call in self._every():
            unknown = self.callees(call)[1]
            if unknown is None or not isinstance(call.node, cst.Call):
                continue
            named = unknown.kind is EndKind.EXTERNAL and isinstance(unknown.at.node, cst.Name) and not unknown.at.path
            if named or not _may_mean(call.node, function):
                continue
            args = operations.arguments(call.node)
            if binding.accepts(function, args, bound) and binding.likeness(function, args, bound) >= _LIKE_ENOUGH:
                code = operations.short(call.module.code(call.node.func))
                why = say("looked_up", call=code, function=function.scope, found=self._code(unknown))
                yield CallSite(call, bound, (), why)


def _may_mean(call: cst.Call, function: Function) -> bool:
    """Whether a callee's last name allows ``function``: a variable can hold any, a method is named alike."""
    if isinstance(call.func, cst.Name):
        return True
    return isinstance(call.func, cst.Attribute) and function.name.startswith(call.func.attr.value)
