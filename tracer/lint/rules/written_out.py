"""Faults of attention written out: the softmax's axis, masks that come after it, constants that 16 bits cannot hold,
dropout that never ends; and norms put after the rotation.

Must not know: other rules, output.
"""

import ast
import re
from collections.abc import Iterator

from tracer.lint import axes, names
from tracer.lint.explicit import Mask
from tracer.lint.grid import verdict
from tracer.lint.rules.arguments import always_on
from tracer.lint.rules.subject import Fault, Subject, qwen3
from tracer.lint.values import RootKind, Value

_LARGEST_HALF = 65504.0
_HALF = re.compile(r"\.half\(\)|float16\b")


def axis(subject: Subject) -> Iterator[Fault]:
    """Yield softmaxes over another axis than the keys."""
    explicit = subject.explicit
    if explicit is not None and explicit.axis is not None and axes.over_keys(explicit, subject.resolver) is False:
        yield Fault(explicit.value, (("axis", explicit.axis.code),))


def late_mask(subject: Subject) -> Iterator[Fault]:
    """Yield masks that are put on the weights, after the softmax, and on no scores before it."""
    explicit = subject.explicit
    if explicit is None or any(each.masks for each in explicit.scores):
        return
    for mask in explicit.after:
        if mask.how == "multiply" and verdict(subject.triangles.of_mask(mask)) == "causal":
            yield Fault(mask.value, (("mask", mask.value.code),))
            return
        if mask.how == "add" and names.is_mask(mask.value.node):
            yield Fault(mask.value, (("mask", mask.value.code),))
            return
        filler = mask.filler
        if mask.how == "fill" and filler is not None and _number(filler.node) not in (0.0, None):
            yield Fault(mask.value, (("mask", mask.value.code),))
            return


def half_constant(subject: Subject) -> Iterator[Fault]:
    """Yield mask constants beyond float16 in a function that computes in float16."""
    explicit = subject.explicit
    if explicit is None or not _HALF.search(_code(subject)):
        return
    for mask in dict.fromkeys(mask for each in explicit.scores for mask in each.masks):
        filler = _filler(mask, subject)
        number = _number(filler.node) if filler is not None else None
        if filler is not None and number is not None and _LARGEST_HALF < abs(number) < float("inf"):
            yield Fault(filler, (("number", f"{number:g}"),))
            return


def _code(subject: Subject) -> str:
    return subject.scope.module.code(subject.scope.node) if subject.scope.function is not None else ""


def _filler(mask: Mask, subject: Subject) -> Value | None:
    if mask.filler is None:
        return None
    roots = subject.resolver.roots(mask.filler)
    literal = [root.value for root in roots if root.kind is RootKind.LITERAL]
    return literal[0] if len(literal) == len(roots) == 1 else None


def _number(node: ast.AST) -> float | None:
    sign = 1.0
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        sign, node = -1.0, node.operand
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        try:
            return sign * float(node.value)
        except OverflowError:
            return sign * float("inf")
    if isinstance(node, ast.Call) and names.last(node.func) == "float" and node.args:
        return float("-inf")
    return None


def dropout(subject: Subject) -> Iterator[Fault]:
    """Yield functional dropout of the weights without ``training``: its default is on."""
    explicit = subject.explicit
    if explicit is None or explicit.weighted is None:
        return
    for node, at in explicit.scope.calls:
        if names.last(node.func) != "dropout" or not isinstance(node.func, ast.Attribute):
            continue
        full = subject.resolver.program.full_name(node.func, at)
        given = {keyword.arg for keyword in node.keywords}
        if (
            not full.startswith(("torch.", "F.", "nn."))
            or given & {"training", None}
            or len(node.args) > 2
            or not node.args
        ):
            continue
        rate = next((k.value for k in node.keywords if k.arg == "p"), node.args[1] if len(node.args) > 1 else None)
        trained = any("train" in ast.unparse(test) for test, _ in at.tests)
        if rate is None or trained or not always_on(subject.resolver, Value(rate, at)):
            continue
        if any(root.value.node is explicit.value.node for root in subject.resolver.roots(Value(node.args[0], at))):
            yield Fault(Value(node, at), (("code", ast.unparse(node)[:80]),))


def norm_after_rotation(subject: Subject) -> Iterator[Fault]:
    """Yield Qwen3 attention that normalises queries or keys after it rotated them."""
    cls = subject.scope.cls
    if cls is None or not qwen3(cls):
        return
    for node, at in subject.scope.calls:
        called = names.last(node.func)
        if called not in ("q_norm", "k_norm") or not node.args:
            continue
        for root in subject.resolver.roots(Value(node.args[0], at)):
            made = root.value.node
            if isinstance(made, ast.Call) and any(word in names.last(made.func).lower() for word in ("rotary", "rope")):
                yield Fault(Value(node, at), (("norm", called), ("rotation", names.last(made.func))), root.steps)
                break
