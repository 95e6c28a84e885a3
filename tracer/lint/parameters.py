"""What a parameter holds: the argument of the call that is looked into, of every call that is found, or the default.

Must not know: other expressions than parameters.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tracer.lint.asking import default_of
from tracer.lint.facts import ANY, At, Scope
from tracer.lint.values import Frame, Root, RootKind, Value, fill
from tracer.texts import Message

if TYPE_CHECKING:
    from tracer.lint.resolve import Resolver


class Parameters:
    """The parameters of one program's functions."""

    def __init__(self, resolver: "Resolver") -> None:
        self._resolver = resolver

    def roots(self, value: Value, scope: Scope, name: str) -> Iterator[Root]:
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
        sites = self._resolver.callers.sites(scope)
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
            yield from self._resolver.follow(to, filled.binds, why)
            return
        absent = True
        for each in maybe:
            found = tuple(
                self._resolver.follow(replace(each.value, path=(*each.value.path, *value.path)), each.binds, why)
            )
            yield from found
            absent = absent and not found
        default = default_of(scope, name)
        if absent and default is not None:
            yield from self._resolver.follow(
                Value(default, At(scope.parent or scope, float("inf")), value.path), f"{name}=", why
            )
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
            yield from self._resolver.follow(replace(filled.value, path=value.path[1:]), filled.binds, why)
            return
        for each in maybe:
            if each.binds == "**":
                yield from self._resolver.follow(replace(each.value, path=value.path), "**", why)
