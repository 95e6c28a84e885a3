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
from tracer.lint.facts import At, Binding, Module, Scope
from tracer.lint.resolve import Resolver
from tracer.lint.values import Frame, Root, Value
from tracer.texts import message

SOFTMAX = re.compile(r"[sS]oftmax\s*\(")
_PRODUCTS = ("matmul", "bmm", "einsum", "baddbmm")
_PASSES = frozenset((
    "dropout", "Dropout", "attn_dropout", "attn_drop", "masked_fill", "masked_fill_", "nan_to_num", "clamp",
    "maximum",
))  # fmt: skip
TURNS = frozenset(("transpose", "permute", "movedim", "swapaxes", "moveaxis", "swapdims", "t", "flatten", "unflatten"))
_MOST = 12
_DEEPEST = 14


@dataclass(frozen=True)
class Mask:
    """Something that hides scores: ``value`` what is added or where, ``how`` add | subtract | fill | where (of weights
    also multiply), ``filler`` what is put there, for fill and where; ``keeps`` where True in it keeps a score."""

    value: Value
    how: str
    filler: Value | None = None
    keeps: bool = False


@dataclass(frozen=True)
class Scores:
    """One way the scores came about: the product, its two operands, what it was multiplied by, what masked it, the
    conditions of this way, and whether axes were exchanged since."""

    product: Value
    query: Value
    key: Value
    scale: Product
    masks: tuple[Mask, ...] = ()
    tests: tuple[tuple[Value, bool], ...] = ()
    turned: bool = False


@dataclass(frozen=True)
class Explicit:
    """Attention written out around one softmax. ``weighted`` is the product with the values, with the weights as its
    operand number ``side``, None where it is not in the same function; ``turned`` whether axes of the weights were
    exchanged before it, ``after`` the masks put on them; ``own`` the function called softmax where it is one of the
    files' own."""

    value: Value  # the softmax call
    operand: Value
    axis: Value | None
    scores: tuple[Scores, ...]
    weighted: Value | None
    side: int = 0
    turned: bool = False
    after: tuple[Mask, ...] = ()
    own: Scope | None = None

    @property
    def own_value(self) -> Value | None:
        """The definition of that own function."""
        return Value(self.own.node, At(self.own.parent or self.own, 0)) if self.own is not None else None

    @property
    def scope(self) -> Scope:
        """The function it stands in."""
        return self.value.at.scope


class ExplicitFinder:
    """Attention written out, in one program."""

    def __init__(self, resolver: Resolver, factors: Factors) -> None:
        self._resolver = resolver
        self._factors = factors
        self._known: dict[Value, tuple[Scores, ...]] = {}
        self._active: set[Value] = set()
        self._cut_short: set[Value] = set()  # those whose ways were not followed to their ends
        self._far = 0
        self._circles = 0

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

    def unfollowed(self, module: Module) -> Iterator[Value]:
        """Yield the softmaxes whose weights go into a product with values while their scores are not understood."""
        if not SOFTMAX.search(module.read.source):
            return
        for scope in module.scopes:
            for node, at in scope.calls:
                softmax = self._softmax(node, at)
                if softmax is not None and not self.scores(Value(node, at).of(softmax[0])):
                    weighted, *_ = self._weighted(Value(node, at))
                    operands = product(weighted) if weighted is not None else None
                    if operands is not None and any(names.is_value(each.node) for each in operands[:2] if each):
                        yield Value(node, at)

    def _softmax(self, node: ast.Call, at: At) -> tuple[ast.expr, Value | None] | None:
        """Return what a softmax is taken of, and its axis; None for another call."""
        func, value = node.func, Value(node, at)
        if isinstance(func, ast.Call) and names.last(func.func) == "Softmax" and node.args:  # nn.Softmax(dim=-1)(x)
            return node.args[0], _axis_of_module(value.of(func))
        if names.last(func) != "softmax":
            return None
        args = list(node.args)
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        if isinstance(func, ast.Attribute) and not self._is_function(func, at):
            args.insert(0, func.value)
        operand = args[0] if args else keywords.get("input")
        given = keywords.get("dim") or keywords.get("axis") or (args[1] if len(args) > 1 else None)
        axis = value.of(given) if given is not None else self._axis_by_default(value, func)
        return None if operand is None or isinstance(operand, ast.Starred) else (operand, axis)

    def _axis_by_default(self, value: Value, func: ast.expr) -> Value | None:
        """The axis of a module that was made elsewhere (``self.softmax = nn.Softmax(dim=-1)``)."""
        modules = [root.value for root in self._resolver.roots(value.of(func)) if isinstance(root.value.node, ast.Call)]
        axes = {_axis_of_module(each) for each in modules if names.last(each.node.func) == "Softmax"}  # type: ignore[attr-defined]
        return axes.pop() if len(axes) == 1 else None

    def _is_function(self, func: ast.Attribute, at: At) -> bool:
        """``F.softmax`` and ``self.softmax`` take the scores as argument, ``scores.softmax`` is called on them."""
        head = self._resolver.program.full_name(func, at).split(".")[0]
        return head in ("torch", "F", "nn", "jax", "np", "mx", "tf", at.scope.receiver or "self")

    def _around(self, node: ast.Call, at: At, operand: ast.expr, axis: Value | None) -> Explicit | None:
        value = Value(node, at)
        scores = self.scores(value.of(operand))
        if not scores:
            return None
        weighted, side, turned, after = self._weighted(value)
        like = any(names.is_query(each.query.node) and names.is_key(each.key.node) for each in scores)
        if weighted is None and not like:
            return None
        meant = self._resolver.program.meaning(node.func, at)
        own = meant if isinstance(meant, Scope) else None
        return Explicit(value, value.of(operand), axis, scores, weighted, side, turned, after, own)

    # ------------------------------------------------------------------------------------------------- backwards

    def scores(self, value: Value, frames: tuple[Frame, ...] = ()) -> tuple[Scores, ...]:
        """Return the ways the scores may have come about, seen inside ``frames``; empty where they are no product."""
        asked = replace(value, frames=frames)
        found = self._scores(asked, 0)
        if found and (asked in self._cut_short or len(found) > _MOST):
            why = message("lint.too_far") if asked in self._cut_short else message("lint.too_many", count=len(found))
            return (replace(found[0], scale=Product(known=False, why=why)),)
        return found

    def _scores(self, value: Value, depth: int) -> tuple[Scores, ...]:
        if value in self._known:
            self._far += value in self._cut_short
            return self._known[value]
        if depth > _DEEPEST:
            self._far += 1
            return ()
        if value in self._active:
            self._circles += 1
            return ()
        self._active.add(value)
        far, circles = self._far, self._circles
        found = tuple(dict.fromkeys(self._ways(value, depth)))[: _MOST + 1]
        self._active.discard(value)
        if far != self._far:
            self._cut_short.add(value)
        if not self._active or circles == self._circles:  # cut by a circle, it is only right where that began
            self._known[value] = found
        return found

    def _ways(self, value: Value, depth: int) -> Iterator[Scores]:
        for root in self._resolver.roots(value):
            if not root.value.path and isinstance(root.value.node, ast.BinOp | ast.Call):
                masks = tuple(self._set_entries(value, root))
                for each in self._made(root.value, depth):
                    scale = replace(each.scale, why=each.scale.why or root.why)
                    tests = (*each.tests, *root.tests)
                    yield replace(each, scale=scale, masks=(*each.masks, *masks), tests=tests)

    def _set_entries(self, value: Value, root: Root) -> Iterator[Mask]:
        """Yield what hides scores in place: ``scores[mask == 0] = -inf``."""
        found: dict[Binding, Value] = {}
        for each in (value, *(step.value for step in root.steps)):
            if isinstance(each.node, ast.Name):
                bindings, _ = self._resolver.program.bindings(each.node.id, each.at)
                found |= {binding: each for binding in bindings if binding.way == "update"}
        for binding, each in found.items():
            if isinstance(binding.node, ast.Subscript) and binding.value is not None:
                at = replace(each, at=binding.at, path=())
                yield Mask(at.of(binding.node.slice), "fill", at.of(binding.value))

    def _made(self, value: Value, depth: int) -> Iterator[Scores]:
        node = value.node
        operands = product(value)
        if operands is not None:
            left, right, extra = operands
            for scale in self._alpha(extra):
                yield Scores(value, left, right, scale, _added_to(value))
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
            inner = self._scores(value.of(rest), depth + 1)
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
        taken = isinstance(node.op, ast.Sub)
        for rest, side in ((node.left, node.right), (node.right, node.left)):
            inner = self._scores(value.of(rest), depth + 1)
            for scores in inner:
                mask = Mask(value.of(side), "subtract" if taken else "add")
                scale = replace(scores.scale, known=False) if taken and rest is node.right else scores.scale
                yield replace(scores, masks=(*scores.masks, mask), scale=scale)
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
            inner = self._scores(value.of(node.func.value), depth + 1)
            if inner:
                yield from (replace(each, turned=each.turned or called in TURNS) for each in inner)
                return
        if called in ("cat", "concat") and node.args and isinstance(node.args[0], ast.List | ast.Tuple):
            for part in node.args[0].elts:  # scores beside a learnt sink
                yield from self._scores(value.of(part), depth + 1)
            return
        if called in (*_PASSES, "tanh", "max") and node.args:
            yield from self._scores(value.of(node.args[0]), depth + 1)

    # -------------------------------------------------------------------------------------------------- forwards

    def _weighted(self, softmax: Value) -> tuple[Value | None, int, bool, tuple[Mask, ...]]:
        """Return the product that the weights go into, in the same function, on which side they stand in it, whether
        their axes were exchanged before, and the masks put on them."""
        scope = softmax.at.scope
        for node, at in (*scope.products, *((c, a) for c, a in scope.calls if names.last(c.func) in _PRODUCTS)):
            operands = product(Value(node, at))
            if operands is None or node is softmax.node:
                continue
            for number, side in enumerate(operands[:2]):
                found = self._leads_to(side, softmax.node, 0) if side is not None else None
                if found is not None:
                    return Value(node, at), number, *found
        return None, 0, False, ()

    def _leads_to(self, value: Value, target: ast.AST, depth: int) -> tuple[bool, tuple[Mask, ...]] | None:
        """Return whether axes were exchanged since ``target``, and the masks; None where it leads elsewhere."""
        if depth > 12 or value.at.scope.module.top is value.at.scope:
            return None
        for root in self._resolver.roots(value):
            node, inner = root.value.node, root.value
            if node is target:
                return False, ()
            mask, rest = masked(inner)
            turns = False
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
                mask, rest = Mask(inner.of(node.right), "add"), inner.of(node.left)
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
                for one, other in ((node.left, node.right), (node.right, node.left)):
                    found = self._leads_to(inner.of(one), target, depth + 1)
                    if found is not None:
                        return found[0], (*found[1], Mask(inner.of(other), "multiply"))
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
                rest = inner.of(node.left)
            elif isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
                rest, turns = inner.of(node.value), True
            elif isinstance(node, ast.Subscript):  # the weights without the sink's
                rest = inner.of(node.value)
            elif isinstance(node, ast.Call) and rest is None:
                method = isinstance(node.func, ast.Attribute) and names.last(node.func) in SHAPE_ONLY
                drops = names.last(node.func) in _PASSES or "drop" in names.last(node.func).lower()
                turns = names.last(node.func) in TURNS
                if method and isinstance(node.func, ast.Attribute):
                    rest = inner.of(node.func.value)
                elif drops and node.args:
                    rest = inner.of(node.args[0])
            if rest is not None:
                found = self._leads_to(rest, target, depth + 1)
                if found is not None:
                    return found[0] or turns, (*found[1], mask) if mask is not None else found[1]
        return None


def _added_to(value: Value) -> tuple[Mask, ...]:
    """What baddbmm adds its product to."""
    node = value.node
    if not isinstance(node, ast.Call) or names.last(node.func) != "baddbmm":
        return ()
    beta = next((keyword.value for keyword in node.keywords if keyword.arg == "beta"), None)
    if isinstance(beta, ast.Constant) and beta.value == 0:
        return ()
    given = next((keyword.value for keyword in node.keywords if keyword.arg == "input"), None)
    given = given or (node.args[0] if len(node.args) == 3 else getattr(node.func, "value", None))
    return (Mask(value.of(given), "add"),) if given is not None else ()


def _axis_of_module(value: Value) -> Value | None:
    """The axis that ``nn.Softmax(dim=-1)`` is made with."""
    node = value.node
    if not isinstance(node, ast.Call):
        return None
    given = next((keyword.value for keyword in node.keywords if keyword.arg == "dim"), None)
    given = given or (node.args[0] if node.args else None)
    return value.of(given) if given is not None else None


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
        return Mask(value.of(condition), "where", value.of(filler), filler is second), value.of(rest)
    return None, None


def _is_filler(node: ast.expr) -> bool:
    text = ast.unparse(node)
    return "inf" in text or "min" in text or "mask_value" in text or text.startswith("-")
