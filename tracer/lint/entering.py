"""What a call gives: what its function returns, an entry of a dictionary, an attribute that ``getattr`` asks for.

Must not know: other expressions than calls.
"""

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tracer.lint.asking import decorated, is_text, looked_up
from tracer.lint.values import Callee, Frame, Root, RootKind, Value

if TYPE_CHECKING:
    from tracer.lint.resolve import Resolver

_MOST_FRAMES = 6
_TRANSPARENT = ("float", "int", "bool", "cast", "typing.cast")


class Entering:
    """The calls of one program, looked into."""

    def __init__(self, resolver: "Resolver") -> None:
        self._resolver = resolver

    def callees(self, call: Value) -> tuple[Callee, ...]:
        """Return what a call may run, as far as the files say; a name outside them as ``external``."""
        node = call.node
        return tuple(self._callees(call.of(node.func), 0)) if isinstance(node, ast.Call) else ()

    def _callees(self, func: Value, depth: int) -> Iterator[Callee]:
        for root in self._resolver.roots(func):
            if root.kind is RootKind.FUNCTION:
                yield Callee(root.scope, bound=root.bound, why=root.why)
            elif root.kind is RootKind.CLASS:
                yield Callee(None, cls=root.cls, bound=True, why=root.why)
            elif root.kind is RootKind.INSTANCE and root.cls is not None:
                method = self._resolver.program.method(root.cls, "__call__") or self._resolver.program.method(
                    root.cls, "forward"
                )
                if method is not None:
                    yield Callee(method, bound=True, why=root.why)
            elif root.kind is RootKind.PARTIAL and depth < 4 and isinstance(root.value.node, ast.Call):
                for inner in self._callees(root.value.of(root.value.node.args[0]), depth + 1):
                    yield replace(inner, partials=(*inner.partials, root.value), why=inner.why or root.why)
            elif root.kind is RootKind.EXTERNAL:
                yield Callee(None, external=root.name, why=root.why)

    def roots(self, value: Value, node: ast.Call) -> Iterator[Root]:
        name = self._resolver.program.full_name(node.func, value.at)
        last = node.func.attr if isinstance(node.func, ast.Attribute) else name
        if name in ("partial", "functools.partial") and node.args:
            yield Root(RootKind.PARTIAL, value)
        elif name == "dict" and value.path:
            yield from self._from_dict_call(value, node)
        elif name == "getattr" and len(node.args) >= 2 and isinstance(node.args[1], ast.Constant):
            yield from self._getattr(value, node)
        elif last in ("get", "pop") and isinstance(node.func, ast.Attribute) and node.args and is_text(node.args[0]):
            yield from self._get(value, node, node.func)
        elif name in _TRANSPARENT and node.args and not value.path:
            yield from self._resolver.roots(value.of(node.args[-1]))
        else:
            yield from self._entered(value, node)

    def _from_dict_call(self, value: Value, node: ast.Call) -> Iterator[Root]:
        for keyword in reversed(node.keywords):
            if keyword.arg is None:
                yield from self._resolver.roots(replace(value, node=keyword.value))
            elif f"[{keyword.arg}]" == value.path[0]:
                yield from self._resolver.follow(
                    replace(value, node=keyword.value, path=value.path[1:]), f"{keyword.arg}="
                )
                return
        for arg in node.args:
            yield from self._resolver.roots(replace(value, node=arg))

    def _getattr(self, value: Value, node: ast.Call) -> Iterator[Root]:
        field = node.args[1]
        name = field.value if isinstance(field, ast.Constant) and isinstance(field.value, str) else ""
        if name.isidentifier():
            made = looked_up(node, name)
            yield from self._resolver.attributes.roots(replace(value, node=made), made)
        if len(node.args) > 2:
            yield from self._resolver.roots(replace(value, node=node.args[2]))

    def _get(self, value: Value, node: ast.Call, func: ast.Attribute) -> Iterator[Root]:
        key = node.args[0]
        text = key.value if isinstance(key, ast.Constant) else ""
        yield from self._resolver.roots(replace(value, node=func.value, path=(f"[{text!s}]", *value.path)))
        if len(node.args) > 1:
            yield from self._resolver.roots(replace(value, node=node.args[1]))

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
                why = callee.why or decorated(callee.scope)
                for returned, at in callee.scope.returns:
                    to = Value(returned, at, value.path, (*value.frames, frame))
                    tests = tuple((Value(test, at, (), to.frames), held) for test, held in at.tests)
                    yield from self._resolver.follow(to, "return", why, tests)
        if not entered:
            yield Root(RootKind.CALL, value)
