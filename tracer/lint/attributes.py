"""What an attribute holds: what the methods of its class and of those below it assign to it, what is written to it from
outside, its method of that name, or, where nobody shows the object being made, itself.

Must not know: other expressions than attributes.
"""

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tracer.lint import names
from tracer.lint.asking import annotation_of
from tracer.lint.facts import At, Class, Key, Module, Scope
from tracer.lint.values import Root, RootKind, Value
from tracer.lint.writes import Write, Writes
from tracer.texts import Message, message

if TYPE_CHECKING:
    from tracer.lint.resolve import Resolver

Entry = tuple[ast.expr, tuple[Key, ...], At]


class Attributes:
    """The attributes of one program's objects."""

    def __init__(self, resolver: "Resolver") -> None:
        self._resolver = resolver
        self._writes = Writes(resolver.program)
        self._own: dict[Class, tuple[Write, ...]] = {}
        self._sets: dict[Class, dict[str, list[Entry]]] = {}
        self._outside: dict[tuple[Class, str], tuple[tuple[Write, bool], ...]] = {}

    def attribute_sets(self, cls: Class) -> dict[str, list[Entry]]:
        """Return what the methods of a class leave in its own attributes, and what its body binds."""
        if cls not in self._sets:
            sets: dict[str, list[Entry]] = {}
            for name, bindings in cls.body.bound.items():
                sets[name] = [(b.value, b.path, b.at) for b in bindings if b.value is not None and b.way == "assign"]
            for write in self._own_writes(cls):
                if write.name is not None and not self._overwritten(cls, write, write.name):
                    sets.setdefault(write.name, []).append((write.value, write.path, write.at))
            self._sets[cls] = sets
        return self._sets[cls]

    def _own_writes(self, cls: Class) -> tuple[Write, ...]:
        if cls not in self._own:
            methods = set(cls.methods.values())
            every = self._writes.in_module(cls.module)
            self._own[cls] = tuple(w for w in every if w.of_receiver and w.at.scope in methods)
        return self._own[cls]

    def _overwritten(self, cls: Class, write: Write, name: str) -> bool:
        """Whether a later statement of the same method surely writes it anew."""
        return any(
            later.name == name and later.at.scope is write.at.scope and later.at.order > write.at.order
            for later in self._own_writes(cls)
            if set(later.at.arms) <= set(write.at.arms)
        )

    def patched(self, name: str) -> Message | None:
        """Return where a function of a package is replaced by assignment (``F.softmax = mine``)."""
        for write in self._writes.outside(name):
            full = self._resolver.program.full_name(write.owner, write.at)
            if (
                isinstance(write.owner, ast.Name | ast.Attribute)
                and self._imported_head(write.owner, write.at)
                and full
            ):
                return message("lint.patched", code=_code(write), place=_line(write))
        return None

    def classes_of(self, value: Value) -> tuple[Class, ...]:
        """Return the classes that an object may be of, as far as the files say."""
        declared = self._declared(value)
        if declared is not None:
            return (declared,)
        if not isinstance(value.node, ast.Name | ast.Attribute | ast.Call):
            return ()
        return tuple(
            dict.fromkeys(
                r.cls for r in self._resolver.roots(value) if r.kind is RootKind.INSTANCE and r.cls is not None
            )
        )

    def _declared(self, value: Value) -> Class | None:
        """The class of a method's own object, or of an annotated parameter: the object may be of one below it."""
        node, holder = value.node, value.at.scope
        while isinstance(node, ast.Name) and holder is not None:
            if node.id == holder.receiver and holder.cls is not None:
                return holder.cls
            annotation = annotation_of(holder, node.id)
            if annotation is not None:
                found = self._resolver.program.class_of(annotation, At(holder.parent or holder, float("inf")))
                if found is not None:
                    return found
            holder = holder.parent  # type: ignore[assignment]
        return None

    def roots(self, value: Value, node: ast.Attribute) -> Iterator[Root]:
        full = self._resolver.program.full_name(node, value.at)
        if names.is_config(node.value):  # what a configuration holds is known when it is read, not from its defaults
            yield Root(RootKind.ATTRIBUTE if not value.path else RootKind.UNKNOWN, value)
            return
        head = full.split(".")[0] if full else ""
        if full and self._imported_head(node, value.at):
            yield from self._resolver.meaning(value, self._resolver.program.find(full, value.at.scope.module), full)
            return
        if isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "super" and value.at.scope.cls:
            bases = self._resolver.program.bases(value.at.scope.cls)[1:]
            classes: tuple[Class, ...] = bases[:1]
        else:
            classes = self.classes_of(value.of(node.value)) if head or isinstance(node.value, ast.Call) else ()
        exact = self._declared(value.of(node.value)) is None
        found = False
        for cls in classes:
            for root in self._member(value, cls, node.attr, exact):
                found = True
                yield root
        if not found:
            kind = RootKind.UNKNOWN if value.path and node.attr not in ("shape",) else RootKind.ATTRIBUTE
            yield Root(kind, value)

    def _imported_head(self, node: ast.expr, at: At) -> bool:
        first: ast.expr = node
        while isinstance(first, ast.Attribute):
            first = first.value
        bindings = self._resolver.program.bindings(first.id, at)[0] if isinstance(first, ast.Name) else ()
        return bool(bindings) and bindings[0].way == "import"

    def _member(self, value: Value, cls: Class, name: str, exact: bool) -> Iterator[Root]:
        program = self._resolver.program
        line = program.bases(cls)
        sets = [(each, entry) for each in line for entry in self.attribute_sets(each).get(name, ())]
        here = self._set_before(value, line, name)
        if here is not None:
            here_only, written = here
            kept = () if here_only else [(o, e) for o, e in sets if e[2].scope is not value.at.scope]
            sets = [*((cls, (w.value, w.path, w.at)) for w in written), *kept]
        method = program.method(cls, name) if not sets else None
        below = [] if exact or (here is not None and here[0]) else list(self._below(value, cls))
        if method is not None:
            yield from self._method(value, method)
        for each in below:
            sets += [(each, entry) for entry in self.attribute_sets(each).get(name, ())]
            if name in each.methods:
                yield from self._method(value, each.methods[name])
        if method is not None:
            return
        own = {id(each) for each, _ in sets}
        for owner, (given, path, at) in sets:
            if at.scope.is_class and len(own) > 1 and owner is not sets[0][0]:
                continue  # a class attribute that a nearer class sets anew
            to = Value(given, at, (*path, *value.path))
            tests = tuple((Value(test, at), held) for test, held in at.tests)
            yield from self._resolver.follow(to, f"self.{name}", tests=tests)
        if here is None or not here[0]:
            yield from self._written_otherwise(value, cls, name)

    def _set_before(self, value: Value, line: tuple[Class, ...], name: str) -> tuple[bool, list[Write]] | None:
        """What the method that reads an attribute of its own object wrote to it before, latest first, and whether
        that is surely what it holds; None where it wrote nothing to it."""
        node, at = value.node, value.at
        if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
            return None
        if node.value.id != at.scope.receiver or at.scope.cls not in line or at.scope.cls is None:
            return None
        mine = [w for w in self._own_writes(at.scope.cls) if w.name == name and w.at.scope is at.scope]
        if not mine:
            return None
        taken = []
        for write in sorted((w for w in mine if w.at.order < at.order), key=lambda each: -each.at.order):
            taken.append(write)
            if set(write.at.arms) <= set(at.arms):
                return True, taken
        return False, taken

    def _below(self, value: Value, cls: Class) -> Iterator[Class]:
        """The classes below ``cls`` whose objects may run the method in which its attribute is read."""
        method = value.at.scope.short if value.at.scope.cls is not None else ""
        for each in self._resolver.program.subclasses(cls):
            own = self._resolver.program.method(each, method) if method else None
            if own is None or own is value.at.scope or any(getattr(c.func, "id", "") == "super" for c, _ in own.calls):
                yield each

    def _written_otherwise(self, value: Value, cls: Class, name: str) -> Iterator[Root]:
        for write, sure in self._from_outside(cls, name):
            why = None if sure else message("lint.written_outside", code=_code(write), place=_line(write))
            to = Value(write.value, write.at, (*write.path, *value.path))
            tests = tuple((Value(test, write.at), held) for test, held in write.at.tests)
            yield from self._resolver.follow(to, f"{write.at.scope.module.code(write.owner)}.{name}", why, tests)
        for each in self._resolver.program.bases(cls):
            for write in self._own_writes(each):
                if write.name is None and write.may_be(name):
                    why = message("lint.set_by_name", code=_code(write), place=_line(write))
                    yield Root(RootKind.UNKNOWN, value, why=why)
                elif write.name == name and write.augments and write.at.scope.short != "__init__":
                    why = message("lint.accumulates", code=_code(write), place=_line(write))
                    yield Root(RootKind.UNKNOWN, value, why=why)

    def _from_outside(self, cls: Class, name: str) -> tuple[tuple[Write, bool], ...]:
        """The writes from outside that may reach an object of ``cls``, each with whether it surely is one."""
        key = (cls, name)
        if key not in self._outside:
            self._outside[key] = ()  # while it is being found
            judged = ((write, self._reaches(write, cls)) for write in self._writes.outside(name))
            self._outside[key] = tuple((write, sure) for write, sure in judged if sure is not None)
        return self._outside[key]

    def _reaches(self, write: Write, cls: Class) -> bool | None:
        """Whether a write goes to an object of ``cls``: True, False for perhaps, None for another object."""
        program = self._resolver.program
        owner = Value(write.owner, write.at)
        family = {*program.bases(cls), *program.subclasses(cls)}
        meant = program.meaning(write.owner, write.at)
        classes = (meant,) if isinstance(meant, Class) else self.classes_of(owner)
        if classes:
            return True if family.intersection(classes) else None
        if names.is_config(write.owner) or names.stem(write.owner) in self._resolver.callers.held_as(cls):
            return None if names.is_config(write.owner) else True
        for test, held in write.at.tests:
            asked = _instance_of(test) if held else None
            if asked is not None:
                found = program.class_of(asked, write.at)
                return (True if found in family else None) if found is not None else None
        near = write.at.scope.module
        return False if _same_folder(near, cls) or near in program.mentioning(cls.name, cls.module) else None

    def _method(self, value: Value, method: Scope) -> Iterator[Root]:
        node = method.function
        marks = {getattr(each, "id", getattr(each, "attr", "")) for each in getattr(node, "decorator_list", ())}
        if marks & {"property", "cached_property"}:
            for returned, at in method.returns:
                yield from self._resolver.follow(Value(returned, at, value.path), f"self.{method.short}")
            return
        yield Root(RootKind.FUNCTION, value, scope=method, bound="staticmethod" not in marks)


def _code(write: Write) -> str:
    node = write.owner if write.name is None else ast.Attribute(write.owner, write.name, ast.Load())
    return f"setattr({ast.unparse(node)}, …)" if write.name is None else f"{ast.unparse(node)} = …"


def _line(write: Write) -> str:
    return f"{write.at.scope.module.read.file.name}:{getattr(write.owner, 'lineno', 0)}"


def _instance_of(test: ast.expr) -> ast.expr | None:
    """The class in ``isinstance(x, C)``."""
    if isinstance(test, ast.Call) and getattr(test.func, "id", "") == "isinstance" and len(test.args) == 2:
        return test.args[1]
    return None


def _same_folder(module: Module, cls: Class) -> bool:
    """Whether one of two files lies beside or below the other."""
    one, other = module.read.file.absolute().parent, cls.module.read.file.absolute().parent
    return one == other or one in other.parents or other in one.parents
