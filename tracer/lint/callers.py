"""From where a function is called: by name, as a constructor, as a method, through a variable that holds it, or, where
nothing else is found, through a table, by the names of its arguments; that last is an assumption and marked as one.

Must not know: what the arguments are worth.
"""

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tracer.lint.facts import At, Class, Module, Scope
from tracer.lint.program import parameters
from tracer.lint.values import Site, Value
from tracer.texts import message

if TYPE_CHECKING:
    from tracer.lint.resolve import Resolver

_LIKE_ENOUGH = 3  # arguments named like the parameters, for a call through a table that may be the one
_MOST_ASSUMED = 8


class Callers:
    """The call sites of functions in one program. Answers are kept."""

    def __init__(self, resolver: "Resolver") -> None:
        self._resolver = resolver
        self._program = resolver.program
        self._sites: dict[Scope, tuple[Site, ...]] = {}

    def sites(self, scope: Scope) -> tuple[Site, ...]:
        """Return the calls of a function among the files; empty where there are none."""
        if scope not in self._sites:
            self._sites[scope] = ()  # while it is being found: a function that calls itself
            found = {site.call.node: site for site in self._find(scope)}
            if not found and scope.cls is not None and scope.short == "__init__":
                found = {site.call.node: site for site in self._through_table(scope, scope.cls.name)}
            elif not found and scope.cls is None:
                found = {site.call.node: site for site in self._through_table(scope, scope.short)}
            self._sites[scope] = tuple(found.values())
        return self._sites[scope]

    def _find(self, scope: Scope) -> Iterator[Site]:
        if scope.cls is not None and scope.short == "__init__":
            yield from self._constructions(scope.cls)
        elif scope.cls is not None:
            yield from self._method_calls(scope, scope.cls)
        elif scope.function is not None:
            yield from self._named(scope)
            yield from self._through_variable(scope, scope.short, scope.module, False)

    def _constructions(self, cls: Class) -> Iterator[Site]:
        for each in (cls, *self._program.subclasses(cls)):
            if each is cls or self._program.method(each, "__init__") is cls.methods.get("__init__"):
                yield from self.makers(each)
                yield from self._through_variable(each, each.name, each.module, True)
            for method in each.methods.values() if each is not cls else ():
                for call, at in method.calls:
                    if _is_super_init(call) and self._next_init(each) is cls:
                        yield Site(Value(call, at), True)

    def _next_init(self, cls: Class) -> Class | None:
        return next((each for each in self._program.bases(cls)[1:] if "__init__" in each.methods), None)

    def makers(self, cls: Class) -> Iterator[Site]:
        """Yield the calls that make an object of ``cls`` by its name."""
        for call, at in self._program.calls_named(cls.name, cls.module):
            if self._program.meaning(call.func, at) is cls:
                yield Site(Value(call, at), True)

    def _method_calls(self, scope: Scope, cls: Class) -> Iterator[Site]:
        line = set(self._program.bases(cls)) | set(self._program.subclasses(cls))
        if scope.short in ("forward", "__call__"):
            for name in self.held_as(cls):
                for call, at in self._program.calls_named(name):
                    if isinstance(call.func, ast.Attribute):
                        owners = self._resolver.classes_of(Value(call.func, at))
                        if set(owners) & line:
                            yield Site(Value(call, at), True)
        for call, at in self._program.calls_named(scope.short):
            func = call.func
            if not isinstance(func, ast.Attribute) or not isinstance(func.value, ast.Name | ast.Attribute):
                continue
            if set(self._resolver.classes_of(Value(func.value, at))) & line:
                yield Site(Value(call, at), True)

    def held_as(self, cls: Class) -> frozenset[str]:
        """Return the names of attributes that hold an object of ``cls``."""
        made = {site.call.node for site in self.makers(cls)}
        modules = {site.call.at.scope.module for site in self.makers(cls)}
        return frozenset(
            target.attr
            for module in modules
            for scope in module.scopes
            for target, value, _, _ in scope.attributes
            if value in made
        )

    def _named(self, scope: Scope) -> Iterator[Site]:
        for call, at in self._program.calls_named(scope.short, scope.module):
            if self._program.meaning(call.func, at) is scope:
                yield Site(Value(call, at), False)
        for module in self._program.mentioning(scope.short, scope.module):
            for call, at in (*module.calls_by_name.get("partial", ()), *module.calls_by_name.get("apply", ())):
                if call.args and self._program.meaning(call.args[0], at) is scope:
                    yield from self._calls_of_partial(call, at)

    def _calls_of_partial(self, partial: ast.Call, at: At) -> Iterator[Site]:
        value = Value(partial, at)
        for name, bindings in at.scope.bound.items():
            if any(binding.value is partial for binding in bindings):
                for call, where in at.scope.calls:
                    if isinstance(call.func, ast.Name) and call.func.id == name:
                        yield Site(Value(call, where), False, (value,))

    def _through_variable(self, wanted: Scope | Class, name: str, of: Module, bound: bool) -> Iterator[Site]:
        """Calls of a local variable whose value mentions the function: a choice, or a lookup with it as default."""
        for module in self._program.mentioning(name, of):
            hits = [(each, at.scope) for each, at in module.mentions.get(name, ()) if self._is(each, at, wanted)]
            for holder in dict.fromkeys(scope for _, scope in hits):
                mine = [each for each, scope in hits if scope is holder]
                for variable, bindings in holder.bound.items():
                    if any(_contains(binding.value, mine) for binding in bindings if binding.way == "assign"):
                        for call, at in holder.calls:
                            if isinstance(call.func, ast.Name) and call.func.id == variable:
                                yield Site(Value(call, at), bound)

    def _is(self, name: ast.Name, at: At, wanted: Scope | Class) -> bool:
        return self._program.meaning(name, at) is wanted

    def _through_table(self, scope: Scope, name: str) -> Iterator[Site]:
        if not self._mentioned(scope, name):
            return
        bound = scope.cls is not None
        why = message("lint.through_table", function=name)
        found = []
        for module in self._program.loaded():
            for call, at in module.variable_calls:
                if _alike(call, scope, bound):
                    found.append(Site(Value(call, at), bound, (), why))
        if len(found) <= _MOST_ASSUMED:
            yield from found

    def _mentioned(self, scope: Scope, name: str) -> bool:
        """Whether the function or class is used as a value somewhere: put into a table, returned."""
        return any(name in module.mentions for module in self._program.mentioning(name, scope.module))


def _is_super_init(call: ast.Call) -> bool:
    func = call.func
    if not (isinstance(func, ast.Attribute) and func.attr == "__init__" and isinstance(func.value, ast.Call)):
        return False
    return isinstance(func.value.func, ast.Name) and func.value.func.id == "super"


def _contains(node: ast.expr | None, names: list[ast.Name]) -> bool:
    return node is not None and any(each in names for each in ast.walk(node) if isinstance(each, ast.Name))


def _alike(call: ast.Call, scope: Scope, bound: bool) -> bool:
    """Whether a call's arguments bear the names of the parameters, and none is there that the function refuses."""
    node = scope.function
    if node is None:
        return False
    names = parameters(scope)
    given = [keyword.arg for keyword in call.keywords if keyword.arg is not None]
    if node.args.kwarg is None and not set(given) <= names:
        return False
    order = [each.arg for each in (*node.args.posonlyargs, *node.args.args)][1 if bound else 0 :]
    same = sum(name in names for name in given)
    for name, arg in zip(order, call.args, strict=False):
        written = arg.id if isinstance(arg, ast.Name) else arg.attr if isinstance(arg, ast.Attribute) else ""
        same += bool(written) and (written == name or written.startswith(f"{name}_"))
    return same >= _LIKE_ENOUGH
