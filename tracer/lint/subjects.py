"""Where attention is computed: calls of a known kernel, also through a variable that holds one.

Must not know: whether the arguments are right.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from tracer.lint import names, signatures
from tracer.lint.facts import At, Module, Scope
from tracer.lint.program import parameters
from tracer.lint.resolve import Resolver
from tracer.lint.signatures import Signature
from tracer.lint.values import Filled, Frame, Value, arguments, fill

KERNELS = re.compile(r"flash_attn_\w*func|flash_attn_with_kvcache|scaled_dot_product_attention")
_HOLDER = re.compile(r"flash|attn|attention|sdpa|kernel", re.IGNORECASE)
_MOST_CONTEXTS = 12
_DEEPEST = 3


@dataclass(frozen=True)
class Call:
    """One call of a kernel. ``names`` are its parameters in order: those of its definition where that is among the
    files, else those of ``signature``."""

    value: Value
    signature: Signature
    names: tuple[str, ...]
    partials: tuple[Value, ...] = ()

    @property
    def node(self) -> ast.Call:
        """The call itself."""
        node = self.value.node
        if not isinstance(node, ast.Call):
            raise TypeError(f"{node!r} is no call")
        return node

    @property
    def scope(self) -> Scope:
        """The function it stands in."""
        return self.value.at.scope

    @cached_property
    def bound(self) -> dict[str, str]:
        """The code of each argument that is given, by parameter; positional ones past the known names as ``#8``."""
        positional, keywords, opened = arguments(self.value, self.partials)
        found = {}
        for place, value in enumerate(positional):
            if isinstance(value.node, ast.Starred):  # what follows may be any parameter
                found["*"] = ", ".join(each.code for each in positional[place:])
                break
            found[self.names[place] if place < len(self.names) else f"#{place + 1}"] = value.code
        found |= {name: value.code for name, value in keywords.items()}
        for value in opened:
            found["**" if "**" not in found else f"**{len(found)}"] = value.code
        return found

    def given(self, name: str, frames: tuple[Frame, ...] = ()) -> tuple[Filled | None, list[Filled]]:
        """Return the argument for a parameter, seen inside ``frames``, and the opened ones that may hold it."""
        call = replace(self.value, frames=frames)
        return fill(list(self.names), call, self.partials, name)


class Finder:
    """Kernel calls of one program."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._program = resolver.program
        self._contexts: dict[Scope, tuple[tuple[Frame, ...], ...]] = {}

    def calls(self, module: Module) -> Iterator[Call]:
        """Yield every kernel call of a file, in the order they are written."""
        if not KERNELS.search(module.read.source):
            return
        for scope in module.scopes:
            for node, at in scope.calls:
                found = self._call(node, at)
                if found is not None:
                    yield found

    def _call(self, node: ast.Call, at: At) -> Call | None:
        name = names.last(node.func)
        if name in signatures.NAMES:
            return self._direct(node, at, name)
        if len(node.args) + len(node.keywords) < 3 or not _HOLDER.search(name) or not self._is_variable(node.func, at):
            return None
        for callee in self._resolver.callees(Value(node, at)):
            last = callee.external.rsplit(".", 1)[-1]
            if callee.scope is not None and callee.scope.short in signatures.NAMES:
                last = callee.scope.short
            signature = signatures.known(last, callee.external)
            if signature is not None:
                return Call(Value(node, at), signature, self._names(signature, callee.scope), callee.partials)
        return None

    def _is_variable(self, func: ast.expr, at: At) -> bool:
        if isinstance(func, ast.Attribute):
            return isinstance(func.value, ast.Name) and func.value.id == at.scope.receiver
        bindings = self._program.bindings(func.id, at)[0] if isinstance(func, ast.Name) else ()
        return any(binding.way == "assign" for binding in bindings)

    def _direct(self, node: ast.Call, at: At, name: str) -> Call | None:
        if at.scope.short == name:
            return None  # a wrapper of the same name hands on what it was given: its callers are judged
        full = self._program.full_name(node.func, at)
        found = self._program.meaning(node.func, at)
        scope = found if isinstance(found, Scope) else None
        signature = signatures.known(name, full)
        return Call(Value(node, at), signature, self._names(signature, scope)) if signature is not None else None

    @staticmethod
    def _names(signature: Signature, scope: Scope | None) -> tuple[str, ...]:
        node = scope.function if scope is not None else None
        if node is None or node.args.vararg is not None:
            return signature.names
        own = tuple(each.arg for each in (*node.args.posonlyargs, *node.args.args))
        return own if signature.scale in parameters(scope) else signature.names  # type: ignore[arg-type]

    def contexts(self, scope: Scope, depth: int = _DEEPEST) -> tuple[tuple[Frame, ...], ...]:
        """Return the ways into a function, as the calls that lead to it: arguments of one call belong together."""
        if depth == 0 or scope.function is None:
            return ((),)
        if depth == _DEEPEST and scope in self._contexts:
            return self._contexts[scope]
        found: list[tuple[Frame, ...]] = []
        for site in self._resolver.callers.sites(scope):
            if site.call.at.scope is scope:
                continue
            for outer in self.contexts(site.call.at.scope, depth - 1):
                if any(frame.function is scope for frame in outer):
                    continue
                partials = tuple(replace(each, frames=outer) for each in site.partials)
                frame = Frame(scope, replace(site.call, frames=outer), partials, site.bound, site.why)
                found.append((*outer, frame))
        made = tuple(found) if 0 < len(found) <= _MOST_CONTEXTS else ((),)
        if depth == _DEEPEST:
            self._contexts[scope] = made
        return made
