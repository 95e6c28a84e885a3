"""Follow a value back to where it is made: through names, attributes and constructors, arguments and defaults,
dictionaries that are opened into calls, functools.partial, returns, across files.

A value may have several origins; each is returned with its steps. Where the files do not say, the origin is an input
or unknown. Must not know: attention.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace

from tracer.lint import names
from tracer.lint.callers import Callers
from tracer.lint.facts import ANY, At, Binding, Class, Key, Module, Scope
from tracer.lint.program import Program, parameters
from tracer.lint.values import Callee, Frame, Root, RootKind, Step, Value, fill
from tracer.texts import Message, message

_DEEPEST = 60
_MOST_ROOTS = 64
_MOST_FRAMES = 6
_TRANSPARENT = ("float", "int", "bool", "cast", "typing.cast")


class Resolver:
    """The origins of values in one program. Answers are kept."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.callers = Callers(self)
        self._known: dict[Value, tuple[Root, ...]] = {}
        self._active: set[Value] = set()
        self._cuts = 0
        self._attributes: dict[Class, dict[str, list[tuple[ast.expr, tuple[Key, ...], At]]]] = {}

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
                yield from self._attribute(value, node)
            case ast.Call():
                yield from self._call(value, node)
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
                rest = self._parameter(value, scope, node.id) if open_end else ()
                yield from self._unless_none(value, node.id, own, rest)
                return
            if bindings:
                outer = bindings[0].at.scope
                open_end = node.id in parameters(outer) and not sure
                rest = self._parameter(value, outer, node.id) if open_end else ()
                yield from self._unless_none(value, node.id, list(bindings), rest)
                return
            scope = scope.parent
        yield Root(RootKind.EXTERNAL, value, name=node.id)

    def _unless_none(self, value: Value, name: str, bindings: list[Binding], rest: Iterable[Root]) -> Iterator[Root]:
        """``if x is None: x = …`` counts only where x may be None, and then None itself does not."""
        asked = set(value.at.tests) if value.at.scope in {each.at.scope for each in bindings} else set()
        late = [each for each in bindings if any(t not in asked and _asks_none(t, name) for t in each.at.tests)]
        early = [*self._bound(value, name, [each for each in bindings if each not in late]), *rest]
        if not late:
            yield from early
            return
        given = [root for root in early if not _is_none(root)]
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
                yield from self._meaning(value, self.program.find(binding.key, binding.at.scope.module), binding.key)
            elif binding.way in ("def", "class"):
                inner = binding.at.scope.module.by_node.get(binding.node)
                found = inner.cls if inner is not None and binding.way == "class" else inner
                yield from self._meaning(value, found, name)
            elif binding.value is None:
                yield Root(RootKind.UNKNOWN, value, tests=tests)
            else:
                to = Value(binding.value, binding.at, (*binding.path, *value.path), frames)
                yield from self.follow(to, name, tests=tests)

    def _conditions(self, at: At, value: Value) -> tuple[tuple[Value, bool], ...]:
        known = set(value.at.tests) if value.at.scope is at.scope else set()
        return tuple((Value(test, at, (), value.frames), held) for test, held in at.tests if (test, held) not in known)

    def _update(self, value: Value, binding: Binding, tests: tuple[tuple[Value, bool], ...]) -> Iterator[Root]:
        if binding.value is None or not value.path or not isinstance(value.path[0], str):
            return
        if binding.key == "**":
            yield from self.follow(Value(binding.value, binding.at, value.path, value.frames), "**", tests=tests)
        elif value.path[0] == f"[{binding.key}]":
            to = Value(binding.value, binding.at, (*binding.path, *value.path[1:]), value.frames)
            yield from self.follow(to, f"{binding.name}[{binding.key!r}]", tests=tests)

    def _meaning(self, value: Value, found: object, name: str) -> Iterator[Root]:
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

    # ---------------------------------------------------------------------------------------------- parameters

    def _parameter(self, value: Value, scope: Scope, name: str) -> Iterator[Root]:
        node = scope.function
        if node is None:
            return
        if name == scope.receiver and scope.cls is not None:
            yield Root(RootKind.INSTANCE, value, cls=scope.cls)
            return
        for index in range(len(value.frames) - 1, -1, -1):
            frame = value.frames[index]
            if frame.function is scope:
                yield from self._argument(value, scope, name, frame, frame.why)
                return
        sites = self.callers.sites(scope)
        for site in sites:
            yield from self._argument(value, scope, name, Frame(scope, site.call, site.partials, site.bound), site.why)
        if not sites:
            yield Root(RootKind.INPUT, value, name=name, scope=scope)

    def _argument(self, value: Value, scope: Scope, name: str, frame: Frame, why: Message | None) -> Iterator[Root]:
        node = scope.function
        if node is None:
            return
        args = node.args
        names = [each.arg for each in (*args.posonlyargs, *args.args)][1 if frame.bound else 0 :]
        if args.kwarg is not None and name == args.kwarg.arg:
            yield from self._from_keywords(value, frame, why, {*names, *(a.arg for a in args.kwonlyargs)})
            return
        if args.vararg is not None and name == args.vararg.arg:
            yield Root(RootKind.UNKNOWN, value)
            return
        filled, maybe = fill(names, frame.call, frame.partials, name)
        if filled is not None:
            to = replace(filled.value, path=(*filled.value.path, *value.path))
            yield from self.follow(to, filled.binds, why)
            return
        absent = True
        for each in maybe:
            found = tuple(self.follow(replace(each.value, path=(*each.value.path, *value.path)), each.binds, why))
            yield from found
            absent = absent and not found
        default = default_of(scope, name)
        if absent and default is not None:
            yield from self.follow(Value(default, At(scope.parent or scope, float("inf")), value.path), f"{name}=", why)
        elif absent:
            yield Root(RootKind.INPUT, value, name=name, scope=scope)

    def _from_keywords(self, value: Value, frame: Frame, why: Message | None, taken: set[str]) -> Iterator[Root]:
        key = value.path[0] if value.path else None
        if not isinstance(key, str) or key == ANY or key[1:-1] in taken:
            if not value.path:
                yield Root(RootKind.UNKNOWN, value)
            return
        filled, maybe = fill([], frame.call, frame.partials, key[1:-1])
        if filled is not None:
            yield from self.follow(replace(filled.value, path=value.path[1:]), filled.binds, why)
            return
        for each in maybe:
            if each.binds == "**":
                yield from self.follow(replace(each.value, path=value.path), "**", why)

    # ---------------------------------------------------------------------------------------------- attributes

    def attribute_sets(self, cls: Class) -> dict[str, list[tuple[ast.expr, tuple[Key, ...], At]]]:
        """Return what the methods of a class assign to its own attributes, and what its body binds."""
        if cls not in self._attributes:
            sets: dict[str, list[tuple[ast.expr, tuple[Key, ...], At]]] = {}
            for name, bindings in cls.body.bound.items():
                sets[name] = [(b.value, b.path, b.at) for b in bindings if b.value is not None and b.way == "assign"]
            for scope in cls.methods.values():
                for target, given, path, at in scope.attributes:
                    if isinstance(target.value, ast.Name) and target.value.id == scope.receiver:
                        sets.setdefault(target.attr, []).append((given, path, at))
            self._attributes[cls] = sets
        return self._attributes[cls]

    def classes_of(self, value: Value) -> tuple[Class, ...]:
        """Return the classes that an object may be of, as far as the files say."""
        node, scope = value.node, value.at.scope
        if isinstance(node, ast.Name):
            holder: Scope | None = scope
            while holder is not None:
                if node.id == holder.receiver and holder.cls is not None:
                    return (holder.cls,)
                annotation = annotation_of(holder, node.id)
                if annotation is not None:
                    found = self.program.class_of(annotation, At(holder.parent or holder, float("inf")))
                    if found is not None:
                        return (found,)
                holder = holder.parent
        if not isinstance(node, ast.Name | ast.Attribute | ast.Call):
            return ()
        return tuple(
            dict.fromkeys(r.cls for r in self.roots(value) if r.kind is RootKind.INSTANCE and r.cls is not None)
        )

    def _attribute(self, value: Value, node: ast.Attribute) -> Iterator[Root]:
        full = self.program.full_name(node, value.at)
        if names.is_config(node.value):  # what a configuration holds is known when it is read, not from its defaults
            yield Root(RootKind.ATTRIBUTE if not value.path else RootKind.UNKNOWN, value)
            return
        head = full.split(".")[0] if full else ""
        if full and self._imported(node, value.at):
            yield from self._meaning(value, self.program.find(full, value.at.scope.module), full)
            return
        if isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "super" and value.at.scope.cls:
            bases = self.program.bases(value.at.scope.cls)[1:]
            classes: tuple[Class, ...] = bases[:1]
        else:
            classes = self.classes_of(value.of(node.value)) if head or isinstance(node.value, ast.Call) else ()
        found = False
        for cls in classes:
            for root in self._member(value, cls, node.attr):
                found = True
                yield root
        if not found:
            kind = RootKind.UNKNOWN if value.path and node.attr not in ("shape",) else RootKind.ATTRIBUTE
            yield Root(kind, value)

    def _imported(self, node: ast.Attribute, at: At) -> bool:
        first: ast.expr = node
        while isinstance(first, ast.Attribute):
            first = first.value
        bindings = self.program.bindings(first.id, at)[0] if isinstance(first, ast.Name) else ()
        return bool(bindings) and bindings[0].way == "import"

    def _member(self, value: Value, cls: Class, name: str) -> Iterator[Root]:
        line = self.program.bases(cls)
        sets = [(each, entry) for each in line for entry in self.attribute_sets(each).get(name, ())]
        if not sets:
            method = self.program.method(cls, name)
            if method is not None:
                yield from self._method(value, method)
                return
            for below in self.program.subclasses(cls):
                sets += [(below, entry) for entry in self.attribute_sets(below).get(name, ())]
        own = {id(each) for each, _ in sets}
        for owner, (given, path, at) in sets:
            if at.scope.is_class and len(own) > 1 and owner is not sets[0][0]:
                continue  # a class attribute that a nearer class sets anew
            to = Value(given, at, (*path, *value.path))
            tests = tuple((Value(test, at), held) for test, held in at.tests)
            yield from self.follow(to, f"self.{name}", tests=tests)

    def _method(self, value: Value, method: Scope) -> Iterator[Root]:
        node = method.function
        marks = {getattr(each, "id", getattr(each, "attr", "")) for each in getattr(node, "decorator_list", ())}
        if marks & {"property", "cached_property"}:
            for returned, at in method.returns:
                yield from self.follow(Value(returned, at, value.path), f"self.{method.short}")
            return
        yield Root(RootKind.FUNCTION, value, scope=method, bound="staticmethod" not in marks)

    # --------------------------------------------------------------------------------------------- expressions

    def _choice(self, value: Value, node: ast.IfExp) -> Iterator[Root]:
        test = value.of(node.test)
        guarded = none_guard(node)
        for arm, held in ((node.body, True), (node.orelse, False)):
            for root in self.roots(replace(value, node=arm)):
                if guarded == held and _is_none(root):
                    continue  # ``x if x is not None else y`` does not give None for x
                yield replace(root, tests=((test, held), *root.tests))

    def _subscript(self, value: Value, node: ast.Subscript) -> Iterator[Root]:
        key = _index(node.slice)
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

    # --------------------------------------------------------------------------------------------------- calls

    def callees(self, call: Value) -> tuple[Callee, ...]:
        """Return what a call may run, as far as the files say; a name outside them as ``external``."""
        node = call.node
        return tuple(self._callees(call.of(node.func), 0)) if isinstance(node, ast.Call) else ()

    def _callees(self, func: Value, depth: int) -> Iterator[Callee]:
        for root in self.roots(func):
            if root.kind is RootKind.FUNCTION:
                yield Callee(root.scope, bound=root.bound, why=root.why)
            elif root.kind is RootKind.CLASS:
                yield Callee(None, cls=root.cls, bound=True, why=root.why)
            elif root.kind is RootKind.INSTANCE and root.cls is not None:
                method = self.program.method(root.cls, "__call__") or self.program.method(root.cls, "forward")
                if method is not None:
                    yield Callee(method, bound=True, why=root.why)
            elif root.kind is RootKind.PARTIAL and depth < 4 and isinstance(root.value.node, ast.Call):
                for inner in self._callees(root.value.of(root.value.node.args[0]), depth + 1):
                    yield replace(inner, partials=(*inner.partials, root.value), why=inner.why or root.why)
            elif root.kind is RootKind.EXTERNAL:
                yield Callee(None, external=root.name, why=root.why)

    def _call(self, value: Value, node: ast.Call) -> Iterator[Root]:
        name = self.program.full_name(node.func, value.at)
        last = node.func.attr if isinstance(node.func, ast.Attribute) else name
        if name in ("partial", "functools.partial") and node.args:
            yield Root(RootKind.PARTIAL, value)
        elif name == "dict" and value.path:
            yield from self._from_dict_call(value, node)
        elif name == "getattr" and len(node.args) >= 2 and isinstance(node.args[1], ast.Constant):
            yield from self._getattr(value, node)
        elif last in ("get", "pop") and isinstance(node.func, ast.Attribute) and node.args and _is_text(node.args[0]):
            yield from self._get(value, node, node.func)
        elif name in _TRANSPARENT and node.args and not value.path:
            yield from self.roots(value.of(node.args[-1]))
        else:
            yield from self._entered(value, node)

    def _from_dict_call(self, value: Value, node: ast.Call) -> Iterator[Root]:
        for keyword in reversed(node.keywords):
            if keyword.arg is None:
                yield from self.roots(replace(value, node=keyword.value))
            elif f"[{keyword.arg}]" == value.path[0]:
                yield from self.follow(replace(value, node=keyword.value, path=value.path[1:]), f"{keyword.arg}=")
                return
        for arg in node.args:
            yield from self.roots(replace(value, node=arg))

    def _getattr(self, value: Value, node: ast.Call) -> Iterator[Root]:
        field = node.args[1]
        name = field.value if isinstance(field, ast.Constant) and isinstance(field.value, str) else ""
        if name.isidentifier():
            looked_up = _looked_up(node, name)
            yield from self._attribute(replace(value, node=looked_up), looked_up)
        if len(node.args) > 2:
            yield from self.roots(replace(value, node=node.args[2]))

    def _get(self, value: Value, node: ast.Call, func: ast.Attribute) -> Iterator[Root]:
        key = node.args[0]
        text = key.value if isinstance(key, ast.Constant) else ""
        yield from self.roots(replace(value, node=func.value, path=(f"[{text!s}]", *value.path)))
        if len(node.args) > 1:
            yield from self.roots(replace(value, node=node.args[1]))

    def _entered(self, value: Value, node: ast.Call) -> Iterator[Root]:
        callees = self.callees(value) if len(value.frames) < _MOST_FRAMES else ()
        entered = False
        for callee in callees:
            if callee.cls is not None:
                entered = True
                yield Root(RootKind.INSTANCE, value, cls=callee.cls, why=callee.why)
            elif callee.scope is not None and callee.scope.returns:
                entered = True
                frame = Frame(callee.scope, value.of(node), callee.partials, callee.bound)
                for returned, at in callee.scope.returns:
                    to = Value(returned, at, value.path, (*value.frames, frame))
                    tests = tuple((Value(test, at, (), to.frames), held) for test, held in at.tests)
                    yield from self.follow(to, "return", callee.why, tests)
        if not entered:
            yield Root(RootKind.CALL, value)


def _looked_up(node: ast.Call, name: str) -> ast.Attribute:
    """Return the one attribute node that stands for a ``getattr`` call, so that answers about it can be kept."""
    made: ast.Attribute | None = getattr(node, "looked_up", None)
    if made is None:
        made = ast.copy_location(ast.Attribute(node.args[0], name, ast.Load()), node)
        node.looked_up = made  # type: ignore[attr-defined]
    return made


def _index(node: ast.expr) -> Key | None:
    """Return the key that a written-out index stands for."""
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        sign, node = -1, node.operand
    if not isinstance(node, ast.Constant) or isinstance(node.value, bool):
        return None
    if isinstance(node.value, int):
        return (sign * node.value, 0)
    return f"[{node.value}]" if isinstance(node.value, str) else None


def _asks_none(test: tuple[ast.expr, bool], name: str) -> bool:
    """Whether a test holds only where ``name`` is None."""
    node, held = test
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And) and held:
        return any(_asks_none((each, True), name) for each in node.values)
    if not (isinstance(node, ast.Compare) and isinstance(node.left, ast.Name) and node.left.id == name):
        return False
    return _says_none(node.comparators[0]) and isinstance(node.ops[0], ast.Is if held else ast.IsNot)


def _is_none(root: Root) -> bool:
    node = root.value.node
    return root.kind is RootKind.LITERAL and isinstance(node, ast.Constant) and node.value is None


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def none_guard(node: ast.IfExp) -> bool | None:
    """Return in which arm a value is known not to be None: True ``x if x is not None``, False ``y if x is None``."""
    test = node.test
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not _says_none(test.comparators[0]):
        return None
    tested = ast.dump(test.left)
    if isinstance(test.ops[0], ast.IsNot) and ast.dump(node.body) == tested:
        return True
    return False if isinstance(test.ops[0], ast.Is) and ast.dump(node.orelse) == tested else None


def _says_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def default_of(scope: Scope, name: str) -> ast.expr | None:
    """Return the default of a parameter."""
    node = scope.function
    if node is None:
        return None
    positional = [*node.args.posonlyargs, *node.args.args]
    for arg, default in zip(reversed(positional), reversed(node.args.defaults), strict=False):
        if arg.arg == name:
            return default
    return next((d for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if a.arg == name), None)


def annotation_of(scope: Scope, name: str) -> ast.expr | None:
    """Return the annotation of a parameter."""
    node = scope.function
    if node is None:
        return None
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return next((each.annotation for each in every if each.arg == name), None)
