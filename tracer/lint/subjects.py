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
from tracer.lint.gather import Read
from tracer.lint.program import parameters
from tracer.lint.resolve import Resolver
from tracer.lint.signatures import Signature
from tracer.lint.values import Filled, Frame, RootKind, Value, arguments, fill

KERNELS = re.compile(r"flash_attn_\w*func|flash_attn_with_kvcache|scaled_dot_product_attention")
_RENAMED = re.compile(rf"(?:{KERNELS.pattern})\s+as\s+(\w+)")
_IMPORT = re.compile(r"^[ \t]*from[^\n(]*import(?:[^\n(]*$|\s*\([^)]*\))", re.MULTILINE)
_WORD = re.compile(r"\w+")
_MOST_CONTEXTS = 12
_DEEPEST = 3


@dataclass(frozen=True)
class Call:
    """One call of a kernel. ``names`` are its parameters in order: those of its definition ``own`` where that is among
    the files, else those of ``signature``."""

    value: Value
    signature: Signature
    names: tuple[str, ...]
    partials: tuple[Value, ...] = ()
    own: Scope | None = None

    @property
    def title(self) -> str:
        """``flash-attn 2.1–2.8: flash_attn_func``, or where its own definition is."""
        if self.own is None:
            return self.signature.title
        line = getattr(self.own.node, "lineno", 0)
        return f"{self.own.module.read.file.name}:{line}: {self.own.short}"

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
        self._followed: set[ast.AST] = set()  # names of kernels that a call was traced to

    def calls(self, module: Module) -> Iterator[Call]:
        """Yield every kernel call of a file, in the order they are written."""
        if not self.may_call(module.read):
            return
        for scope in module.scopes:
            for node, at in scope.calls:
                found = self._call(node, at)
                if found is not None:
                    yield found

    def may_call(self, read: Read) -> bool:
        """Whether a file's text names a kernel, or imports one under the name that another file gives it."""
        if KERNELS.search(read.source):
            return True
        names = self._renamed
        return bool(names) and any(names & set(_WORD.findall(line)) for line in _IMPORT.findall(read.source))

    @cached_property
    def _renamed(self) -> frozenset[str]:
        return frozenset(found[1] for read in self._program.files for found in _RENAMED.finditer(read.source))

    def unfollowed(self, module: Module) -> Iterator[tuple[Value, str]]:
        """Yield the mentions of a kernel that is not called there, and that no call was traced to: given to another
        function, put into a table. To be asked after the calls of all files."""
        if not KERNELS.search(module.read.source):
            return
        called = {id(node.func) for scope in module.scopes for node, _ in scope.calls}
        inside = {
            id(part) for scope in module.scopes for node, _ in scope.calls if _asks_about(node) for part in node.args
        }
        for scope in module.scopes:
            for node, at in scope.mentions:
                whole = module.above.get(node, node)
                if id(whole) in called or id(whole) in inside or whole in self._followed:
                    continue
                if whole is not node and (isinstance(whole.ctx, ast.Store) or node.id == scope.receiver):
                    continue
                name = self._program.full_name(whole, at).rsplit(".", 1)[-1]
                if name in signatures.NAMES and not isinstance(self._program.meaning(whole, at), Scope):
                    yield Value(whole, at), name

    def _call(self, node: ast.Call, at: At) -> Call | None:
        name = names.last(node.func)
        full = self._full(node.func, at)
        if name in signatures.NAMES or full.rsplit(".", 1)[-1] in signatures.NAMES:
            return self._direct(node, at, name if name in signatures.NAMES else full.rsplit(".", 1)[-1])
        if not (node.args or node.keywords) or not self._is_variable(node.func, at):
            return None
        for callee in self._resolver.callees(Value(node, at)):
            last = callee.external.rsplit(".", 1)[-1]
            if callee.scope is not None and callee.scope.short in signatures.NAMES:
                last = callee.scope.short
            signature = signatures.known(last, callee.external)
            if signature is not None:
                self._follow(Value(node, at))
                own = callee.scope if callee.scope is not None and not _judged_inside(callee.scope) else None
                return Call(Value(node, at), signature, self._names(signature, own, callee.bound), callee.partials, own)
        return None

    def _full(self, func: ast.expr, at: At) -> str:
        """The full name of what is called, followed through files that hand it on under another name."""
        full = self._program.full_name(func, at)
        for _ in range(4):
            module, _, name = full.rpartition(".")
            found = self._program.find(module, at.scope.module) if module else None
            bindings = found.top.bound.get(name, ()) if isinstance(found, Module) else ()
            imported = [binding.key for binding in bindings if binding.way == "import"]
            if not imported:
                return full
            full = imported[-1]
        return full

    def _follow(self, call: Value) -> None:
        """Remember which mentions of kernels a call was traced to."""
        func = call.node.func if isinstance(call.node, ast.Call) else call.node
        for root in self._resolver.roots(call.of(func)):
            node = root.value.node
            self._followed.add(node)
            if root.kind is RootKind.PARTIAL and isinstance(node, ast.Call):
                self._followed.add(node.args[0])

    def _is_variable(self, func: ast.expr, at: At) -> bool:
        if isinstance(func, ast.Subscript):
            return True
        if isinstance(func, ast.Attribute):
            return isinstance(func.value, ast.Name) and func.value.id == at.scope.receiver
        bindings = self._program.bindings(func.id, at)[0] if isinstance(func, ast.Name) else ()
        return any(binding.way == "assign" for binding in bindings)

    def _direct(self, node: ast.Call, at: At, name: str) -> Call | None:
        signature = signatures.known(name, self._full(node.func, at))
        if signature is None:
            return None
        if at.scope.short == name and hands_on(node, signature.scale, at.scope):
            return None  # a wrapper of the same name: its callers are judged
        if self._is_variable(node.func, at):
            self._follow(Value(node, at))
        own, bound = self._own(node, at)
        if own is not None and _judged_inside(own) and signature.scale not in parameters(own):
            return None  # attention of the files' own, which is judged where it stands
        return Call(Value(node, at), signature, self._names(signature, own, bound), (), own)

    def _own(self, node: ast.Call, at: At) -> tuple[Scope | None, bool]:
        """The definition among the files of what is called, and whether it is a method of an object."""
        found = self._program.meaning(node.func, at)
        if isinstance(found, Scope):
            return found, False
        if isinstance(node.func, ast.Attribute):
            for callee in self._resolver.callees(Value(node, at)):
                if callee.scope is not None:
                    return callee.scope, callee.bound
        return None, False

    @staticmethod
    def _names(signature: Signature, own: Scope | None, bound: bool) -> tuple[str, ...]:
        node = own.function if own is not None else None
        if node is None or node.args.vararg is not None:
            return signature.names
        return tuple(each.arg for each in (*node.args.posonlyargs, *node.args.args))[1 if bound else 0 :]

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


def hands_on(node: ast.Call, scale: str, scope: Scope) -> bool:
    """Whether a wrapper gives the kernel the scale that it was given."""
    given = [keyword.value for keyword in node.keywords if keyword.arg in (scale, None)]
    given += [each.value for each in node.args if isinstance(each, ast.Starred)]
    own = parameters(scope)
    return any(isinstance(each, ast.Name) and each.id in own for each in given)


def _judged_inside(own: Scope) -> bool:
    """Whether a function holds attention that is found where it stands."""
    return any(names.last(call.func) in (*signatures.NAMES, "softmax") for call, _ in own.calls)


def _asks_about(call: ast.Call) -> bool:
    """Whether a call only asks about a function: its signature, whether it is there."""
    return names.last(call.func) in ("signature", "hasattr", "callable", "getsource", "isinstance", "partial", "wraps")
