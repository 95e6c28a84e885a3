"""Attention written out: a softmax over scores that are a product of queries and keys.

From the softmax the scores are followed back, through masks, scales and casts, to the product; and forward to the
product with the values. Must not know: whether any of it is right.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tracer.lint import names
from tracer.lint.algebra import Product
from tracer.lint.factors import SHAPE_ONLY, Factors
from tracer.lint.facts import At, Module, Scope
from tracer.lint.resolve import Resolver
from tracer.lint.values import Frame, Value

SOFTMAX = re.compile(r"[sS]oftmax\s*\(")
_PRODUCTS = ("matmul", "bmm", "einsum", "baddbmm")
_PASSES = frozenset((
    "dropout", "Dropout", "attn_dropout", "attn_drop", "masked_fill", "masked_fill_", "nan_to_num", "clamp",
    "maximum",
))  # fmt: skip
_MOST = 12


@dataclass(frozen=True)
class Mask:
    """Something that hides scores: ``value`` what is added or where, ``how`` add | fill | where, ``filler`` what is
    put there, for fill and where."""

    value: Value
    how: str
    filler: Value | None = None


@dataclass(frozen=True)
class Scores:
    """One way the scores came about: the product, its two operands, what it was multiplied by, what masked it."""

    product: Value
    query: Value
    key: Value
    scale: Product
    masks: tuple[Mask, ...] = ()


@dataclass(frozen=True)
class Explicit:
    """Attention written out around one softmax. ``weighted`` is the product with the values, None where it is not in
    the same function; ``after`` the masks put on the weights in between."""

    value: Value  # the softmax call
    operand: Value
    axis: ast.expr | None
    scores: tuple[Scores, ...]
    weighted: Value | None
    after: tuple[Mask, ...] = ()

    @property
    def scope(self) -> Scope:
        """The function it stands in."""
        return self.value.at.scope


class ExplicitFinder:
    """Attention written out, in one program."""

    def __init__(self, resolver: Resolver, factors: Factors) -> None:
        self._resolver = resolver
        self._factors = factors

    def find(self, module: Module) -> Iterator[Explicit]:
        """Yield every softmax of a file that attention is computed with."""
        if not SOFTMAX.search(module.read.source):
            return
        for scope in module.scopes:
            for node, at in scope.calls:
                softmax = self._softmax(node, at)
                if softmax is not None:
                    found = self._around(node, at, *softmax)
                    if found is not None:
                        yield found

    def _softmax(self, node: ast.Call, at: At) -> tuple[ast.expr, ast.expr | None] | None:
        """Return what a softmax is taken of, and its axis; None for another call."""
        func = node.func
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        if isinstance(func, ast.Call) and names.last(func.func) == "Softmax" and node.args:  # nn.Softmax(dim=-1)(x)
            inner = {keyword.arg: keyword.value for keyword in func.keywords}
            return node.args[0], inner.get("dim") or (func.args[0] if func.args else None)
        if names.last(func) != "softmax":
            return None
        args = list(node.args)
        if isinstance(func, ast.Attribute) and not self._is_function(func, at):
            args.insert(0, func.value)
        operand = args[0] if args else keywords.get("input")
        axis = keywords.get("dim") or keywords.get("axis") or (args[1] if len(args) > 1 else None)
        return None if operand is None or isinstance(operand, ast.Starred) else (operand, axis)

    def _is_function(self, func: ast.Attribute, at: At) -> bool:
        """``F.softmax`` and ``self.softmax`` take the scores as argument, ``scores.softmax`` is called on them."""
        head = self._resolver.program.full_name(func, at).split(".")[0]
        return head in ("torch", "F", "nn", "jax", "np", "mx", "tf", at.scope.receiver or "self")

    def _around(self, node: ast.Call, at: At, operand: ast.expr, axis: ast.expr | None) -> Explicit | None:
        value = Value(node, at)
        scores = self.scores(value.of(operand))
        if not scores:
            return None
        weighted, after = self._weighted(value)
        like = any(names.is_query(each.query.node) and names.is_key(each.key.node) for each in scores)
        return (
            Explicit(value, value.of(operand), axis, scores, weighted, after) if weighted is not None or like else None
        )

    # ------------------------------------------------------------------------------------------------- backwards

    def scores(self, value: Value, frames: tuple[Frame, ...] = ()) -> tuple[Scores, ...]:
        """Return the ways the scores may have come about, seen inside ``frames``; empty where they are no product."""
        found = tuple(dict.fromkeys(self._scores(replace(value, frames=frames), 0)))
        return found[:_MOST]

    def _scores(self, value: Value, depth: int) -> Iterator[Scores]:
        if depth > 14:
            return
        for root in self._resolver.roots(value):
            if not root.value.path and isinstance(root.value.node, ast.BinOp | ast.Call):
                for each in self._made(root.value, depth):
                    scale = replace(each.scale, why=each.scale.why or root.why)
                    yield replace(each, scale=scale)

    def _made(self, value: Value, depth: int) -> Iterator[Scores]:
        node = value.node
        operands = product(value)
        if operands is not None:
            left, right, extra = operands
            for scale in self._alpha(extra):
                yield Scores(value, left, right, scale)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
            yield from self._scaled(value, node, depth)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            yield from self._added(value, node, depth)
        elif isinstance(node, ast.Call):
            yield from self._called(value, node, depth)

    def _alpha(self, extra: Value | None) -> tuple[Product, ...]:
        products = self._factors.scalar(extra) if extra is not None else ()
        return products or (Product(known=extra is None),)

    def _scaled(self, value: Value, node: ast.BinOp, depth: int) -> Iterator[Scores]:
        sides = [(node.left, node.right)]
        if isinstance(node.op, ast.Mult):
            sides.append((node.right, node.left))
        for rest, side in sides:
            inner = tuple(self._scores(value.of(rest), depth + 1))
            if inner and "cap" in names.stem(side):  # a soft cap divides, bends and multiplies: the scale stays
                yield from inner
                return
            if inner:
                scalars = self._factors.scalar(value.of(side)) or (Product(known=False, origin=value.of(side)),)
                for scores in inner:
                    for scalar in scalars:
                        made = scores.scale.times(scalar, -1 if isinstance(node.op, ast.Div) else 1)
                        yield replace(
                            scores,
                            scale=replace(
                                made,
                                origin=value if isinstance(node.op, ast.Div) else scalar.origin or value,
                                steps=scalar.steps,
                            ),
                        )
                return

    def _added(self, value: Value, node: ast.BinOp, depth: int) -> Iterator[Scores]:
        for rest, side in ((node.left, node.right), (node.right, node.left)):
            inner = tuple(self._scores(value.of(rest), depth + 1))
            for scores in inner:
                yield replace(scores, masks=(*scores.masks, Mask(value.of(side), "add")))
            if inner:
                return

    def _called(self, value: Value, node: ast.Call, depth: int) -> Iterator[Scores]:
        mask, rest = masked(value)
        if mask is not None and rest is not None:
            for scores in self._scores(rest, depth + 1):
                yield replace(scores, masks=(*scores.masks, mask))
            return
        called = names.last(node.func)
        if isinstance(node.func, ast.Attribute) and called in ("mul", "mul_", "div", "div_") and node.args:
            op = ast.Mult() if called.startswith("mul") else ast.Div()
            yield from self._scaled(value, ast.copy_location(ast.BinOp(node.func.value, op, node.args[0]), node), depth)
            return
        if isinstance(node.func, ast.Attribute) and called in ("add", "add_") and node.args:
            joined = ast.copy_location(ast.BinOp(node.func.value, ast.Add(), node.args[0]), node)
            yield from self._added(value, joined, depth)
            return
        if isinstance(node.func, ast.Attribute) and called in (*SHAPE_ONLY, "tanh", *_PASSES):
            inner = tuple(self._scores(value.of(node.func.value), depth + 1))
            if inner:
                yield from inner
                return
        if called in ("cat", "concat") and node.args and isinstance(node.args[0], ast.List | ast.Tuple):
            for part in node.args[0].elts:  # scores beside a learnt sink
                yield from self._scores(value.of(part), depth + 1)
            return
        if called in (*_PASSES, "tanh", "max") and node.args:
            yield from self._scores(value.of(node.args[0]), depth + 1)

    # -------------------------------------------------------------------------------------------------- forwards

    def _weighted(self, softmax: Value) -> tuple[Value | None, tuple[Mask, ...]]:
        """Return the product that the weights go into, in the same function, and the masks put on them before it."""
        scope = softmax.at.scope
        for node, at in (*scope.products, *((c, a) for c, a in scope.calls if names.last(c.func) in _PRODUCTS)):
            operands = product(Value(node, at))
            if operands is None or node is softmax.node:
                continue
            for side in operands[:2]:
                found, masks = self._leads_to(side, softmax.node, 0)
                if found:
                    return Value(node, at), masks
        return None, ()

    def _leads_to(self, value: Value, target: ast.AST, depth: int) -> tuple[bool, tuple[Mask, ...]]:
        if depth > 12 or value.at.scope.module.top is value.at.scope:
            return False, ()
        for root in self._resolver.roots(value):
            node, inner = root.value.node, root.value
            if node is target:
                return True, ()
            mask, rest = masked(inner)
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
                mask, rest = Mask(inner.of(node.right), "add"), inner.of(node.left)
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
                rest = inner.of(node.left)
            elif isinstance(node, ast.Subscript):  # the weights without the sink's
                rest = inner.of(node.value)
            elif isinstance(node, ast.Call) and rest is None:
                method = isinstance(node.func, ast.Attribute) and names.last(node.func) in SHAPE_ONLY
                drops = names.last(node.func) in _PASSES or "drop" in names.last(node.func).lower()
                if method and isinstance(node.func, ast.Attribute):
                    rest = inner.of(node.func.value)
                elif drops and node.args:
                    rest = inner.of(node.args[0])
            if rest is not None:
                found, masks = self._leads_to(rest, target, depth + 1)
                if found:
                    return True, (*masks, mask) if mask is not None else masks
        return False, ()


def product(value: Value) -> tuple[Value, Value, Value | None] | None:
    """Return the operands of a product of two tensors, and a factor given with it (baddbmm's alpha)."""
    node = value.node
    if isinstance(node, ast.BinOp):
        return (value.of(node.left), value.of(node.right), None) if isinstance(node.op, ast.MatMult) else None
    if not isinstance(node, ast.Call):
        return None
    called = names.last(node.func)
    args = list(node.args)
    if called in ("matmul", "bmm"):
        if len(args) == 1 and isinstance(node.func, ast.Attribute):
            args.insert(0, node.func.value)
        if len(args) >= 2:
            return value.of(args[0]), value.of(args[1]), None
    if called == "einsum" and len(args) == 3:
        return value.of(args[1]), value.of(args[2]), None
    if called == "baddbmm":
        alpha = next((keyword.value for keyword in node.keywords if keyword.arg == "alpha"), None)
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        pair = [keywords["batch1"], keywords["batch2"]] if {"batch1", "batch2"} <= set(keywords) else args[-2:]
        if len(pair) == 2:
            return value.of(pair[0]), value.of(pair[1]), value.of(alpha) if alpha is not None else None
    return None


def masked(value: Value) -> tuple[Mask | None, Value | None]:
    """Return the mask that ``masked_fill`` or ``where`` puts on, and what it is put on."""
    node = value.node
    if not isinstance(node, ast.Call):
        return None, None
    called = names.last(node.func)
    if called in ("masked_fill", "masked_fill_") and isinstance(node.func, ast.Attribute) and len(node.args) >= 2:
        return Mask(value.of(node.args[0]), "fill", value.of(node.args[1])), value.of(node.func.value)
    if called == "where" and len(node.args) == 3:
        condition, first, second = node.args
        filler, rest = (first, second) if _is_filler(first) else (second, first)
        return Mask(value.of(condition), "where", value.of(filler)), value.of(rest)
    return None, None


def _is_filler(node: ast.expr) -> bool:
    text = ast.unparse(node)
    return "inf" in text or "min" in text or "mask_value" in text or text.startswith("-")
