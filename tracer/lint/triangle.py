"""What a mask hides, by how far a key is ahead of its query: worked out from the calls that make it, never from a name.

A mask that depends only on that distance (tril, triu, comparisons of two aranges, and what is computed of them) is
evaluated for a few distances. Must not know: kernels, rules.
"""

import ast
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace

from tracer.lint import names
from tracer.lint.explicit import Mask, Scores
from tracer.lint.resolve import Resolver
from tracer.lint.values import Root, Value

AHEAD = range(-4, 5)  # distances key - query that are looked at
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


@dataclass(frozen=True)
class Grid:
    """A matrix whose entries depend on key - query alone: one for each of ``AHEAD``, None where not known."""

    entries: tuple[float | None, ...]
    boolean: bool = False

    @staticmethod
    def of(at: Callable[[int], float | None], boolean: bool = False) -> "Grid":
        """Return the grid with ``at(distance)`` in each place."""
        return Grid(tuple(at(distance) for distance in AHEAD), boolean)

    def at(self, distance: int) -> float | None:
        """Return the entry at a distance."""
        return self.entries[distance - AHEAD.start]


@dataclass(frozen=True)
class Index:
    """The numbers 0, 1, 2, … along the queries ("row"), the keys ("column"), or an axis not yet fixed (""), shifted."""

    axis: str
    shift: float = 0.0


Known = float | Grid | Index | None
Hides = tuple[bool | None, ...]  # for each of AHEAD


def verdict(hides: Hides) -> str | None:
    """Return what a mask does: ``causal``, ``nothing`` hidden, a fault (``reversed``, ``itself``, ``ahead``: it lets
    some keys ahead be seen), or None where that is not known."""
    by = dict(zip(AHEAD, hides, strict=True))
    future, past = [by[d] for d in AHEAD if d > 0], [by[d] for d in AHEAD if d < 0]
    if all(each is True for each in past) and not all(each is True for each in future):
        return "reversed"
    if all(each is True for each in future):
        return "itself" if by[0] is True and not all(each is True for each in past) else "causal"
    if None in hides:
        return None
    if not any(hides):
        return "nothing"
    return "ahead" if by[1] is False and by[AHEAD[-1]] is True and by[0] is False else None


class Triangles:
    """The masks of one program."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._depth = 0
        self._known: dict[Value, Known] = {}

    def of_scores(self, scores: Scores) -> Hides:
        """Return what all masks together hide of one way the scores came about."""
        every = [self.of_mask(mask) for mask in scores.masks]
        return tuple(_or([hides[n] for hides in every]) for n in range(len(AHEAD)))

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
                return _each(operator.neg, self._value(value.of(node.operand)))
            case ast.UnaryOp(op=ast.Invert()):
                return _invert(self._value(value.of(node.operand)))
            case ast.BinOp():
                return _pair(
                    _BINARY.get(type(node.op)), self._value(value.of(node.left)), self._value(value.of(node.right))
                )
            case ast.Compare(ops=[compared], comparators=[right]):
                function = _COMPARED.get(type(compared))
                return _compare(function, self._value(value.of(node.left)), self._value(value.of(right)))
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
        return _turned(self._value(value.of(node.value))) if node.attr in ("T", "mT") else None

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
            return _truths(first)
        if called in ("logical_not", "bitwise_not"):
            return _invert(first)
        if called in ("unsqueeze", "view", "reshape") and isinstance(first, Index):
            return _placed(first, called, node)
        if called in _SAME:
            return replace(first, boolean=False) if isinstance(first, Grid) and _retyped(called, node) else first
        if called in ("t", "transpose", "swapaxes"):
            last_two = called == "t" or {ast.unparse(a) for a in operands[1:3]} in ({"-1", "-2"}, {"0", "1"})
            return _turned(first) if last_two else None
        if called == "masked_fill" and len(operands) == 3:
            return _where(self._value(value.of(operands[1])), self._value(value.of(operands[2])), first)
        if called == "where" and len(operands) == 3:
            return _where(first, self._value(value.of(operands[1])), self._value(value.of(operands[2])))
        if called == "log":
            return _each(lambda x: -math.inf if x == 0 else math.log(x), first)
        if called in (*_NAMED, *_COMPARISONS) and len(operands) == 2:
            second = self._value(value.of(operands[1]))
            compared = called in _COMPARISONS
            return _compare(_COMPARISONS[called], first, second) if compared else _pair(_NAMED[called], first, second)
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


def _or(hidden: list[bool | None]) -> bool | None:
    if True in hidden:
        return True
    return None if None in hidden else False


def _truths(known: Known) -> Known:
    made = _each(lambda x: float(bool(x)), known)
    return replace(made, boolean=True) if isinstance(made, Grid) else None


def _each(function: Callable[[float], float], known: Known) -> Known:
    if isinstance(known, float):
        return function(known)
    if isinstance(known, Grid):
        return Grid(tuple(None if each is None else function(each) for each in known.entries), known.boolean)
    return None


def _invert(known: Known) -> Known:
    """``~mask``, of a mask of truth values."""
    return _each(lambda x: float(not x), known) if isinstance(known, Grid) else None


def _pair(function: Callable[[float, float], float] | None, one: Known, other: Known) -> Known:
    if function is None or one is None or other is None:
        return None
    if isinstance(one, float) and isinstance(other, float):
        return _finite(function, one, other)
    if isinstance(one, Index) and isinstance(other, float) and function in (operator.add, operator.sub):
        return replace(one, shift=function(one.shift, other))
    if isinstance(one, Index) or isinstance(other, Index):
        return _between(function, one, other)
    boolean = all(isinstance(each, float) or each.boolean for each in (one, other)) and function in (min, max)
    return Grid.of(lambda d: _finite(function, _at(one, d), _at(other, d)), boolean)


def _between(function: Callable[[float, float], float], one: Known, other: Known) -> Known:
    """``j[None, :] - i[:, None]``: the distance itself."""
    if function is not operator.sub or not (isinstance(one, Index) and isinstance(other, Index)):
        return None
    axes = (one.axis or "column", other.axis or "column")
    shift = one.shift - other.shift
    if axes == ("column", "row"):
        return Grid.of(lambda d: d + shift)
    return Grid.of(lambda d: shift - d) if axes == ("row", "column") else None


def _compare(function: Callable[[float, float], bool] | None, one: Known, other: Known) -> Known:
    if function is None or one is None or other is None:
        return None
    if isinstance(one, Index) and isinstance(other, Index):
        distance = _between(operator.sub, one, other)
        return _compare(function, distance, 0.0)
    if isinstance(one, Index) or isinstance(other, Index) or (isinstance(one, float) and isinstance(other, float)):
        return None

    def at(distance: int) -> float | None:
        left, right = _at(one, distance), _at(other, distance)
        return None if left is None or right is None else float(function(left, right))

    return Grid.of(at, boolean=True)


def _at(known: Known, distance: int) -> float | None:
    return known.at(distance) if isinstance(known, Grid) else known if isinstance(known, float) else None


def _finite(function: Callable[[float, float], float], one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        if function is min and 0.0 in (one, other):
            return 0.0
        return 1.0 if function is max and 1.0 in (one, other) else None
    try:
        made = float(function(one, other))
    except (ZeroDivisionError, OverflowError):
        return None
    return None if math.isnan(made) else made


def _where(condition: Known, first: Known, second: Known) -> Known:
    if not isinstance(condition, Grid) or first is None or second is None:
        return None

    def at(distance: int) -> float | None:
        held = condition.at(distance)
        return None if held is None else _at(first if held else second, distance)

    return Grid.of(at, isinstance(first, Grid) and first.boolean and isinstance(second, Grid) and second.boolean)


def _turned(known: Known) -> Known:
    return Grid(tuple(reversed(known.entries)), known.boolean) if isinstance(known, Grid) else None


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
