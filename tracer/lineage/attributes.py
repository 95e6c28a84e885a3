"""Where an attribute of an object comes from: a method, an assignment in a method, a field of a dataclass.

Must not know: which object it is, beyond its class.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from tracer.lineage import operations
from tracer.lineage.demand import Demand, Edge, End, EndKind, Kind, Source, because, say
from tracer.lineage.flow import AttributeSet, Definition, Key
from tracer.lineage.parts import Class, Function

if TYPE_CHECKING:
    from tracer.lineage.slicer import Slicer


class Attributes:
    """Attributes of the classes of one program."""

    def __init__(self, slicer: "Slicer") -> None:
        self._slicer = slicer

    def sources(
        self, cls: Class, d: Demand, declared: bool = False, callers: bool = True, exact: bool = False
    ) -> Iterator[Source]:
        """Yield where ``d.path[0]`` of an object of ``cls`` comes from: a method, an assignment, a dataclass field.

        An object of a subclass may stand there (unless ``exact``), and other code may set the attribute: both are
        yielded with their reason. ``declared``: the class is known by annotation only.
        """
        name, rest = str(d.path[0])[1:], d.path[1:]
        line = self._slicer.program.bases(cls)
        below = () if exact else self._slicer.program.subclasses(cls)
        yield from self._slicer.writes.elsewhere(cls, (*line, *below), name, rest)
        methods = [each.methods[name] for each in line if name in each.methods][:1]
        over = [each.methods[name] for each in below if name in each.methods]
        if methods or (over and declared):
            yield from self._methods(d, methods, over, rest, declared)
            return
        if name == "apply" and not rest and "torch.autograd.Function" in self._slicer.program.base_names(cls):
            forward = [each.methods["forward"] for each in line if "forward" in each.methods]
            yield from (End(EndKind.FUNCTION, d, function=each, bound=True) for each in forward[:1])
            return
        found = [edge for each in line for edge in self._set_in(each, name, rest)]
        yield from found
        for each in below:
            yield from self._in_subclass(each, d, name, rest)
        if not found:
            yield from self._field(cls, line, d, callers)

    def _in_subclass(self, cls: Class, d: Demand, name: str, rest: tuple[Key, ...]) -> Iterator[Source]:
        """Yield what a subclass sets, which matters only to an object of it."""
        why = say("subclass", cls=cls.name, name=name)
        for edge in self._set_in(cls, name, rest):
            yield because(edge, why)
        for made in cls.body.bound.get(name, ())[-1:]:
            if made.value is not None:
                to = Demand(cls.module, made.value, rest)
                yield because(Edge(to, Kind.ATTRIBUTE, f"{cls.name}.{name}"), why)
        if name in cls.methods:
            yield from (because(each, why) for each in self._methods(d, [cls.methods[name]], [], rest, False))

    def _field(self, cls: Class, line: Sequence[Class], d: Demand, callers: bool) -> Iterator[Source]:
        name, rest = str(d.path[0])[1:], d.path[1:]
        fields = [(each, each.body.bound[name]) for each in line if each.body.bound.get(name)]
        for owner, bound in fields[:1]:
            if owner.is_dataclass and callers:
                yield from self._slicer.calls.field_sources(cls, owner, name, rest)
                continue
            for made in bound[_last_certain(bound) :]:
                if made.value is not None:
                    to = Demand(owner.module, made.value, rest)
                    yield Edge(to, Kind.ATTRIBUTE, f"{owner.name}.{name}", tests=made.tests)
        if not fields:
            yield End(EndKind.UNKNOWN, d, why=say("attribute_unset", name=name, cls=cls.name))

    def _methods(
        self, d: Demand, methods: list[Function], over: list[Function], rest: tuple[Key, ...], declared: bool
    ) -> Iterator[Source]:
        every = [*methods, *over]
        real = [each for each in every if not operations.is_abstract(each.node)] or every
        for method in real:
            why = None
            if method in over or (declared and len(every) > 1):
                why = say("dispatch", method=method.name, cls=method.owner.name if method.owner else "")
            if method.decorators & {"property", "cached_property", "functools.cached_property"}:
                why = why or self._slicer.decorators.doubt(method)
                for value, tests in method.flow.returns:
                    yield because(
                        Edge(Demand(method.module, value, rest), Kind.RETURNED, method.name, tests=tests), why
                    )
            elif not rest:
                bound = "staticmethod" not in method.decorators
                yield End(EndKind.FUNCTION, d, function=method, bound=bound, why=why)

    @staticmethod
    def _set_in(cls: Class, name: str, rest: tuple[Key, ...]) -> Iterator[Edge]:
        for method in cls.methods.values():
            receiver = method.receiver
            if receiver is None:
                continue
            own = [
                each
                for each in method.flow.attributes
                if isinstance(each.target.value, cst.Name)
                and (each.target.value.value, each.target.attr.value) == (receiver.name.value, name)
            ]
            for each in own[_last_certain(own) :]:
                to = Demand(cls.module, each.value, (*each.path, *rest))
                yield Edge(to, Kind.ATTRIBUTE, f"self.{name}", tests=each.tests)


def _last_certain(made: Sequence[Definition | AttributeSet]) -> int:
    """Return the index of the last that is set whatever happens: those before it are overwritten. Of ``x *= 2`` the
    value before it still counts."""
    certain = [
        index
        for index, each in enumerate(made)
        if not each.tests and not isinstance(each.value, cst.AugAssign) and each.value is not None
    ]
    return certain[-1] if certain else 0
