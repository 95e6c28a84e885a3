"""What single expressions are, told from their shape alone: tensor methods, guards, constants, argument lists.

Must not know: where values come from.
"""

from collections.abc import Sequence

import libcst as cst
from libcst.helpers import get_full_name_for_node

# Reads of a tensor that give sizes and places, never its numbers.
METADATA = frozenset({"shape", "dtype", "device", "ndim", "layout", "requires_grad"})
VIEWS = frozenset({"T", "mT", "data", "H"})
# Methods of torch.Tensor that hand the tensor's own numbers on, moved, cut or cast.
_HAND_ON = frozenset({
    "view", "reshape", "transpose", "permute", "contiguous", "to", "float", "half", "bfloat16", "double", "type",
    "type_as", "split", "chunk", "unbind", "flatten", "unflatten", "unsqueeze", "squeeze", "expand", "repeat",
    "repeat_interleave", "movedim", "swapaxes", "narrow", "select", "index_select", "masked_fill", "clone", "detach",
    "cpu", "cuda", "mul", "mul_", "add", "add_", "div", "div_", "sub", "sub_", "view_as", "reshape_as", "t", "T",
    "tensor_split",
})  # fmt: skip


def is_tensor_method(node: cst.Call) -> bool:
    """Return whether a call is a method that hands on the numbers of the object it is called on."""
    return isinstance(node.func, cst.Attribute) and node.func.attr.value in _HAND_ON


def receiver(node: cst.Call) -> cst.BaseExpression:
    """Return the object that a method call is made on; raises TypeError where it is no method call."""
    if not isinstance(node.func, cst.Attribute):
        raise TypeError("a method call")
    return node.func.value


def on_self(node: cst.CSTNode, name: str | None = None) -> bool:
    """Return whether a call is ``self.name(…)`` (any name where None)."""
    func = node.func if isinstance(node, cst.Call) else None
    own = isinstance(func, cst.Attribute) and isinstance(func.value, cst.Name) and func.value.value == "self"
    return own and isinstance(func, cst.Attribute) and name in (None, func.attr.value)


def arguments(node: cst.CSTNode) -> Sequence[cst.Arg]:
    """Return the arguments of a call."""
    return node.args if isinstance(node, cst.Call) else ()


def operands(node: cst.CSTNode) -> tuple[cst.BaseExpression, ...]:
    """Return what a numeric operation is made of."""
    if isinstance(node, cst.BinaryOperation):
        return node.left, node.right
    if isinstance(node, cst.UnaryOperation):
        return (node.expression,)
    if isinstance(node, cst.AugAssign) and isinstance(node.target, cst.BaseExpression):
        return node.target, node.value
    return ()


def not_none(test: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return x where ``test`` is ``x is not None``."""
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        (only,) = test.comparisons
        if isinstance(only.operator, cst.IsNot) and is_none(only.comparator):
            return test.left
    return None


def is_none(node: cst.CSTNode) -> bool:
    """Return whether ``node`` is None."""
    return isinstance(node, cst.Name) and node.value == "None"


def is_constant(node: cst.CSTNode) -> bool:
    """Return whether ``node`` is True, False or None."""
    return isinstance(node, cst.Name) and node.value in ("True", "False", "None")


def is_false(node: cst.CSTNode) -> bool:
    """Return whether ``node`` is a literal that counts as false: None, False, zero, an empty string."""
    if isinstance(node, (cst.Integer, cst.Float)):
        return not node.evaluated_value
    if isinstance(node, cst.SimpleString):
        return not node.evaluated_value
    return isinstance(node, cst.Name) and node.value in ("False", "None")


def is_literal(node: cst.CSTNode) -> bool:
    """Return whether ``node`` is a number, a string or a constant."""
    if isinstance(node, cst.UnaryOperation):
        return is_literal(node.expression)
    return isinstance(node, (cst.BaseNumber, cst.BaseString)) or is_constant(node)


_OPPOSITE: tuple[tuple[type[cst.BaseCompOp], type[cst.BaseCompOp]], ...] = (
    (cst.Is, cst.IsNot),
    (cst.Equal, cst.NotEqual),
    (cst.In, cst.NotIn),
)


def condition(test: cst.BaseExpression, holds: bool) -> str:
    """Return the code of a condition where the test holds, else of its opposite: ``x is None`` for ``x is not None``,
    ``not (x)`` where there is no shorter way to say it."""
    code = short(cst.Module([]).code_for_node(test), 120)
    return code if holds else _opposite(test) or f"not ({code})"


def _opposite(test: cst.BaseExpression) -> str:
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return short(cst.Module([]).code_for_node(test.expression), 120)
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        (only,) = test.comparisons
        for one, other in (*_OPPOSITE, *(pair[::-1] for pair in _OPPOSITE)):
            if isinstance(only.operator, one):
                turned = test.with_changes(comparisons=[only.with_changes(operator=other())])
                return short(cst.Module([]).code_for_node(turned), 120)
    return ""


def is_abstract(node: cst.FunctionDef) -> bool:
    """Return whether a method only says that subclasses have it."""
    if any(dotted(each.decorator).endswith("abstractmethod") for each in node.decorators):
        return True
    last = node.body.body[-1] if node.body.body else None
    if isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[0], cst.Raise):
        raised = last.body[0].exc
        return raised is not None and dotted(raised).endswith("NotImplementedError")
    return False


def is_class_annotation(node: cst.CSTNode | None) -> bool:
    """Return whether an annotation is ``type[X]`` (also ``type[X] | None``): the class, not an object of it."""
    if isinstance(node, cst.BinaryOperation):
        return is_class_annotation(node.left)
    return isinstance(node, cst.Subscript) and dotted(node.value) in ("type", "Type", "typing.Type")


def dotted(node: cst.CSTNode) -> str:
    """Return a plain or dotted name as text, that of the function for a call; "" for any other expression."""
    if isinstance(node, cst.Call):
        node = node.func
    if not isinstance(node, (cst.Name, cst.Attribute)):
        return ""
    return get_full_name_for_node(node) or ""


def short(code: str, most: int = 60) -> str:
    """Return code on one line, cut where it is long."""
    line = " ".join(code.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
