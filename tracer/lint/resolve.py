"""Follow a value back to where it is made: through names, attributes and constructors, arguments and defaults,
dictionaries that are opened into calls, functools.partial, returns, across files.

A value may have several origins; each is returned with its steps. Where the files do not say, the origin is an input
or unknown. Must not know: attention.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace

from tracer.lint.asking import asks_none, index_key, is_none, none_guard
from tracer.lint.attributes import Attributes, Entry
from tracer.lint.callers import Callers
from tracer.lint.entering import Entering
from tracer.lint.facts import ANY, At, Binding, Class, Module, Scope
from tracer.lint.parameters import Parameters
from tracer.lint.program import Program, parameters
from tracer.lint.values import Callee, Root, RootKind, Step, Value
from tracer.texts import Message, message

_DEEPEST = 60
_MOST_ROOTS = 64
_ONLY_READ = ("len", "print", "dict", "isinstance", "list", "sorted", "repr", "str", "bool")


class Resolver:
    """The origins of values in one program. Answers are kept."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.callers = Callers(self)
        self._known: dict[Value, tuple[Root, ...]] = {}
        self._active: set[Value] = set()
        self._cuts = 0
        self.attributes = Attributes(self)
        self._parameters = Parameters(self)
        self._entering = Entering(self)

    def roots(self, value: Value) -> tuple[Root, ...]:
        """Return every origin of ``value``; none where it is a dictionary entry that is not there."""
        if value in self._known:
            return self._known[value]
        if value in self._active:
            self._cuts += 1
            return ()
        if len(self._active) > _DEEPEST:
            self._cuts += 1
            return (Root(RootKind.UNKNOWN, value, why=message("lint.too_far")),)
        self._active.add(value)
        cuts = self._cuts
        try:
            found = tuple(dict.fromkeys(self._roots(value)))
        finally:
            self._active.discard(value)
        if len(found) > _MOST_ROOTS:
            found = (Root(RootKind.UNKNOWN, value, why=message("lint.too_many", count=len(found))),)
        if not self._active or cuts == self._cuts:  # an answer that a circle cut short is only right where it began
            self._known[value] = found
        return found

    def _roots(self, value: Value) -> Iterator[Root]:
        node = value.node
        match node:
            case ast.Name():
                yield from self._name(value, node)
            case ast.Attribute():
                yield from self.attributes.roots(value, node)
            case ast.Call():
                yield from self._entering.roots(value, node)
            case ast.IfExp():
                yield from self._choice(value, node)
            case ast.BoolOp(op=ast.Or()) if value.path or isinstance(node.values[-1], ast.Constant | ast.Dict):
                for each in node.values:
                    yield from self.roots(replace(value, node=each))
            case ast.NamedExpr() | ast.Await() | ast.Starred():
                yield from self.roots(replace(value, node=node.value))
            case ast.Subscript():
                yield from self._subscript(value, node)
            case ast.Tuple() | ast.List() if value.path:
                yield from self._element(value, node)
            case ast.Dict() if value.path:
                yield from self._entry(value, node)
            case ast.Constant():
                if not value.path:
                    yield Root(RootKind.LITERAL, value)
                elif node.value is not None:
                    yield Root(RootKind.UNKNOWN, value)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant()):
                yield Root(RootKind.LITERAL, value)
            case ast.Lambda():
                scope = value.at.scope.module.by_node.get(node)
                yield Root(RootKind.FUNCTION, value, scope=scope)
            case _:
                yield Root(RootKind.UNKNOWN if value.path else RootKind.OPERATION, value)

    def follow(
        self, to: Value, binds: str, why: Message | None = None, tests: Iterable[tuple[Value, bool]] = ()
    ) -> Iterator[Root]:
        """Yield the origins of ``to``, with the step to it before each."""
        step = Step(to, binds, why)
        conditions = tuple(tests)
        for root in self.roots(to):
            yield replace(root, steps=(step, *root.steps), tests=(*conditions, *root.tests), why=root.why or why)

    # --------------------------------------------------------------------------------------------------- names

    def _name(self, value: Value, node: ast.Name) -> Iterator[Root]:
        scope: Scope | None = value.at.scope
        while scope is not None:
            if scope.is_class and scope is not value.at.scope:
                scope = scope.parent
                continue
            bindings, sure = self.program.bindings(node.id, value.at) if scope is value.at.scope else ((), False)
            own = [each for each in bindings if each.at.scope is scope or scope.parent is None]
            if own or node.id in parameters(scope):
                open_end = node.id in parameters(scope) and not (sure and own)
                rest = self._parameters.roots(value, scope, node.id) if open_end else ()
                yield from self._unless_none(value, node.id, own, rest)
                return
            if bindings:
                outer = bindings[0].at.scope
                open_end = node.id in parameters(outer) and not sure
                rest = self._parameters.roots(value, outer, node.id) if open_end else ()
                yield from self._unless_none(value, node.id, list(bindings), rest)
                return
            scope = scope.parent
        yield Root(RootKind.EXTERNAL, value, name=node.id)

    def _unless_none(self, value: Value, name: str, bindings: list[Binding], rest: Iterable[Root]) -> Iterator[Root]:
        """``if x is None: x = …`` counts only where x may be None, and then None itself does not."""
        asked = set(value.at.tests) if value.at.scope in {each.at.scope for each in bindings} else set()
        late = [each for each in bindings if any(t not in asked and asks_none(t, name) for t in each.at.tests)]
        early = [*self._bound(value, name, [each for each in bindings if each not in late]), *rest]
        if not late:
            yield from early
            return
        given = [root for root in early if not is_none(root)]
        yield from given
        settled = all(root.kind in (RootKind.LITERAL, RootKind.OPERATION) for root in given)
        if len(given) < len(early) or not settled:
            yield from self._bound(value, name, late)

    def _bound(self, value: Value, name: str, bindings: list[Binding]) -> Iterator[Root]:
        for binding in bindings:
            tests = self._conditions(binding.at, value)
            frames = value.frames if binding.at.scope.parent is not None else ()
            if binding.way == "update":
                yield from self._update(value, binding, tests)
            elif binding.way == "import":
                yield from self.meaning(value, self.program.find(binding.key, binding.at.scope.module), binding.key)
            elif binding.way in ("def", "class"):
                inner = binding.at.scope.module.by_node.get(binding.node)
                found = inner.cls if inner is not None and binding.way == "class" else inner
                yield from self.meaning(value, found, name)
            elif binding.value is None:
                yield Root(RootKind.UNKNOWN, value, tests=tests)
            else:
                to = Value(binding.value, binding.at, (*binding.path, *value.path), frames)
                yield from self.follow(to, name, self._shared(value, binding), tests)

    def _conditions(self, at: At, value: Value) -> tuple[tuple[Value, bool], ...]:
        known = set(value.at.tests) if value.at.scope is at.scope else set()
        return tuple((Value(test, at, (), value.frames), held) for test, held in at.tests if (test, held) not in known)

    def _shared(self, value: Value, binding: Binding) -> Message | None:
        """Why an entry of a dictionary made here may have been changed out of sight: it has another name, or a
        function was given it whole."""
        made = binding.value
        literal = isinstance(made, ast.Dict) or (isinstance(made, ast.Call) and getattr(made.func, "id", "") == "dict")
        if not literal or not value.path or not isinstance(value.path[0], str):
            return None
        scope = binding.at.scope
        called = [arg for call, _ in scope.calls if getattr(call.func, "id", "") not in _ONLY_READ for arg in call.args]
        named = [each.value for bindings in scope.bound.values() for each in bindings if each.way == "assign"]
        for each in (*called, *named):
            if isinstance(each, ast.Name) and each.id == binding.name:
                return message("lint.shared", name=binding.name, line=each.lineno)
        return None

    def _update(self, value: Value, binding: Binding, tests: tuple[tuple[Value, bool], ...]) -> Iterator[Root]:
        if binding.value is None or not value.path or not isinstance(value.path[0], str):
            return
        if binding.key == "**":
            yield from self.follow(Value(binding.value, binding.at, value.path, value.frames), "**", tests=tests)
        elif value.path[0] == f"[{binding.key}]":
            to = Value(binding.value, binding.at, (*binding.path, *value.path[1:]), value.frames)
            yield from self.follow(to, f"{binding.name}[{binding.key!r}]", tests=tests)

    def meaning(self, value: Value, found: object, name: str) -> Iterator[Root]:
        """Yield the origin that a top-level name stands for; ``found`` is what it was found to be."""
        if isinstance(found, Scope):
            yield Root(RootKind.FUNCTION, value, scope=found)
        elif isinstance(found, Class):
            yield Root(RootKind.CLASS, value, cls=found)
        elif isinstance(found, Binding) and found.value is not None:
            yield from self.follow(Value(found.value, found.at, (*found.path, *value.path)), found.name)
        elif isinstance(found, Module | Binding):
            yield Root(RootKind.UNKNOWN, value)
        else:
            yield Root(RootKind.EXTERNAL, value, name=name)

    def _choice(self, value: Value, node: ast.IfExp) -> Iterator[Root]:
        test = value.of(node.test)
        guarded = none_guard(node)
        for arm, held in ((node.body, True), (node.orelse, False)):
            for root in self.roots(replace(value, node=arm)):
                if guarded == held and is_none(root):
                    continue  # ``x if x is not None else y`` does not give None for x
                yield replace(root, tests=((test, held), *root.tests))

    def _subscript(self, value: Value, node: ast.Subscript) -> Iterator[Root]:
        key = index_key(node.slice)
        if key is not None:
            found = list(self.roots(replace(value, node=node.value, path=(key, *value.path))))
            plain = [root for root in found if root.kind not in (RootKind.UNKNOWN, RootKind.INPUT)]
            if plain:
                yield from found
                return
        yield Root(RootKind.UNKNOWN if value.path else RootKind.OPERATION, value)

    def _element(self, value: Value, node: ast.Tuple | ast.List) -> Iterator[Root]:
        key, rest = value.path[0], value.path[1:]
        if any(isinstance(each, ast.Starred) for each in node.elts):
            yield Root(RootKind.UNKNOWN, value)
        elif key == ANY:
            for each in node.elts:
                yield from self.roots(replace(value, node=each, path=rest))
        elif isinstance(key, tuple) and -len(node.elts) <= key[0] < len(node.elts):
            yield from self.roots(replace(value, node=node.elts[key[0]], path=rest))

    def _entry(self, value: Value, node: ast.Dict) -> Iterator[Root]:
        key, rest = value.path[0], value.path[1:]
        for name, given in zip(reversed(node.keys), reversed(node.values), strict=True):
            if name is None:
                yield from self.roots(replace(value, node=given))
            elif key == ANY or (isinstance(name, ast.Constant) and f"[{name.value!s}]" == key):
                yield from self.follow(replace(value, node=given, path=rest), f"{self._code(value, name)}:")
                if key != ANY:
                    return

    def _code(self, value: Value, node: ast.AST) -> str:
        return value.at.scope.module.code(node)

    def callees(self, call: Value) -> tuple[Callee, ...]:
        """Return what a call may run, as far as the files say; a name outside them as ``external``."""
        return self._entering.callees(call)

    def attribute_sets(self, cls: Class) -> dict[str, list[Entry]]:
        """Return what a class assigns to its own attributes."""
        return self.attributes.attribute_sets(cls)

    def classes_of(self, value: Value) -> tuple[Class, ...]:
        """Return the classes that an object may be of, as far as the files say."""
        return self.attributes.classes_of(value)
