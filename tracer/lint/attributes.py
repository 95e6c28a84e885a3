"""What an attribute holds: what the methods of its class assign to it, its method of that name, or, where nobody shows
the object being made, itself.

Must not know: other expressions than attributes.
"""

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tracer.lint import names
from tracer.lint.asking import annotation_of
from tracer.lint.facts import At, Class, Key, Scope
from tracer.lint.values import Root, RootKind, Value

if TYPE_CHECKING:
    from tracer.lint.resolve import Resolver

Entry = tuple[ast.expr, tuple[Key, ...], At]


class Attributes:
    """The attributes of one program's objects."""

    def __init__(self, resolver: "Resolver") -> None:
        self._resolver = resolver
        self._sets: dict[Class, dict[str, list[Entry]]] = {}

    def attribute_sets(self, cls: Class) -> dict[str, list[Entry]]:
        """Return what the methods of a class assign to its own attributes, and what its body binds."""
        if cls not in self._sets:
            sets: dict[str, list[Entry]] = {}
            for name, bindings in cls.body.bound.items():
                sets[name] = [(b.value, b.path, b.at) for b in bindings if b.value is not None and b.way == "assign"]
            for scope in cls.methods.values():
                for target, given, path, at in scope.attributes:
                    if isinstance(target.value, ast.Name) and target.value.id == scope.receiver:
                        sets.setdefault(target.attr, []).append((given, path, at))
            self._sets[cls] = sets
        return self._sets[cls]

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
                    found = self._resolver.program.class_of(annotation, At(holder.parent or holder, float("inf")))
                    if found is not None:
                        return (found,)
                holder = holder.parent
        if not isinstance(node, ast.Name | ast.Attribute | ast.Call):
            return ()
        return tuple(
            dict.fromkeys(
                r.cls for r in self._resolver.roots(value) if r.kind is RootKind.INSTANCE and r.cls is not None
            )
        )

    def roots(self, value: Value, node: ast.Attribute) -> Iterator[Root]:
        full = self._resolver.program.full_name(node, value.at)
        if names.is_config(node.value):  # what a configuration holds is known when it is read, not from its defaults
            yield Root(RootKind.ATTRIBUTE if not value.path else RootKind.UNKNOWN, value)
            return
        head = full.split(".")[0] if full else ""
        if full and self._imported(node, value.at):
            yield from self._resolver.meaning(value, self._resolver.program.find(full, value.at.scope.module), full)
            return
        if isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "super" and value.at.scope.cls:
            bases = self._resolver.program.bases(value.at.scope.cls)[1:]
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
        bindings = self._resolver.program.bindings(first.id, at)[0] if isinstance(first, ast.Name) else ()
        return bool(bindings) and bindings[0].way == "import"

    def _member(self, value: Value, cls: Class, name: str) -> Iterator[Root]:
        line = self._resolver.program.bases(cls)
        sets = [(each, entry) for each in line for entry in self.attribute_sets(each).get(name, ())]
        if not sets:
            method = self._resolver.program.method(cls, name)
            if method is not None:
                yield from self._method(value, method)
                return
            for below in self._resolver.program.subclasses(cls):
                sets += [(below, entry) for entry in self.attribute_sets(below).get(name, ())]
        own = {id(each) for each, _ in sets}
        for owner, (given, path, at) in sets:
            if at.scope.is_class and len(own) > 1 and owner is not sets[0][0]:
                continue  # a class attribute that a nearer class sets anew
            to = Value(given, at, (*path, *value.path))
            tests = tuple((Value(test, at), held) for test, held in at.tests)
            yield from self._resolver.follow(to, f"self.{name}", tests=tests)

    def _method(self, value: Value, method: Scope) -> Iterator[Root]:
        node = method.function
        marks = {getattr(each, "id", getattr(each, "attr", "")) for each in getattr(node, "decorator_list", ())}
        if marks & {"property", "cached_property"}:
            for returned, at in method.returns:
                yield from self._resolver.follow(Value(returned, at, value.path), f"self.{method.short}")
            return
        yield Root(RootKind.FUNCTION, value, scope=method, bound="staticmethod" not in marks)
