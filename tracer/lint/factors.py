"""What a tensor was multiplied by on its way: the scalars in ``q = q * self.scaling``, through reshapes and rotations.

A projection makes queries or keys of something else, a norm undoes any factor, a rotation keeps their length; what
another multiplication, or a function that is not among the files, does to them is not known. Must not know: kernels,
rules.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tracer.lint import names
from tracer.lint.algebra import Algebra, Product
from tracer.lint.facts import Scope
from tracer.lint.resolve import Resolver
from tracer.lint.values import Root, RootKind, Value
from tracer.texts import message

SHAPE_ONLY = frozenset((
    "view", "reshape", "transpose", "permute", "contiguous", "to", "float", "half", "bfloat16", "type", "unsqueeze",
    "squeeze", "flatten", "unflatten", "expand", "type_as", "movedim", "swapaxes", "clone", "detach", "double",
    "cuda", "cpu", "chunk", "split", "repeat_interleave", "repeat", "t", "mT", "unbind", "view_as", "expand_as",
    "reshape_as", "moveaxis", "swapdims", "narrow", "select", "index_select", "tensor_split", "tile", "rearrange",
    "astype", "pin_memory", "requires_grad_", "index_copy", "index_copy_", "copy_", "split_with_sizes", "roll",
    "masked_select", "broadcast_to", "view_as_real", "view_as_complex",
    "unpad_input", "pad_input", "gather", "repeat_kv", "as_strided", "unfold",
))  # fmt: skip
_MODULES = ("torch", "F", "nn", "np", "numpy", "jnp", "jax", "mx", "einops", "tf")
_SOURCES = ("proj", "norm", "linear", "qkv", "dense", "fc", "conv", "embed", "matmul", "einsum", "bmm")
_PROJECTIONS = ("wq", "wk", "w_q", "w_k", "to_q", "to_k", "q", "k", "query", "key", "q_lin", "k_lin")
_HANDS_ON = (
    "rot",
    "rope",
    "update",
    "expand_kv",
    "gather",
    "view",
    "stride",
    "contiguous",
)  # argument n comes back as result n
_NORMS = ("rsqrt", "layer_norm", "rms_norm", "normalize", "norm", "var", "std", "var_mean")
_EMPTY = ("zeros", "zeros_like", "new_zeros", "empty", "new_empty")
_MOST = 8


class Factors:
    """The scalar factors of one program's tensors."""

    def __init__(self, resolver: Resolver, algebra: Algebra) -> None:
        self._resolver = resolver
        self._algebra = algebra
        self._known: dict[tuple[Value, Scope], tuple[Product, ...]] = {}

    def of(self, value: Value) -> tuple[Product, ...]:
        """Return what the tensor was multiplied by, one product a way it may have come."""
        return self._of(value, value.at.scope, 0) or (Product(),)

    def scalar(self, value: Value) -> tuple[Product, ...]:
        """Return the products of an operand that is a scale; empty where it is none, or may be a tensor."""
        products = self._algebra.products(value)
        if all(product.known and not product.none for product in products):
            return products
        name = names.stem(value.node)
        return products if name.startswith(("scal", "softmax_scal", "sm_scale", "norm_fac", "qk_scale")) else ()

    def _of(self, value: Value, start: Scope, depth: int) -> tuple[Product, ...]:
        key = (value, start)
        if key not in self._known:
            far = (Product(known=False, why=message("lint.too_far")),)
            if depth > 16:
                return far
            self._known[key] = far  # what is made of itself
            found = tuple(dict.fromkeys(self._ways(value, start, depth)))
            many = (Product(known=False, why=message("lint.too_many", count=len(found))),)
            self._known[key] = found if len(found) <= _MOST else many
        return self._known[key]

    def _ways(self, value: Value, start: Scope, depth: int) -> Iterator[Product]:
        for root in self._resolver.roots(value):
            changed = self._changed(value, root)
            if changed is not None:
                yield _unknown(changed)
                continue
            for product in self._of_root(root, start, depth):
                steps = (*root.steps, *product.steps) if product.powers or product.coefficient != 1 else product.steps
                yield replace(product, steps=steps)

    def _changed(self, value: Value, root: Root) -> Value | None:
        """The place where a part of the tensor is written anew: ``q[..., :n] *= 2``. A cache is written to by trade."""
        for each in (value, *(step.value for step in root.steps)):
            if isinstance(each.node, ast.Name) and not _of_cache(each.node):
                bindings, _ = self._resolver.program.bindings(each.node.id, each.at)
                for binding in bindings:
                    if binding.way == "update" and isinstance(binding.node, ast.Subscript):
                        return replace(each, node=binding.node, at=binding.at, path=())
        return None

    def _of_root(self, root: Root, start: Scope, depth: int) -> Iterator[Product]:
        node, value = root.value.node, root.value
        if value.at.scope is not start and _normalises(value.at.scope):
            yield Product()
        elif isinstance(node, ast.BinOp):
            yield from self._operation(value, node, start, depth)
        elif isinstance(node, ast.Call):
            yield from self._call(value, node, start, depth)
        elif isinstance(node, ast.Attribute | ast.Subscript) and _only_views(root, node):
            yield from self._of(value.of(node.value), start, depth + 1)
        elif isinstance(node, ast.GeneratorExp | ast.ListComp):
            yield from self._of(value.of(node.elt), start, depth + 1)
        elif root.kind is RootKind.OPERATION and not isinstance(node, ast.Subscript):
            yield _unknown(value)
        else:  # a parameter, an attribute, a name: queries as they are given
            yield Product()

    def _operation(self, value: Value, node: ast.BinOp, start: Scope, depth: int) -> Iterator[Product]:
        if isinstance(node.op, ast.MatMult):
            yield Product()  # a projection
        elif isinstance(node.op, ast.Mult | ast.Div):
            yield from self._times(value, node, start, depth)
        elif isinstance(node.op, ast.Add | ast.Sub):
            rotated = self._rotated(value, node)
            both = [names.is_query(each) or names.is_key(each) for each in (node.left, node.right)]
            if all(both):  # q + q
                yield _unknown(value)
            elif rotated is not None:
                yield from self._of(rotated, start, depth + 1)
            else:
                yield from self._all_alike(value, (node.left, node.right), start, depth)
        else:
            yield _unknown(value)

    def _times(self, value: Value, node: ast.BinOp, start: Scope, depth: int) -> Iterator[Product]:
        sides = [(node.right, node.left)]
        if isinstance(node.op, ast.Mult):
            sides.append((node.left, node.right))
        for side, rest in sides:
            scalars = self.scalar(value.of(side))
            if scalars:
                sign = -1 if isinstance(node.op, ast.Div) else 1
                for inner in self._of(value.of(rest), start, depth + 1):
                    for scalar in scalars:
                        yield replace(inner.times(scalar, sign), origin=value)
                return
        for side, rest in sides:  # a rotation written in complex numbers
            if any(word in names.stem(_bare(side)) for word in ("freqs", "cis")):
                yield from self._of(value.of(rest), start, depth + 1)
                return
        yield _unknown(value)

    def _all_alike(self, value: Value, parts: Sequence[ast.expr], start: Scope, depth: int) -> Iterator[Product]:
        """What is added or joined has a factor where all parts have the same one."""
        found = [tuple(dict.fromkeys(self._of(value.of(part), start, depth + 1))) for part in parts]
        alike = {(p.known, p.coefficient, p.powers) for each in found for p in each}
        if len(alike) == 1 and found:
            yield from found[0]
        else:
            yield _unknown(value)

    def _rotated(self, value: Value, node: ast.BinOp) -> Value | None:
        """Return x of ``x * cos + turned(x) * sin``, which keeps the length of x."""
        sides = []
        for side in (node.left, node.right):
            if not (isinstance(side, ast.BinOp) and isinstance(side.op, ast.Mult)):
                return None
            sides.append([(kind, each) for each, kind in self._kinds(value, side)])
        kinds = {kind for side in sides for kind, _ in side if kind}
        if kinds != {"cos", "sin"}:
            return None
        return next((value.of(each) for side in sides for kind, each in side if not kind), None)

    def _kinds(self, value: Value, node: ast.BinOp) -> Iterator[tuple[ast.expr, str]]:
        for each in (node.left, node.right):
            yield each, next((word for word in ("cos", "sin") if word in names.stem(_bare(each))), "")

    # ---------------------------------------------------------------------------------------------------- calls

    def _call(self, value: Value, node: ast.Call, start: Scope, depth: int) -> Iterator[Product]:
        called = names.last(node.func)
        subject = self._subject(value, node)
        if called in SHAPE_ONLY and subject is not None:
            yield from self._of(value.of(subject), start, depth + 1)
        elif called in ("mul", "mul_", "div", "div_", "multiply") and subject is not None and self._second(value, node):
            op = ast.Mult() if called.startswith("mul") else ast.Div()
            joined = ast.copy_location(ast.BinOp(subject, op, self._second(value, node)), node)  # type: ignore[arg-type]
            yield from self._times(value, joined, start, depth)
        elif called in ("cat", "concat", "stack", "concatenate"):
            yield from self._joined(value, node, start, depth)
        elif called == "pad" and subject is not None:
            for product in self._of(value.of(subject), start, depth + 1):
                yield replace(product, widened=value) if _widens(node) else product
        elif any(part in called.lower() for part in _HANDS_ON):
            key = value.path[0] if value.path else (0, 0)
            place = key[0] if isinstance(key, tuple) else 0
            if 0 <= place < len(node.args):
                yield from self._of(value.of(node.args[place]), start, depth + 1)
            else:
                yield Product()
        else:
            yield self._other_call(value, node, called.lower())

    def _joined(self, value: Value, node: ast.Call, start: Scope, depth: int) -> Iterator[Product]:
        """Parts put together, without those that come out of a cache: that holds what earlier calls put in."""
        listed = node.args[0] if node.args else None
        if not isinstance(listed, ast.List | ast.Tuple):
            yield Product()
            return
        parts = [each for each in listed.elts if not isinstance(each, ast.Starred)]
        fresh = [each for each in parts if not _of_cache(each)] or parts
        empty = [each for each in fresh if self._is_empty(value.of(each))]
        kept = [each for each in fresh if each not in empty]
        for product in self._all_alike(value, kept, start, depth) if kept else (Product(),):
            yield replace(product, widened=value) if empty else product

    def _is_empty(self, value: Value) -> bool:
        roots = self._resolver.roots(value)
        return bool(roots) and all(
            isinstance(root.value.node, ast.Call) and names.last(root.value.node.func) in _EMPTY for root in roots
        )

    def _other_call(self, value: Value, node: ast.Call, called: str) -> Product:
        """Another call makes queries of something else, or may do anything with the size of those it is given."""
        if any(word in called for word in _SOURCES) or called in _PROJECTIONS:
            return Product(origin=value)
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        if isinstance(node.func, ast.Attribute):
            given.append(node.func.value)
        return _unknown(value) if any(_holds_queries(each) for each in given) else Product(origin=value)

    def _is_module(self, value: Value, func: ast.expr) -> bool:
        full = self._resolver.program.full_name(func, value.at)
        return "." in full and full.split(".")[0] in _MODULES

    def _subject(self, value: Value, node: ast.Call) -> ast.expr | None:
        """The tensor that ``x.view(…)`` or ``torch.transpose(x, …)`` is about."""
        if isinstance(node.func, ast.Attribute) and not self._is_module(value, node.func):
            return node.func.value
        first = node.args[0] if node.args else None
        return None if isinstance(first, ast.Starred) else first

    def _second(self, value: Value, node: ast.Call) -> ast.expr | None:
        method = isinstance(node.func, ast.Attribute) and not self._is_module(value, node.func)
        place = 0 if method else 1
        return node.args[place] if len(node.args) > place else None


def _unknown(value: Value) -> Product:
    code = " ".join(value.code.split())
    return Product(known=False, origin=value, why=message("lint.factor_unknown", code=code[:80]))


def _normalises(scope: Scope) -> bool:
    """Whether a function divides by the length or the spread of what it is given, so that a factor does not matter."""
    return any(names.last(call.func).lstrip("_") in _NORMS for call, _ in scope.calls)


def _bare(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Subscript) or (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        if isinstance(node, ast.Call) and names.last(node.func) in ("cos", "sin"):
            return node.func
        node = node.value if isinstance(node, ast.Subscript) else node.func.value  # type: ignore[attr-defined]
    return node


def _widens(node: ast.Call) -> bool:
    """Whether padding reaches the last axis."""
    amounts = node.args[1] if len(node.args) > 1 else None
    if not isinstance(amounts, ast.Tuple | ast.List) or len(amounts.elts) < 2:
        return True
    return any(not (isinstance(each, ast.Constant) and each.value == 0) for each in amounts.elts[:2])


def _of_cache(node: ast.expr) -> bool:
    text = ast.unparse(node).lower()
    return any(word in text for word in ("past", "cache", "prev", "memory"))


def _holds_queries(node: ast.expr) -> bool:
    """Whether an argument is queries or keys, or is made of them in place."""
    return any(
        (names.is_query(each) or names.is_key(each)) and "cache" not in names.stem(each)
        for each in ast.walk(node)
        if isinstance(each, ast.Name | ast.Attribute | ast.Subscript)
    )


def _only_views(root: Root, node: ast.Attribute | ast.Subscript) -> bool:
    """Whether an attribute or index shows the same numbers otherwise: ``k.mT``, ``k[:, :n]``."""
    if isinstance(node, ast.Attribute):
        return node.attr in ("T", "mT", "data")
    return root.kind is RootKind.OPERATION
