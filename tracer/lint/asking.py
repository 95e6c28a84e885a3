"""Small questions to a syntax tree: what a test asks, which default a parameter has, which key an index stands for.

Must not know: how values are followed.
"""

import ast
import re

from tracer.lint.facts import Key, Scope
from tracer.lint.values import Root, RootKind
from tracer.texts import Message, message

_TRANSPARENT = re.compile(  # of Python and torch, or of a library: they add checks, caches, compilation, other kernels
    r"^(property|cached_property|staticmethod|classmethod|abstractmethod|override|wraps|lru_cache|cache|compile|jit|"
    r"script|disable|no_grad|inference_mode|export|ignore|unused|overload|typechecked|jaxtyped|final|setter|"
    r"deprecate_\w+|use_kernel\w*|support_torch_compile|maybe_\w+|dynamo_\w+|torch_compile\w*|custom_fwd)$"
)


def looked_up(node: ast.Call, name: str) -> ast.Attribute:
    """Return the one attribute node that stands for a ``getattr`` call, so that answers about it can be kept."""
    made: ast.Attribute | None = getattr(node, "looked_up", None)
    if made is None:
        made = ast.copy_location(ast.Attribute(node.args[0], name, ast.Load()), node)
        node.looked_up = made  # type: ignore[attr-defined]
    return made


def index_key(node: ast.expr) -> Key | None:
    """Return the key that a written-out index stands for."""
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        sign, node = -1, node.operand
    if not isinstance(node, ast.Constant) or isinstance(node.value, bool):
        return None
    if isinstance(node.value, int):
        return (sign * node.value, 0)
    return f"[{node.value}]" if isinstance(node.value, str) else None


def asks_none(test: tuple[ast.expr, bool], name: str) -> bool:
    """Whether a test holds only where ``name`` is None."""
    node, held = test
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And) and held:
        return any(asks_none((each, True), name) for each in node.values)
    if not (isinstance(node, ast.Compare) and isinstance(node.left, ast.Name) and node.left.id == name):
        return False
    return says_none(node.comparators[0]) and isinstance(node.ops[0], ast.Is if held else ast.IsNot)


def is_none(root: Root) -> bool:
    node = root.value.node
    return root.kind is RootKind.LITERAL and isinstance(node, ast.Constant) and node.value is None


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def none_guard(node: ast.IfExp) -> bool | None:
    """Return in which arm a value is known not to be None: True ``x if x is not None``, False ``y if x is None``."""
    test = node.test
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not says_none(test.comparators[0]):
        return None
    tested = ast.dump(test.left)
    if isinstance(test.ops[0], ast.IsNot) and ast.dump(node.body) == tested:
        return True
    return False if isinstance(test.ops[0], ast.Is) and ast.dump(node.orelse) == tested else None


def says_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def decorated(scope: Scope) -> Message | None:
    """Return why a function may give something else than it returns: a decorator that is not known to leave that."""
    for each in getattr(scope.node, "decorator_list", ()):
        func = each.func if isinstance(each, ast.Call) else each
        name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
        if not _TRANSPARENT.search(name):
            return message("lint.decorated", function=scope.short, decorator=name or ast.unparse(func))
    return None


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
