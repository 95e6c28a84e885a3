"""What a mask hides, by how far a key is ahead of its query: worked out from the calls that make it, never from a name.

A mask that depends only on that distance (tril, triu, comparisons of two aranges, and what is computed of them) is
evaluated for a few distances. Must not know: kernels, rules.
"""

import ast
import math
import operator
from collections.abc import Callable
from dataclasses import replace

from tracer.lint import grid as matrices
from tracer.lint import names
from tracer.lint.explicit import Mask, Scores
from tracer.lint.grid import AHEAD, Grid, Hides, Index, Known
from tracer.lint.resolve import Resolver
from tracer.lint.values import Root, Value

_HIDDEN = -1e3  # what is added to a score to hide it is at most this
_DEEPEST = 24
_SAME = frozenset((
    "to", "float", "int", "long", "half", "double", "bfloat16", "type", "type_as", "astype", "contiguous", "clone",
    "detach", "cuda", "cpu", "expand", "view", "reshape", "repeat", "unsqueeze", "squeeze", "tensor", "as_tensor",
    "asarray", "array", "expand_as", "broadcast_to", "Buffer", "Parameter",
))  # fmt: skip
_FILLED = {"ones": 1.0, "zeros": 0.0, "ones_like": 1.0, "zeros_like": 0.0, "new_ones": 1.0, "new_zeros": 0.0}
_LIBRARY = {  # full names that torch documents: the value that hides, and the value elsewhere
    "torch.nn.attention.bias.causal_lower_right": (0.0, 1.0),
    "torch.nn.attention.bias.causal_upper_left": (0.0, 1.0),
    "torch.nn.Transformer.generate_square_subsequent_mask": (-math.inf, 0.0),
}
_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.BitAnd: min, ast.BitOr: max, ast.BitXor: lambda a, b: float(bool(a) != bool(b)),
}  # fmt: skip
_COMPARED: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip
_NAMED: dict[str, Callable[[float, float], float]] = {
    "logical_and": min, "logical_or": max, "bitwise_and": min, "bitwise_or": max, "add": operator.add,
    "sub": operator.sub, "mul": operator.mul, "maximum": max, "minimum": min,
}  # fmt: skip
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


class Triangles:
    """The masks of one program."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._depth = 0
        self._known: dict[Value, Known] = {}

    def of_scores(self, scores: Scores) -> Hides:
        """Return what all masks together hide of one way the scores came about."""
        every = [self.of_mask(mask) for mask in scores.masks]
        return tuple(matrices.either([hides[n] for hides in every]) for n in range(len(AHEAD)))

    def of_mask(self, mask: Mask) -> Hides:
        """Return what one mask hides."""
        grid = self._value(mask.value)
        if not isinstance(grid, Grid | float):
            return (None,) * len(AHEAD)
        grid = grid if isinstance(grid, Grid) else Grid((grid,) * len(AHEAD))
        if mask.how == "multiply":  # of weights
            return tuple(None if each is None else each == 0 for each in grid.entries)
        if mask.how == "subtract":
            return tuple(None if each is None else -each <= _HIDDEN for each in grid.entries)
        if mask.how == "add":
            return tuple(None if each is None else each <= _HIDDEN for each in grid.entries)
        filler = self._value(mask.filler) if mask.filler is not None else None
        if not isinstance(filler, float):
            return (None,) * len(AHEAD)
        hidden = filler <= _HIDDEN
        return tuple(None if each is None else hidden and bool(each) != mask.keeps for each in grid.entries)

    def of_argument(self, value: Value) -> Hides:
        """Return what a mask hides that is given to torch's kernel: True in it keeps, a number is added."""
        grid = self._value(value)
        if not isinstance(grid, Grid):
            return (None,) * len(AHEAD)
        if grid.boolean:
            return tuple(None if each is None else not each for each in grid.entries)
        return tuple(None if each is None else each <= _HIDDEN for each in grid.entries)

    # --------------------------------------------------------------------------------------------------- values

    def _value(self, value: Value) -> Known:
        if value in self._known:
            return self._known[value]
        if self._depth > _DEEPEST:
            return None
        self._known[value] = None  # what is made of itself
        self._depth += 1
        try:
            roots = self._resolver.roots(value)
            found = {None if self._changed(value, root) else self._root(root) for root in roots}
        finally:
            self._depth -= 1
        self._known[value] = found.pop() if len(found) == 1 else None
        return self._known[value]

    def _changed(self, value: Value, root: Root) -> bool:
        """Whether entries of it were set on the way: ``mask[…] = …``."""
        for each in (value, *(step.value for step in root.steps)):
            if isinstance(each.node, ast.Name):
                bindings, _ = self._resolver.program.bindings(each.node.id, each.at)
                if any(binding.way == "update" for binding in bindings):
                    return True
        return False

    def _root(self, root: Root) -> Known:
        node, value = root.value.node, root.value
        if root.why is not None or value.path:
            return None
        match node:
            case ast.Constant(value=bool() | int() | float() as given):
                return float(given) if abs(given) < 1e300 or given in (math.inf, -math.inf) else None
            case ast.Constant(value=str()):
                return _infinity(node)  # float("-inf"), looked through
            case ast.UnaryOp(op=ast.USub()):
                return matrices.each_entry(operator.neg, self._value(value.of(node.operand)))
            case ast.UnaryOp(op=ast.Invert()):
                return matrices.inverted(self._value(value.of(node.operand)))
            case ast.BinOp():
                return matrices.paired(
                    _BINARY.get(type(node.op)), self._value(value.of(node.left)), self._value(value.of(node.right))
                )
            case ast.Compare(ops=[compared], comparators=[right]):
                function = _COMPARED.get(type(compared))
                return matrices.compared(function, self._value(value.of(node.left)), self._value(value.of(right)))
            case ast.Attribute():
                return self._attribute(value, node)
            case ast.Subscript():
                return self._subscript(value, node)
            case ast.Call():
                return self._call(value, node)
        return None

    def _attribute(self, value: Value, node: ast.Attribute) -> Known:
        if node.attr == "inf":
            return math.inf
        if node.attr in ("min", "max") and isinstance(node.value, ast.Call) and names.last(node.value.func) == "finfo":
            return -3e38 if node.attr == "min" else 3e38
        return matrices.turned(self._value(value.of(node.value))) if node.attr in ("T", "mT") else None

    def _subscript(self, value: Value, node: ast.Subscript) -> Known:
        inner = self._value(value.of(node.value))
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if isinstance(inner, Index) and not inner.axis:
            kinds = [_kind(part) for part in parts]
            if kinds[-2:] == ["all", "new"]:
                return replace(inner, axis="row")
            return replace(inner, axis="column") if kinds in (["new", "all"], ["all"]) else None
        if not isinstance(inner, Grid):
            return None
        last = parts[-1]
        for part in parts:
            if _kind(part) == "other" and not (part is not last and _ends_alike(part, last)):
                return None
        return inner

    def _call(self, value: Value, node: ast.Call) -> Known:
        called = names.last(node.func).rstrip("_")
        full = self._resolver.program.full_name(node.func, value.at)
        if full in _LIBRARY:
            hidden, shown = _LIBRARY[full]
            return Grid.of(lambda d: hidden if d > 0 else shown, hidden == 0.0)
        if any(isinstance(each, ast.Starred) for each in node.args):
            return None
        if called == "float" and not isinstance(node.func, ast.Attribute) and node.args:
            return self._value(value.of(node.args[0]))
        method = isinstance(node.func, ast.Attribute) and "." not in _module(full)
        operands = [node.func.value, *node.args] if method and isinstance(node.func, ast.Attribute) else list(node.args)
        boolean = any(k.arg == "dtype" and "bool" in ast.unparse(k.value) for k in node.keywords)
        if called in _FILLED:
            return Grid.of(lambda _: _FILLED[called], boolean)
        if called in ("full", "full_like", "new_full"):
            return self._filled(value, node, operands, called, boolean)
        if called == "arange":
            return Index("") if len(node.args) == 1 or _is_zero(node.args[0]) else None
        return self._computed(value, node, called, operands)

    def _filled(self, value: Value, node: ast.Call, operands: list[ast.expr], called: str, boolean: bool) -> Known:
        place = 2 if called == "new_full" else 1
        given = next((k.value for k in node.keywords if k.arg == "fill_value"), None)
        given = operands[place] if given is None and len(operands) > place else given
        number = self._value(value.of(given)) if given is not None else None
        literal = isinstance(given, ast.Constant) and isinstance(given.value, bool)
        return Grid.of(lambda _: number, boolean or literal) if isinstance(number, float) else None

    def _computed(self, value: Value, node: ast.Call, called: str, operands: list[ast.expr]) -> Known:
        values = [self._value(value.of(each)) for each in operands[:1]]
        first = values[0] if values else None
        if called in ("tril", "triu", "tri"):
            return self._cut(value, node, called, operands, first)
        if called == "bool" or (
            called in ("to", "type", "astype") and "bool" in ast.unparse(node).rsplit(called, 1)[-1]
        ):
            return matrices.truths(first)
        if called in ("logical_not", "bitwise_not"):
            return matrices.inverted(first)
        if called in ("unsqueeze", "view", "reshape") and isinstance(first, Index):
            return _placed(first, called, node)
        if called in _SAME:
            return replace(first, boolean=False) if isinstance(first, Grid) and _retyped(called, node) else first
        if called in ("t", "transpose", "swapaxes"):
            last_two = called == "t" or {ast.unparse(a) for a in operands[1:3]} in ({"-1", "-2"}, {"0", "1"})
            return matrices.turned(first) if last_two else None
        if called == "masked_fill" and len(operands) == 3:
            return matrices.where(self._value(value.of(operands[1])), self._value(value.of(operands[2])), first)
        if called == "where" and len(operands) == 3:
            return matrices.where(first, self._value(value.of(operands[1])), self._value(value.of(operands[2])))
        if called == "log":
            return matrices.each_entry(lambda x: -math.inf if x == 0 else math.log(x), first)
        if called in _COMPARISONS and len(operands) == 2:
            return matrices.compared(_COMPARISONS[called], first, self._value(value.of(operands[1])))
        if called in _NAMED and len(operands) == 2:
            return matrices.paired(_NAMED[called], first, self._value(value.of(operands[1])))
        return None

    def _cut(self, value: Value, node: ast.Call, called: str, operands: list[ast.expr], first: Known) -> Known:
        place = 2 if called == "tri" else 1
        given = next((k.value for k in node.keywords if k.arg in ("diagonal", "k")), None)
        given = operands[place] if given is None and len(operands) > place else given
        diagonal = self._value(value.of(given)) if given is not None else 0.0
        grid = Grid.of(lambda _: 1.0) if called == "tri" else first
        if not isinstance(grid, Grid) or not isinstance(diagonal, float):
            return None
        keep = operator.ge if called == "triu" else operator.le
        return Grid.of(lambda d: grid.at(d) if keep(d, diagonal) else 0.0, grid.boolean)


def _placed(index: Index, called: str, node: ast.Call) -> Known:
    """An arange made a column or a row of a matrix."""
    given = [ast.unparse(each) for each in node.args]
    if index.axis:
        return index if called == "unsqueeze" else None
    if given in (["1"], ["-1"]) if called == "unsqueeze" else given[-1:] == ["1"] and len(given) >= 2:
        return replace(index, axis="row")
    if given == ["0"] if called == "unsqueeze" else set(given[:-1]) == {"1"}:
        return replace(index, axis="column")
    return None


def _retyped(called: str, node: ast.Call) -> bool:
    """Whether a call makes numbers of truth values."""
    if called in ("float", "int", "long", "half", "double", "bfloat16"):
        return True
    return called in ("to", "type", "astype", "type_as") and "device" not in ast.unparse(node)


def _kind(part: ast.expr) -> str:
    """What an index does: a ``new`` axis, ``all`` of one (also up to a length), or another thing."""
    if isinstance(part, ast.Constant) and part.value is None:
        return "new"
    if isinstance(part, ast.Constant) and part.value is Ellipsis:
        return "every"
    if isinstance(part, ast.Slice) and part.step is None and (part.lower is None or _is_zero(part.lower)):
        return "all"
    return "other"


def _ends_alike(rows: ast.expr, columns: ast.expr) -> bool:
    """``mask[k - q : k, :k]``: the last rows beside all columns, so that the corner at the bottom right stays."""
    if not (isinstance(rows, ast.Slice) and isinstance(columns, ast.Slice) and rows.upper and columns.upper):
        return False
    start = rows.lower
    same = ast.dump(rows.upper) == ast.dump(columns.upper)
    return (
        same
        and isinstance(start, ast.BinOp)
        and isinstance(start.op, ast.Sub)
        and ast.dump(start.left) == ast.dump(rows.upper)
    )


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def _infinity(node: ast.Constant) -> float | None:
    text = str(node.value).strip().lower()
    return {"-inf": -math.inf, "-infinity": -math.inf, "inf": math.inf, "infinity": math.inf}.get(text)


def _module(full: str) -> str:
    """``torch.`` of a function of a library, "" of a method."""
    return f"{full.split('.')[0]}." if full.split(".")[0] in ("torch", "np", "numpy", "jnp", "jax", "mx", "F") else ""
