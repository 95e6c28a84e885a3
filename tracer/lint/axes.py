"""Whether a softmax runs over the keys: the axis that the product with the values sums over.

Must not know: masks, scales.
"""

import ast

from tracer.lint import names
from tracer.lint.explicit import Explicit, Scores
from tracer.lint.resolve import Resolver
from tracer.lint.values import RootKind, Value


def over_keys(explicit: Explicit, resolver: Resolver) -> bool | None:
    """Return whether the softmax's axis is that of the keys; None where the files do not settle which axis it is.

    Without the product with the values it is never said to be wrong: some models mean another axis.
    """
    right = _over_keys(explicit, resolver)
    return None if right is False and explicit.weighted is None else right


def _over_keys(explicit: Explicit, resolver: Resolver) -> bool | None:
    axis = _number(explicit.axis, resolver) if explicit.axis is not None else None
    if axis is None or explicit.own is not None:
        return None
    found = {_keys(explicit, scores) for scores in explicit.scores}
    ranks = {_rank(scores.product) for scores in explicit.scores}
    wanted = found.pop() if len(found) == 1 else None
    if wanted is None:
        return None
    if axis < 0:
        return axis == wanted
    rank = ranks.pop() if len(ranks) == 1 else None
    return axis == rank + wanted if rank is not None else None


def _number(axis: Value, resolver: Resolver) -> int | None:
    found = set()
    for root in resolver.roots(axis):
        node, sign = root.value.node, 1
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            node, sign = node.operand, -1
        given = node.value if isinstance(node, ast.Constant) else None
        sure = root.kind is RootKind.LITERAL and root.why is None and type(given) is int
        found.add(sign * given if sure and isinstance(given, int) else None)
    return found.pop() if len(found) == 1 else None


def _keys(explicit: Explicit, scores: Scores) -> int | None:
    """The axis of the keys in the scores, counted from the end."""
    if scores.turned or (names.is_key(scores.query.node) and names.is_query(scores.key.node)):
        return None
    if explicit.weighted is not None:
        return None if explicit.turned else _summed(explicit.weighted, explicit.side)
    letters = _letters(scores.product)
    if letters is None:
        return -1
    query, key, made = letters
    own = [letter for letter in key if letter in made and letter not in query]
    return made.index(own[0]) - len(made) if len(own) == 1 else None


def _summed(product: Value, side: int) -> int | None:
    """The axis of one operand that a product sums over, counted from the end."""
    letters = _letters(product)
    if letters is None:
        einsum = isinstance(product.node, ast.Call) and names.last(product.node.func) == "einsum"
        return None if einsum else (-1 if side == 0 else -2)
    mine, other, made = letters[side], letters[1 - side], letters[2]
    summed = [letter for letter in mine if letter in other and letter not in made]
    return mine.index(summed[0]) - len(mine) if len(summed) == 1 else None


def _rank(product: Value) -> int | None:
    node = product.node
    if isinstance(node, ast.Call) and names.last(node.func) in ("bmm", "baddbmm"):
        return 3
    letters = _letters(product)
    return len(letters[2]) if letters is not None else None


def _letters(product: Value) -> tuple[str, str, str] | None:
    """The letters of an einsum's two operands and of what it makes, without an ellipsis in front."""
    node = product.node
    if not (isinstance(node, ast.Call) and names.last(node.func) == "einsum" and node.args):
        return None
    text = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
    if not isinstance(text, str) or text.count("->") != 1 or text.count(",") != 1:
        return None
    left, made = text.replace(" ", "").split("->")
    one, other = left.split(",")
    parts = [each.removeprefix("...") for each in (one, other, made)]
    return (parts[0], parts[1], parts[2]) if all(each.isalpha() for each in parts) else None
