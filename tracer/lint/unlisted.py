"""Calls that compute attention by their name and their arguments, of functions whose parameters are not known here.

They are told as unknown, so that nobody takes silence for a pass. Must not know: scales, rules.
"""

import ast
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tracer.lint import names
from tracer.lint.facts import At, Class, Module, Scope
from tracer.lint.resolve import Resolver
from tracer.lint.values import RootKind, Value

NAMED = re.compile(
    r"(?:attn|attention|sdpa)\w*(?:\.\w+)?\s*(?:\[[^\]\n]*\]\s*)?\(|_with_(?:paged_|ragged_)?kv_cache\w*\(", re.I
)
_KERNEL = re.compile(r"attn|attention|sdpa|_with_(?:paged_|ragged_)?kv_cache", re.I)
_OTHER = re.compile(
    r"mask|bias|score|weight|rope|rotary|norm|reshape|split|pad|proj|cache_update|check|plan|merge|^can_|^is_|^use_|^get_",
    re.I,
)
_MODULES = ("MultiheadAttention", "MultiHeadAttention")
_SCALES = ("scale", "softmax_scale", "sm_scale", "scaling", "attn_scale")
_CAUSALS = ("causal", "is_causal")


@dataclass(frozen=True)
class Unlisted:
    """One call: what is called, and the code of its arguments by keyword or place."""

    value: Value
    name: str
    arguments: tuple[tuple[str, str], ...]
    scale: Value | None
    causal: Value | None


def unlisted(module: Module, resolver: Resolver, known: Collection[ast.AST]) -> Iterator[Unlisted]:
    """Yield the calls of unknown kernels in a file; those in ``known`` are judged otherwise."""
    if not NAMED.search(module.read.source):
        return
    for scope in module.scopes:
        for node, at in scope.calls:
            name = _name(node.func)
            if node in known or not _KERNEL.search(name):
                continue
            if name in _MODULES:
                if not isinstance(resolver.program.meaning(node.func, at), Class | Scope):
                    yield _made(node, at, name)
            elif _is_kernel(name, node) and not _in_the_files(node, at, resolver):
                yield _made(node, at, name)


def _name(func: ast.expr) -> str:
    """The name of what is called, also of ``kernel[grid](…)`` and ``attention.apply(…)``."""
    if isinstance(func, ast.Subscript):
        return names.last(func.value)
    if isinstance(func, ast.Attribute) and func.attr in ("apply", "forward", "run", "__call__"):
        return names.last(func.value)
    return names.last(func)


def _is_kernel(name: str, node: ast.Call) -> bool:
    made = name[0].isupper() and names.last(node.func) == name  # an object, not the kernel
    return not _OTHER.search(name) and not made and _takes_all(node)


def _takes_all(node: ast.Call) -> bool:
    """Whether queries, keys and values are among the arguments."""
    given: list[ast.AST] = [each.value if isinstance(each, ast.Starred) else each for each in node.args]
    for keyword in node.keywords:
        given += [keyword.value, *([ast.Name(keyword.arg, ast.Load())] if keyword.arg else [])]
    if any("qkv" in names.stem(each) for each in given):
        return True
    query = any(names.is_query(each) for each in given)
    both = any("kv" in names.stem(each) for each in given)
    return query and (both or (any(map(names.is_key, given)) and any(map(names.is_value, given))))


def _in_the_files(node: ast.Call, at: At, resolver: Resolver) -> bool:
    """Whether the call may run a function of the files, which is looked at where it stands."""
    func = node.func
    value = Value(node, at)
    if any(callee.scope is not None or callee.cls is not None for callee in resolver.callees(value)):
        return True
    if isinstance(func, ast.Attribute) and _of_files(resolver.program.meaning(func.value, at)):
        return True
    for root in resolver.roots(value.of(func)):
        if root.kind is RootKind.CALL and isinstance(
            root.value.node, ast.Call
        ):  # a choice, with one of them as default
            if names.last(root.value.node.func) in _MODULES:
                return True  # told where it is made
            asked = [*root.value.node.args, *(keyword.value for keyword in root.value.node.keywords)]
            if any(_of_files(resolver.program.meaning(each, root.value.at)) for each in asked):
                return True
        if root.kind is RootKind.INSTANCE:
            return True
    return False


def _of_files(meaning: object) -> bool:
    return isinstance(meaning, Scope | Class)


def _made(node: ast.Call, at: At, name: str) -> Unlisted:
    value = Value(node, at)
    arguments = [(f"#{place + 1}", value.of(each).code) for place, each in enumerate(node.args)]
    named = {keyword.arg: value.of(keyword.value) for keyword in node.keywords if keyword.arg is not None}
    arguments += [(keyword, given.code) for keyword, given in named.items()]
    arguments += [("**", value.of(keyword.value).code) for keyword in node.keywords if keyword.arg is None][:1]
    scale = next((named[each] for each in _SCALES if each in named), None)
    causal = next((named[each] for each in _CAUSALS if each in named), None)
    return Unlisted(value, name, tuple(arguments), scale, causal)
