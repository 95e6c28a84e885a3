"""What a name stands for where it is read: assignments that reach it, parameters, other files' names.

Must not know: how calls and attributes are resolved.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from tracer.lineage import operations
from tracer.lineage.demand import Demand, Edge, End, EndKind, Kind, Source, because, further, part, say
from tracer.lineage.flow import Definition, Key, Test, Way
from tracer.lineage.program import Builtin, Class, Imported, Meaning, Module

if TYPE_CHECKING:
    from tracer.lineage.slicer import Slicer


class Naming:
    """Names of one program."""

    def __init__(self, slicer: "Slicer", holds: frozenset[str]) -> None:
        self._slicer = slicer
        self._holds = holds
        self.targets: dict[tuple[cst.CSTNode, tuple[Key, ...]], str] = {}  # what a call's results are unpacked into

    def sources(self, d: Demand, node: cst.Name, data: bool, callers: bool) -> list[Source]:
        """Return where the name ``node``, which is ``d``'s, gets its value."""
        if node.value in ("None", "True", "False"):
            return [] if d.path else [End(EndKind.LITERAL, d)]
        meanings = d.module.meanings(node)
        if not meanings:
            return [End(EndKind.UNKNOWN, d, why=say("unbound", code=node.value))]
        return list(self._meanings(d, meanings, data, callers, self._tests(d.module, node)))

    def _meanings(
        self, d: Demand, meanings: Sequence[Meaning], data: bool, callers: bool, here: tuple[Test, ...]
    ) -> Iterator[Source]:
        held = self._held(d, meanings, here)
        refilled = any(_fills_none(each) for each in held)
        for meaning in held:
            if isinstance(meaning, Definition):
                made = list(self._definition(d, meaning, data, here))
                if refilled:
                    made = [_where_none(each, _fills_none(meaning)) for each in made]
                yield from made
                settled = meaning.way is Way.UPDATED and made and not further(meaning.tests, here)
                if settled:
                    return  # set after everything before it, whatever came before
            elif isinstance(meaning, Imported):
                yield from self._imported(d, meaning.name, data, callers)
            elif isinstance(meaning, Builtin):
                yield End(EndKind.EXTERNAL, d)
            elif isinstance(meaning, Class) and d.path:
                yield from self._slicer.attributes.sources(meaning, d, declared=False, callers=callers)
            elif isinstance(meaning, Class):
                yield End(EndKind.CLASS, d, cls=meaning)
            else:
                yield End(EndKind.FUNCTION, d, function=meaning)

    def _held(self, d: Demand, meanings: Sequence[Meaning], here: tuple[Test, ...]) -> Sequence[Meaning]:
        """Return the meanings, last first, without those before one whose condition is known to hold."""
        made = [each for each in meanings if isinstance(each, Definition)]
        held = [each for each in made if self._all_hold(each.name, further(each.tests, here))]
        if not held:
            return meanings[::-1]
        order = {id(each): index for index, each in enumerate(made)}
        read = d.module.function_of(d.node)
        bound = read.flow.bound.get(made[0].name, []) if read is not None else []
        order |= {id(each): index for index, each in enumerate(bound)}
        last = max(order[id(each)] for each in held)
        return [each for each in reversed(meanings) if order.get(id(each), last) >= last]

    def _all_hold(self, name: str, tests: tuple[Test, ...]) -> bool:
        """Whether conditions are known to hold, ``name is not None`` among them: a value that is followed is there."""
        there = f"{name} is not None"
        return bool(tests) and all(
            code == there or code in self._holds
            for test, holds in tests
            for code in [operations.condition(test, holds)]
        )

    def _definition(self, d: Demand, made: Definition, data: bool, here: tuple[Test, ...]) -> Iterator[Source]:
        tests = further(made.tests, here)
        if made.way is Way.PARAMETER:
            yield Edge(Demand(d.module, made.node, d.path, d.frames), Kind.PARAMETER, made.name)
        elif made.way is Way.UPDATED and made.value is not None:
            if made.key is None and d.path:
                yield Edge(part(d, made.value, d.path), Kind.ENTRY, "**", tests=tests)
            elif d.path and d.path[0] == made.key:
                attribute = str(made.key).startswith(".")
                binds = f"{made.name}{made.key}" if attribute else f"'{str(made.key)[1:-1]}':"
                kind = Kind.ATTRIBUTE if attribute else Kind.ENTRY
                yield Edge(part(d, made.value, (*made.path, *d.path[1:])), kind, binds, tests=tests)
        elif made.way is Way.ELEMENT and made.value is not None:
            frames, path = d.frames, made.path
            if frames and frames[-1].element is not None:
                path = (frames[-1].element, *path[1:])
                frames = frames[:-1]
            yield Edge(Demand(d.module, made.value, (*path, *d.path), frames), Kind.INNER, tests=tests)
        elif made.way is Way.AUGMENTED:
            yield Edge(Demand(d.module, made.node, (), d.frames), Kind.ASSIGNED, made.name, tests=tests)
        elif made.way is Way.ASSIGNED and made.value is not None:
            declared = self._slicer.program.class_of(d.module, made.annotation) if made.annotation is not None else None
            if declared is not None and d.path:
                yield from self._slicer.attributes.sources(declared, d, declared=True)
                return
            if data and made.path:
                self.targets[made.value, made.path] = made.name
            yield Edge(part(d, made.value, (*made.path, *d.path)), Kind.ASSIGNED, made.name, tests=tests)
        elif made.way is Way.OPAQUE:
            yield End(EndKind.UNKNOWN, d, why=say("opaque_binding", name=made.name))

    def _imported(self, d: Demand, name: str, data: bool, callers: bool) -> Iterator[Source]:
        path = list(d.path)
        while path and isinstance(path[0], str) and path[0].startswith("."):
            name += str(path.pop(0))
        found = self._slicer.program.find(name) if "." in name else None
        if found is None:
            yield End(EndKind.EXTERNAL, d, why=say("outside", name=name))
            return
        meanings, module, rest, certain = found
        inside = Demand(module, d.node, (*(f".{each}" for each in rest.split(".") if each), *path))
        why = None if certain else say("handed_on", name=name, module=module.file.member)
        for source in self._meanings(inside, meanings, data, callers, ()):
            yield because(source, why)

    @staticmethod
    def _tests(module: Module, node: cst.CSTNode) -> tuple[Test, ...]:
        function = module.function_of(node)
        return (function.flow if function is not None else module.flow).tests.get(node, ())


def _fills_none(made: Meaning) -> bool:
    """Whether a definition gives a name a value only where it was None: ``if x is None: x = …``."""
    if not isinstance(made, Definition) or not made.tests:
        return False
    test, holds = made.tests[-1]
    code = operations.condition(test, True)
    return (holds and code == f"{made.name} is None") or (not holds and code == f"{made.name} is not None")


def _where_none(source: Source, fills: bool) -> Source:
    if isinstance(source, End):
        return source
    return replace(source, tests=source.tests[:-1]) if fills else replace(source, unless_none=True)
