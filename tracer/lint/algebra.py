"""What a scale is as a product of powers: ``1 / math.sqrt(d)`` and ``d ** -0.5`` are the same, ``1 / d`` is not.

Must not know: kernels, rules.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction

from tracer.lint import names
from tracer.lint.resolve import Resolver
from tracer.lint.values import Root, RootKind, Step, Value
from tracer.texts import Message, message

HEAD_DIM, HIDDEN, HEADS, PER_HEAD = "head_dim", "hidden_size", "num_heads", "hidden_size//num_heads"
_MOST = 16
_SAME = ("float", "int", "tensor", "as_tensor", "Tensor", "float32", "float64", "scalar_tensor", "full", "to", "item")
_SAME_METHODS = ("item", "float", "to", "type", "type_as", "double")


@dataclass(frozen=True)
class Product:
    """``coefficient`` times symbols to powers, with the steps to its origin. ``known`` False: the files do not say.
    ``none``: it is None, and the kernel takes its default."""

    coefficient: float = 1.0
    powers: tuple[tuple[str, Fraction], ...] = ()
    known: bool = True
    none: bool = False
    steps: tuple[Step, ...] = ()
    origin: Value | None = None
    why: Message | None = field(default=None, compare=False)
    measured: bool = False  # taken from the last axis of a tensor
    widened: Value | None = None  # the padding that made that axis wider

    @property
    def normal(self) -> str:
        """``head_dim**-0.5``, its normal form."""
        parts = [_power(symbol, power) for symbol, power in self.powers]
        if self.coefficient != 1 or not parts:
            parts.insert(0, f"{self.coefficient:.6g}")
        return " * ".join(parts)

    def is_power(self, symbol: str, power: Fraction) -> bool:
        """Whether this is exactly that symbol to that power."""
        return self.known and not self.none and abs(self.coefficient - 1) < 1e-9 and self.powers == ((symbol, power),)

    def times(self, other: "Product", sign: int = 1) -> "Product":
        """Return the product (or, with ``sign`` -1, the quotient) of two."""
        if not self.known or not other.known or self.none or other.none or (sign < 0 and other.coefficient == 0):
            return Product(
                known=False,
                steps=self.steps or other.steps,
                why=self.why or other.why,
                widened=self.widened or other.widened,
            )
        merged = dict(self.powers)
        for symbol, power in other.powers:
            merged[symbol] = merged.get(symbol, Fraction(0)) + sign * power
        coefficient = self.coefficient * other.coefficient if sign > 0 else self.coefficient / other.coefficient
        if merged.get(HIDDEN, 0) == -merged.get(HEADS, Fraction(0)) != 0:  # hidden_size / num_heads
            power = merged.pop(HIDDEN)
            merged.pop(HEADS)
            merged[PER_HEAD] = merged.get(PER_HEAD, Fraction(0)) + power
        kept = tuple(sorted((s, p) for s, p in merged.items() if p))
        return Product(
            coefficient,
            kept,
            steps=self.steps or other.steps,
            origin=self.origin or other.origin,
            why=self.why or other.why,
            measured=self.measured or other.measured,
            widened=self.widened or other.widened,
        )

    def to_the(self, power: Fraction) -> "Product":
        """Return this to a power."""
        if not self.known or self.none or self.coefficient < 0 or (self.coefficient == 0 and power < 0):
            return replace(self, known=False)
        raised = tuple((symbol, each * power) for symbol, each in self.powers)
        return replace(self, coefficient=self.coefficient ** float(power), powers=raised)


def _power(symbol: str, power: Fraction) -> str:
    if power == 1:
        return symbol
    shown = str(power.numerator) if power.denominator == 1 else f"{float(power):g}"
    return f"({symbol})**{shown}" if "/" in symbol else f"{symbol}**{shown}"


class Algebra:
    """Products of one program's expressions."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._depth = 0
        self._known: dict[Value, tuple[Product, ...]] = {}

    def products(self, value: Value) -> tuple[Product, ...]:
        """Return what a scalar expression is, one product an origin; at least one."""
        if value in self._known:
            return self._known[value]
        if self._depth > 24:
            return (Product(known=False, why=message("lint.too_far")),)
        self._depth += 1
        self._known[value] = (Product(known=False, origin=value),)  # what is made of itself
        try:
            found = tuple(dict.fromkeys(self._products(value)))
        finally:
            self._depth -= 1
        if len(found) > _MOST:
            found = (Product(known=False, why=message("lint.too_many", count=len(found))),)
        self._known[value] = found or (Product(known=False, origin=value),)
        return self._known[value]

    def _products(self, value: Value) -> Iterator[Product]:
        if not value.path and self._says_head_dim(value.node):
            yield from self._head_dim(value)
            return
        for root in self._resolver.roots(value):
            cut = next(
                (n for n, s in enumerate(root.steps) if not s.value.path and self._says_head_dim(s.value.node)), None
            )
            if cut is not None:  # ``d = self.head_dim``
                for product in self._head_dim(root.steps[cut].value):
                    steps = (*root.steps[: cut + 1], *product.steps)
                    yield replace(product, steps=steps, why=root.why or product.why)
                continue
            for product in self._of_root(root):
                steps = (*root.steps, *product.steps) if root.steps else product.steps
                yield replace(product, steps=steps, why=root.why or product.why, origin=product.origin or root.value)

    @staticmethod
    def _says_head_dim(node: ast.AST) -> bool:
        return names.stem(node) in names.HEAD_DIM

    # ------------------------------------------------------------------------------------------------- head_dim

    def _head_dim(self, value: Value) -> Iterator[Product]:
        """Yield what a name for head_dim stands for: head_dim itself where it is read, given, measured or divided out
        there; otherwise what it is made of. A name alone proves nothing."""
        whole = Product(powers=((HEAD_DIM, Fraction(1)),), origin=value)
        for root in self._resolver.roots(value):
            for product in self._definitions(root):
                if product is None:
                    yield replace(whole, why=root.why)
                elif product.measured and product.is_power(HEAD_DIM, Fraction(1)):
                    yield replace(whole, why=root.why, measured=True)
                else:
                    why = product.why or message("lint.head_dim_of", code=root.value.code)
                    steps = (*root.steps, *product.steps)
                    origin = product.origin or root.value
                    yield replace(product, steps=steps, origin=origin, why=None if product.known else why)

    def _definitions(self, root: Root) -> Iterator[Product | None]:
        """Yield None for an origin that defines head_dim, else the product that it is."""
        node, value = root.value.node, root.value
        while isinstance(node, ast.Call) and names.last(node.func) in ("int", "round") and node.args:
            node = node.args[0]
        value = value.of(node) if node is not value.node else value
        if root.kind is RootKind.LITERAL and getattr(node, "value", 0) is None:
            return
        if root.kind is RootKind.LITERAL or self._divides_heads(value) or self._adds_head_dims(node) or _given(root):
            yield None
        elif isinstance(node, ast.Attribute) and node.attr == "shape" and value.path[:1] == ((3, 4),):
            yield Product(powers=((HEAD_DIM, Fraction(1)),), measured=True)
        else:
            for product in self._of_root(root):
                if not product.none:
                    yield None if _defines(product) else product

    def _divides_heads(self, value: Value) -> bool:
        """``inner_dim // num_heads``, whatever the whole width is called."""
        node = value.node
        if value.path or not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.FloorDiv)):
            return False
        heads = ((HEADS, Fraction(1)),)
        return names.stem(node.right).endswith("heads") or any(
            p.powers == heads for p in self.products(value.of(node.right))
        )

    def _adds_head_dims(self, node: ast.AST) -> bool:
        """``qk_nope_head_dim + qk_rope_head_dim``: a head in two parts."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._adds_head_dims(node.left) and self._adds_head_dims(node.right)
        return "head_dim" in names.stem(node)

    # --------------------------------------------------------------------------------------------------- origins

    def _of_root(self, root: Root) -> Iterator[Product]:
        node, value = root.value.node, root.value
        if not value.path and self._says_head_dim(node):
            yield Product(powers=((HEAD_DIM, Fraction(1)),), origin=value)
        elif root.kind is RootKind.LITERAL:
            yield self._literal(value)
        elif root.kind is RootKind.OPERATION and isinstance(node, ast.BinOp):
            yield from self._operation(value, node)
        elif root.kind is RootKind.OPERATION and isinstance(node, ast.BoolOp):
            for each in node.values:
                yield from self.products(value.of(each))
        elif root.kind is RootKind.CALL and isinstance(node, ast.Call):
            yield from self._call(value, node)
        elif root.kind is RootKind.ATTRIBUTE and isinstance(node, ast.Attribute):
            yield self._attribute(value, node)
        else:
            symbol = _symbol(node)
            known = symbol in (HIDDEN, HEADS) and not value.path
            why = message("lint.parameter", name=root.name, scope=root.scope.name) if root.scope and root.name else None
            yield Product(
                powers=((symbol, Fraction(1)),) if known else (), known=known, origin=value, why=None if known else why
            )

    def _literal(self, value: Value) -> Product:
        node = value.node
        sign = 1
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            sign, node = -1, node.operand
        given = getattr(node, "value", None)
        if given is None:
            return Product(none=True, origin=value)
        if isinstance(given, bool) or not isinstance(given, int | float):
            return Product(known=False, origin=value)
        try:
            return Product(sign * float(given), origin=value)
        except OverflowError:
            return Product(known=False, origin=value)

    def _operation(self, value: Value, node: ast.BinOp) -> Iterator[Product]:
        for left in self.products(value.of(node.left)):
            if not left.known:  # whatever it is joined with
                yield replace(left, origin=value)
                continue
            for right in self.products(value.of(node.right)):
                yield replace(self._combined(left, node, right), origin=value)

    @staticmethod
    def _combined(left: Product, node: ast.BinOp, right: Product) -> Product:
        match node.op:
            case ast.Mult():
                return left.times(right)
            case ast.Div():
                return left.times(right, -1)
            case ast.Pow() if right.known and not right.powers and not right.none and abs(right.coefficient) < 64:
                return left.to_the(Fraction(right.coefficient).limit_denominator(1024))
            case ast.FloorDiv():
                quotient = left.times(right, -1)
                return quotient if quotient.powers == ((PER_HEAD, Fraction(1)),) else Product(known=False)
        return Product(known=False, steps=left.steps or right.steps, why=left.why or right.why)

    def _call(self, value: Value, node: ast.Call) -> Iterator[Product]:
        called = names.last(node.func)
        method = isinstance(node.func, ast.Attribute) and not self._of_module(value, node.func)
        args = [node.func.value, *node.args] if method and isinstance(node.func, ast.Attribute) else list(node.args)
        powers = {"sqrt": Fraction(1, 2), "rsqrt": Fraction(-1, 2), "reciprocal": Fraction(-1), "square": Fraction(2)}
        if value.path or not args or any(isinstance(each, ast.Starred) for each in args):
            yield self._size(value, node)
        elif called in powers:
            for product in self.products(value.of(args[0])):
                yield replace(product.to_the(powers[called]), origin=value)
        elif called == "pow" and len(args) == 2:
            joined = ast.copy_location(ast.BinOp(args[0], ast.Pow(), args[1]), node)
            yield from self._operation(value, joined)
        elif called in (_SAME_METHODS if method else _SAME):
            for product in self.products(value.of(args[0])):
                yield replace(product, origin=product.origin or value)
        else:
            yield self._size(value, node)

    def _of_module(self, value: Value, func: ast.Attribute) -> bool:
        full = self._resolver.program.full_name(func, value.at)
        return full.split(".")[0] in ("math", "torch", "np", "numpy", "jnp", "jax", "mx", "F", "tf")

    def _size(self, value: Value, node: ast.Call) -> Product:
        """``q.size(-1)``."""
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr == "size":
            last = bool(node.args) and _is_last(node.args[0])
            if last or (value.path and _last_key(value)):
                return self._last_axis(value, func.value)
        return Product(known=False, origin=value)

    def _attribute(self, value: Value, node: ast.Attribute) -> Product:
        if node.attr == "shape" and value.path:
            return self._last_axis(value, node.value) if _last_key(value) else Product(known=False, origin=value)
        symbol = _symbol(node)
        if symbol in (HIDDEN, HEADS):
            return Product(powers=((symbol, Fraction(1)),), origin=value)
        if names.is_config(node.value) and not value.path:
            return Product(powers=((value.at.scope.module.code(node), Fraction(1)),), origin=value)
        return Product(known=False, origin=value)

    def _before_split(self, tensor: Value) -> Value | None:
        """The projection that queries or keys come straight out of, with all heads side by side."""
        for root in self._resolver.roots(tensor):
            node = root.value.node
            if isinstance(node, ast.Call) and not root.value.path:
                called = names.last(node.func).lower()
                if any(word in called for word in ("proj", "linear", "dense")) or called in (
                    "wq",
                    "wk",
                    "to_q",
                    "to_k",
                ):
                    return root.value
        return None

    def _last_axis(self, value: Value, tensor: ast.expr) -> Product:
        if names.is_query(tensor) or names.is_key(tensor):
            whole = self._before_split(value.of(tensor))
            if whole is not None:
                return Product(known=False, origin=value, why=message("lint.measured_before", code=whole.code[:80]))
            return Product(powers=((HEAD_DIM, Fraction(1)),), origin=value, measured=True)
        if names.stem(tensor) in ("x", "hidden_states", "hidden", "inputs", "input", "y"):
            return Product(powers=((HIDDEN, Fraction(1)),), origin=value)
        return Product(known=False, origin=value)


def _given(root: Root) -> bool:
    """Whether head_dim is given from elsewhere: a parameter of that name, a field of a configuration."""
    node = root.value.node
    if root.kind not in (RootKind.INPUT, RootKind.ATTRIBUTE, RootKind.EXTERNAL) or root.value.path:
        return False
    if names.stem(node) in names.HEAD_DIM or root.name.lstrip("_").lower() in names.HEAD_DIM:
        return True
    config = isinstance(node, ast.Attribute) and names.is_config(node.value)
    return config and _symbol(node) not in (HIDDEN, HEADS)


def _defines(product: Product) -> bool:
    """Whether a product may be what head_dim is defined as: itself, or hidden_size / num_heads."""
    return any(product.is_power(symbol, Fraction(1)) for symbol in (HEAD_DIM, PER_HEAD)) and not product.measured


def _symbol(node: ast.AST) -> str:
    name = names.stem(node)
    return HIDDEN if name in names.HIDDEN else HEADS if name in names.HEADS else ""


def _is_last(node: ast.expr) -> bool:
    return ast.unparse(node) in ("-1", "3")


def _last_key(value: Value) -> bool:
    key = value.path[0]
    return isinstance(key, tuple) and (key[0] == -1 or key[0] == key[1] - 1 or key == (3, 0))
