"""Where an attribute of an object comes from: a method, an assignment in a method, a field of a dataclass.

Must not know: which object it is, beyond its class.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from tracer.lineage import operations
from tracer.lineage.demand import Demand, Edge, End, EndKind, Kind, Source, say
from tracer.lineage.flow import Key
from tracer.lineage.program import Class, Function

if TYPE_CHECKING:
    from tracer.lineage.slicer import Slicer


class Attributes:
    """Attributes of the classes of one program."""

    def __init__(self, slicer: "Slicer") -> None:
        self._slicer = slicer

    def sources(self, cls: Class, d: Demand, declared: bool, callers: bool = True) -> Iterator[Source]:
        """Yield where ``d.path[0]`` of an object of ``cls`` comes from: a method, an assignment, a dataclass field.

        ``declared``: the class is known by annotation only, so that an object of a subclass may stand there.
        """
        name, rest = str(d.path[0])[1:], d.path[1:]
        line = self._slicer.program.bases(cls)
        below = self._slicer.program.subclasses(cls) if declared else ()
        methods = [each.methods[name] for each in line if name in each.methods][:1]
        methods += [each.methods[name] for each in below if name in each.methods]
        if methods:
            yield from self._methods(d, methods, rest, declared)
            return
        if name == "apply" and not rest and "torch.autograd.Function" in self._slicer.program.base_names(cls):
            forward = [each.methods["forward"] for each in line if "forward" in each.methods]
            yield from (End(EndKind.FUNCTION, d, function=each, bound=True) for each in forward[:1])
            return
        found = [edge for each in (*line, *below) for edge in self._set_in(each, name, rest)]
        yield from found
        if found:
            return
        fields = [(each, made) for each in line for made in each.body.bound.get(name, ())]
        for owner, made in fields[:1]:
            if owner.is_dataclass and callers:
                yield from self._slicer.calls.field_sources(cls, owner, name, rest)
            elif made.value is not None:
                yield Edge(Demand(owner.module, made.value, rest), Kind.ATTRIBUTE, f"{owner.name}.{name}")
        if not fields:
            yield End(EndKind.UNKNOWN, d, why=say("attribute_unset", name=name, cls=cls.name))

    def _methods(self, d: Demand, methods: list[Function], rest: tuple[Key, ...], declared: bool) -> Iterator[Source]:
        real = [each for each in methods if not operations.is_abstract(each.node)] or methods
        for method in real:
            why = None
            if declared and (len(methods) > 1 or method is not methods[0]):
                why = say("dispatch", method=method.name, cls=method.owner.name if method.owner else "")
            if method.decorators & {"property", "cached_property", "functools.cached_property"}:
                for value, tests in method.flow.returns:
                    yield Edge(Demand(method.module, value, rest), Kind.RETURNED, method.name, why, tests)
            elif not rest:
                bound = "staticmethod" not in method.decorators
                yield End(EndKind.FUNCTION, d, function=method, bound=bound, why=why)

    @staticmethod
    def _set_in(cls: Class, name: str, rest: tuple[Key, ...]) -> Iterator[Edge]:
        for method in cls.methods.values():
            receiver = method.receiver
            if receiver is None:
                continue
            for each in method.flow.attributes:
                own = isinstance(each.target.value, cst.Name) and each.target.value.value == receiver.name.value
                if own and each.target.attr.value == name:
                    to = Demand(cls.module, each.value, (*each.path, *rest))
                    yield Edge(to, Kind.ATTRIBUTE, f"self.{name}", tests=each.tests)
