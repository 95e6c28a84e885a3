"""What the source says of one kernel: the scale it really applies, with what queries and keys were multiplied by
before, and whether it is causal. Unknown stays unknown.

Must not know: rules, output.
"""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from tracer.lint import names, signatures
from tracer.lint.algebra import HEAD_DIM, HIDDEN, PER_HEAD, Algebra, Product
from tracer.lint.explicit import Explicit, ExplicitFinder
from tracer.lint.factors import Factors
from tracer.lint.facts import Class, Scope
from tracer.lint.program import parameters
from tracer.lint.resolve import Resolver
from tracer.lint.subjects import Call, Finder, hands_on
from tracer.lint.values import Frame, Root, RootKind, Step, Value
from tracer.texts import Message, message

RIGHT_POWER = Fraction(-1, 2)


@dataclass(frozen=True)
class Applied:
    """The scale of a kernel on one way into it: ``own`` what the kernel is given (None: its default), ``before`` what
    queries and keys were multiplied by, ``total`` both together."""

    own: Product
    before: Product
    total: Product
    by_default: bool


@dataclass(frozen=True)
class Flag:
    """One value a flag may have: True, False, or None where conditions decide (``leaves``) or the files do not say."""

    value: bool | None
    root: Root | None
    leaves: tuple[Value, ...] = ()
    known: bool = True


class Judge:
    """Scales and flags of one program's kernels."""

    def __init__(
        self, resolver: Resolver, algebra: Algebra, factors: Factors, finder: Finder, explicit: ExplicitFinder
    ) -> None:
        self._resolver = resolver
        self._algebra = algebra
        self._factors = factors
        self._finder = finder
        self._explicit = explicit

    def applied(self, call: Call) -> tuple[tuple[Applied, ...], ...]:
        """Return the scale of a kernel call: one group a way into its function, in it one entry an origin."""
        if call.own is not None and call.signature.scale not in parameters(call.own):
            return ((_applied(Product(known=False, why=own_kernel(call)), Product()),),)
        groups = []
        for frames in self._finder.contexts(call.scope):
            before = tuple(self._before(call, frames))
            found = {_applied(own, factor): None for own in self._own(call, frames) for factor in before}
            groups.append(tuple(found))
        return tuple(dict.fromkeys(groups))

    def written_out(self, explicit: Explicit) -> tuple[tuple[Applied, ...], ...]:
        """Return the scale of attention written out, in the same way."""
        groups = []
        for frames in self._finder.contexts(explicit.scope):
            found: dict[Applied, None] = {}
            for scores in self._explicit.scores(explicit.operand, frames):
                for query in self._factors.of(scores.query):
                    for key in self._factors.of(scores.key):
                        found[_applied(scores.scale, query.times(key))] = None
            if found:
                groups.append(tuple(found))
        return tuple(dict.fromkeys(groups))

    def _own(self, call: Call, frames: tuple[Frame, ...]) -> Iterator[Product]:
        filled, maybe = call.given(call.signature.scale, frames)
        if filled is not None:
            for product in self._algebra.products(filled.value):
                yield replace(product, steps=(Step(filled.value, filled.binds), *product.steps))
            return
        absent = True
        for each in maybe:
            roots = self._resolver.roots(each.value)
            for root in roots:
                absent = False
                for product in self._algebra.products(root.value):
                    steps = (Step(each.value, each.binds), *root.steps, *product.steps)
                    yield replace(product, steps=steps, why=root.why or product.why)
        if absent and call.own is not None and not self._has_default(call):
            yield Product(known=False, why=own_kernel(call))
        elif absent:
            yield Product(none=True)

    def _has_default(self, call: Call) -> bool:
        """Whether the files' own kernel takes head_dim**-0.5 where no scale is given, or hands on that none is."""
        own, scale = call.own, call.signature.scale
        if own is None:
            return True
        bindings = own.bound.get(scale, ())
        made = [Value(b.value, b.at, b.path) for b in bindings if b.value is not None]
        if made:
            return all(p.is_power(HEAD_DIM, RIGHT_POWER) for value in made for p in self._algebra.products(value))
        inner = [each for each, _ in own.calls if names.last(each.func) in signatures.NAMES]
        return bool(inner) and all(hands_on(each, scale, own) for each in inner)

    def _before(self, call: Call, frames: tuple[Frame, ...]) -> Iterator[Product]:
        operands = []
        for name in call.names[:2]:
            filled, _ = call.given(name, frames)
            operands.append(self._factors.of(filled.value) if filled is not None else (Product(),))
        while len(operands) < 2:
            operands.append((Product(),))
        for query in operands[0]:
            for key in operands[1]:
                yield query.times(key)

    def products(self, value: Value) -> tuple[Product, ...]:
        """Return what an expression is as a product of powers, one an origin."""
        return self._algebra.products(value)

    # ------------------------------------------------------------------------------------------------- head_dim

    def own_head_dim(self, scope: Scope) -> bool | None:
        """Return whether head_dim, where ``scope`` computes, has an origin of its own (True), is hidden_size //
        num_heads (False), or is not spoken of (None)."""
        answers: set[bool] = set()
        for value in self._head_dims(scope):
            for root in self._resolver.roots(value):
                if root.kind is not RootKind.OPERATION:
                    products = self._algebra.products(root.value)
                    if not any(p.known and any(symbol == HIDDEN for symbol, _ in p.powers) for p in products):
                        answers.add(True)  # ``head_dim = hidden_size`` is neither: one head
                    continue
                products = self._algebra.products(root.value)
                answers.add(not (products and all(p.is_power(PER_HEAD, Fraction(1)) for p in products)))
        return None if not answers else True in answers

    def _head_dims(self, scope: Scope) -> Iterator[Value]:
        holder: Scope | None = scope
        while holder is not None:
            for name, bindings in holder.bound.items():
                if name in names.HEAD_DIM:
                    yield from (Value(b.value, b.at, b.path) for b in bindings if b.value is not None)
            if holder.cls is not None and not holder.is_class:
                yield from self._of_class(holder.cls)
            holder = holder.parent

    def _of_class(self, cls: Class) -> Iterator[Value]:
        for each in self._resolver.program.bases(cls):
            for name, entries in self._resolver.attribute_sets(each).items():
                if name in names.HEAD_DIM:
                    yield from (Value(node, at, path) for node, path, at in entries)
            init = each.methods.get("__init__")
            if init is not None:
                for name, bindings in init.bound.items():
                    if name in names.HEAD_DIM:
                        yield from (Value(b.value, b.at, b.path) for b in bindings if b.value is not None)

    # ---------------------------------------------------------------------------------------------------- flags

    def flags(self, call: Call, name: str, default: bool) -> tuple[Flag, ...]:
        """Return the values that a flag of a kernel call may have."""
        if call.own is not None and name not in parameters(call.own):
            return (Flag(None, None, known=False),)
        found: dict[Flag, None] = {}
        for frames in self._finder.contexts(call.scope):
            filled, maybe = call.given(name, frames)
            opened = [replace(each.value, frames=frames) for each in maybe]
            if filled is not None:
                found |= dict.fromkeys(self.flag(filled.value, (Step(filled.value, filled.binds),)))
                continue
            given = [f for each in opened for f in self.flag(each, (Step(each, "**"),))]
            found |= dict.fromkeys(given)
            if not given:
                found[Flag(default, None)] = None
        return tuple(found)

    def flag(self, value: Value, steps: tuple[Step, ...] = ()) -> Iterator[Flag]:
        """Yield the values that an expression which is true or false may have."""
        for root in self._resolver.roots(value):
            root = replace(root, steps=(*steps, *root.steps))
            node = root.value.node
            tests = tuple(test for test, _ in root.tests)
            if root.kind is RootKind.LITERAL:
                given = getattr(node, "value", None)
                yield (
                    Flag(bool(given), root, tests)
                    if isinstance(given, bool | int) or given is None
                    else Flag(None, root, known=False)
                )
            elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
                for inner in self.flag(root.value.of(node.operand), root.steps):
                    yield replace(
                        inner, value=None if inner.value is None else not inner.value, root=inner.root or root
                    )
            elif root.kind in (RootKind.OPERATION, RootKind.ATTRIBUTE, RootKind.INPUT) or _asks(node):
                yield Flag(None, root, (*leaves(root.value), *tests))
            else:
                yield Flag(None, root, known=False)

    def only_called_by(self, scope: Scope, wanted: Callable[[Class | None], bool]) -> bool:
        """Whether every way into a function is known and leads through a class that is wanted."""
        ways = self._finder.contexts(scope)
        return all(
            any(wanted(frame.call.at.scope.cls) for frame in way) and all(frame.why is None for frame in way)
            for way in ways
        )

    def all_leaves(self, value: Value, depth: int = 0) -> Iterator[Value]:
        """Yield the conditions that an expression depends on, names followed to the tests they were made of."""
        for leaf in leaves(value):
            yield leaf
            if depth < 4 and isinstance(leaf.node, ast.Name | ast.Attribute):
                for root in self._resolver.roots(leaf):
                    for test, _ in root.tests:
                        yield from leaves(test)
                    if root.kind is RootKind.OPERATION:
                        yield from self.all_leaves(root.value, depth + 1)


def own_kernel(call: Call) -> Message:
    """Return why a call of the files' own function says nothing of the kernel it is named like."""
    return message("lint.own_kernel", function=call.signature.function, place=call.title.rsplit(": ", 1)[0])


def _asks(node: ast.AST) -> bool:
    """Whether a call answers a question about its argument."""
    return isinstance(node, ast.Call) and names.last(node.func) in ("bool", "any", "all", "item")


def leaves(value: Value) -> Iterator[Value]:
    """Yield the single conditions that ``and``, ``or`` and ``not`` join."""
    node = value.node
    if isinstance(node, ast.BoolOp):
        for each in node.values:
            yield from leaves(value.of(each))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield from leaves(value.of(node.operand))
    elif isinstance(node, ast.Call) and names.last(node.func) == "bool" and node.args:
        yield from leaves(value.of(node.args[0]))
    elif not isinstance(node, ast.Constant):
        yield value


def _applied(own: Product, before: Product) -> Applied:
    default = Product(powers=((HEAD_DIM, RIGHT_POWER),), steps=own.steps)
    given = default if own.none else own
    total = before.times(given)
    steps = own.steps or before.steps
    if before.widened is not None and (own.none or own.measured):
        total = replace(total, known=False, why=message("lint.widened", code=before.widened.code))
    return Applied(own, before, replace(total, steps=steps, origin=own.origin or before.origin), own.none)
