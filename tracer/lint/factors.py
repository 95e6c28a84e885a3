"""What a tensor was multiplied by on its way: the scalars in ``q = q * self.scaling``, through reshapes and rotations.

Must not know: kernels, rules.
"""

import ast
from collections.abc import Iterator
from dataclasses import replace

from tracer.lint import names
from tracer.lint.algebra import Algebra, Product
from tracer.lint.resolve import Resolver
from tracer.lint.values import Root, RootKind, Value

SHAPE_ONLY = frozenset((
    "view", "reshape", "transpose", "permute", "contiguous", "to", "float", "half", "bfloat16", "type", "unsqueeze",
    "squeeze", "flatten", "unflatten", "expand", "type_as", "movedim", "swapaxes", "clone", "detach", "double",
    "cuda", "cpu", "chunk", "split", "repeat_interleave", "repeat", "t", "mT", "unbind",
))  # fmt: skip
_HANDS_ON = ("rot", "rope", "update", "repeat_kv", "expand_kv", "pad", "gather")  # argument n comes back as result n
_MOST = 8


class Factors:
    """The scalar factors of one program's tensors."""

    def __init__(self, resolver: Resolver, algebra: Algebra) -> None:
        self._resolver = resolver
        self._algebra = algebra

    def of(self, value: Value) -> tuple[Product, ...]:
        """Return what the tensor was multiplied by, one product a way it may have come; 1 where nothing is seen."""
        found = tuple(dict.fromkeys(self._of(value, 0)))
        return found[:_MOST] if found else (Product(),)

    def scalar(self, value: Value) -> tuple[Product, ...]:
        """Return the products of an operand that is a scale; empty where it is none, or may be a tensor."""
        products = self._algebra.products(value)
        if all(product.known and not product.none for product in products):
            return products
        name = names.stem(value.node)
        return products if name.startswith(("scal", "softmax_scal", "sm_scale", "norm_fac", "qk_scale")) else ()

    def _of(self, value: Value, depth: int) -> Iterator[Product]:
        if depth > 16:
            yield Product()
            return
        for root in self._resolver.roots(value):
            for product in self._of_root(root, depth):
                steps = (*root.steps, *product.steps) if product.powers or product.coefficient != 1 else product.steps
                yield replace(product, steps=steps)

    def _of_root(self, root: Root, depth: int) -> Iterator[Product]:
        node, value = root.value.node, root.value
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
            yield from self._times(value, node, depth)
        elif isinstance(node, ast.Call):
            yield from self._call(value, node, depth)
        elif isinstance(node, ast.Attribute | ast.Subscript) and _only_views(root, node):
            yield from self._of(value.of(node.value), depth + 1)
        else:
            yield Product()

    def _times(self, value: Value, node: ast.BinOp, depth: int) -> Iterator[Product]:
        sides = [(node.right, node.left)]
        if isinstance(node.op, ast.Mult):
            sides.append((node.left, node.right))
        for side, rest in sides:
            scalars = self.scalar(value.of(side))
            if scalars:
                sign = -1 if isinstance(node.op, ast.Div) else 1
                for inner in self._of(value.of(rest), depth + 1):
                    for scalar in scalars:
                        yield replace(inner.times(scalar, sign), origin=value)
                return
        yield Product()

    def _call(self, value: Value, node: ast.Call, depth: int) -> Iterator[Product]:
        called = names.last(node.func)
        if isinstance(node.func, ast.Attribute) and called in SHAPE_ONLY:
            yield from self._of(value.of(node.func.value), depth + 1)
        elif isinstance(node.func, ast.Attribute) and called in ("mul", "mul_", "div", "div_") and node.args:
            op = ast.Mult() if called.startswith("mul") else ast.Div()
            joined = ast.copy_location(ast.BinOp(node.func.value, op, node.args[0]), node)
            yield from self._times(value, joined, depth)
        elif called in ("cat", "concat") and node.args and isinstance(node.args[0], ast.List | ast.Tuple):
            parts = [each for each in node.args[0].elts if not isinstance(each, ast.Starred)]
            yield from self._of(value.of(parts[-1]), depth + 1) if parts else (Product(),)  # the cache comes first
        elif any(part in called.lower() for part in _HANDS_ON):
            key = value.path[0] if value.path else (0, 0)
            place = key[0] if isinstance(key, tuple) else 0
            if 0 <= place < len(node.args):
                yield from self._of(value.of(node.args[place]), depth + 1)
            else:
                yield Product()
        else:
            yield self._unknown_call(value, node, called.lower())

    @staticmethod
    def _unknown_call(value: Value, node: ast.Call, called: str) -> Product:
        """A projection makes queries of something else and a norm undoes any factor; another call that is given
        queries or keys may do anything with their size."""
        given = [*node.args, node.func.value] if isinstance(node.func, ast.Attribute) else list(node.args)
        source = any(word in called for word in ("proj", "norm", "linear", "qkv", "dense", "split", "fc"))
        tensors = any(names.is_query(each) or names.is_key(each) for each in given)
        return Product(known=source or not tensors, origin=value)


def _only_views(root: Root, node: ast.Attribute | ast.Subscript) -> bool:
    """Whether an attribute or index shows the same numbers otherwise: ``k.mT``, ``k[:, :n]``."""
    if isinstance(node, ast.Attribute):
        return node.attr in ("T", "mT", "data")
    return root.kind is RootKind.OPERATION
