"""What a name stands for where it is read: assignments that reach it, parameters, other files' names.

Must not know: how calls and attributes are resolved.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from tracer.lineage import operations
from tracer.lineage.demand import (
    ASSUMED,
    Demand,
    Edge,
    End,
    EndKind,
    Kind,
    Source,
    Unless,
    as_declared,
    because,
    further,
    part,
    say,
)
from tracer.lineage.flow import ANY, Definition, Key, Test, Way
from tracer.lineage.module import Module
from tracer.lineage.parts import Builtin, Class, Function, Imported, Meaning

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
        merged = any(isinstance(each, Definition) and each.way is Way.UPDATED and each.key is None for each in held)
        for rank, meaning in zip(range(len(held), 0, -1), held, strict=True):
            yield from self._patched(meaning)
            if isinstance(meaning, Definition):
                made = list(self._definition(d, meaning, data, here))
                if refilled:
                    made = [_where_none(each, _fills_none(meaning), d) for each in made]
                if merged:
                    made = [_ranked(each, rank) for each in made]
                yield from made
                certain = meaning.key not in (None, ANY) or (isinstance(meaning.node, cst.AugAssign) and not d.path)
                if meaning.way is Way.UPDATED and certain and made and not further(meaning.tests, here):
                    return  # set after everything before it, whatever came before
            elif isinstance(meaning, Imported):
                yield from self._imported(d, meaning.name, data, callers)
            elif isinstance(meaning, Builtin):
                yield End(EndKind.EXTERNAL, d)
            elif isinstance(meaning, Class) and d.path:
                yield from self._slicer.attributes.sources(meaning, d, callers=callers, exact=True)
            elif isinstance(meaning, Class):
                yield End(EndKind.CLASS, d, cls=meaning)
            else:
                yield End(EndKind.FUNCTION, d, function=meaning)

    def _patched(self, meaning: Meaning) -> Iterator[Edge]:
        """Yield what other modules put in the place of a module's own function, class or value: ``module.name = …``."""
        if isinstance(meaning, (Function, Class)) and "." not in meaning.scope:
            yield from self._slicer.writes.of_module(meaning.module, meaning.name)

    def _held(self, d: Demand, meanings: Sequence[Meaning], here: tuple[Test, ...]) -> Sequence[Meaning]:
        """Return the meanings, last first, without those before one whose condition is known to hold."""
        meanings = [each for each in meanings if not (isinstance(each, Definition) and self._never(each, here))]
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

    def _never(self, made: Definition, here: tuple[Test, ...]) -> bool:
        """Whether a condition of a definition is known not to hold."""
        return any(operations.condition(test, not holds) in self._holds for test, holds in further(made.tests, here))

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
            why = self._slicer.escapes.changed(d, made)
            to = Demand(d.module, made.node, d.path, d.frames)
            yield Edge(to, Kind.PARAMETER, made.name, why, cost=1 if why is None else 1 + ASSUMED)
        elif made.way is Way.UPDATED and made.value is not None:
            if made.key is None and d.path:
                yield Edge(part(d, made.value, d.path), Kind.ENTRY, "**", tests=tests)
            elif made.key is None and isinstance(made.node, cst.AugAssign):
                yield Edge(Demand(d.module, made.node, (), d.frames), Kind.ASSIGNED, made.name, tests=tests)
            elif made.key == ANY and d.path and not str(d.path[0]).startswith("."):
                why = say("computed_key", code=operations.short(d.module.code(made.node)))
                to = part(d, made.value, (*made.path, *d.path[1:]))
                yield Edge(to, Kind.ENTRY, made.name, why, tests, cost=2 * ASSUMED)
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
            if data and made.path:
                self.targets[made.value, made.path] = made.name
            why = self._slicer.escapes.changed(d, made)
            cost = 1 if why is None else 1 + ASSUMED
            to = part(d, made.value, (*made.path, *d.path))
            yield Edge(to, Kind.ASSIGNED, made.name, why, tests, cost)
            yield from self._declared(d, made)
        elif made.way is Way.OPAQUE:
            yield End(EndKind.UNKNOWN, d, why=say("opaque_binding", name=made.name))

    def _declared(self, d: Demand, made: Definition) -> Iterator[Source]:
        """Yield what the class that a name is declared as says, where its value may not: ``x: T = …``."""
        declared = self._slicer.program.class_of(d.module, made.annotation) if made.annotation is not None else None
        if declared is not None and d.path:
            why = say("declared", name=made.name, cls=declared.name)
            for source in self._slicer.attributes.sources(declared, d, declared=True):
                yield as_declared(source, why, 2 * ASSUMED)

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


def _where_none(source: Source, fills: bool, d: Demand) -> Source:
    if isinstance(source, End):
        return source
    if fills:
        return replace(source, tests=source.tests[:-1], cost=source.cost + 15, fills=True)
    return source if d.path else replace(source, unless=Unless.NONE)


def _ranked(source: Source, rank: int) -> Source:
    return source if isinstance(source, End) else replace(source, rank=rank)
