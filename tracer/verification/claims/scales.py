"""Is the scale head_dim**-0.5: as it is written, as it is handed on, at the kernel, and in effect?

Must not know: torch.
"""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tracer.checks import scale as trace_scale
from tracer.checks.scale import explain
from tracer.records import Check, Site, Status
from tracer.texts import Message
from tracer.verification.case import Case
from tracer.verification.records import Finding
from tracer.verification.subjects import kernel_site, subject
from tracer.verification.verdict import finding, passed, say, untested

_OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}


def static(case: Case) -> Finding:
    """Return scale.static: the expression that defines the scale has the value head_dim**-0.5."""
    site = case.places.site("scale.definition")
    wanted = _expected(case)
    if site is None:
        return untested(case, "scale.static", expected=wanted, reason=say("scale_static_none"))
    value = evaluate(site.code, _names(case))
    if value is None:
        reason = say("scale_static_unknown", code=site.code)
        return untested(case, "scale.static", expected=wanted, reason=reason, site=site)
    return _exact(case, "scale.static", value, site, code=site.code)


def at_interface(case: Case) -> Finding:
    """Return scale.value: the attention function is given exactly head_dim**-0.5, or nothing, its default."""
    if case.interface is None:
        return untested(case, "scale.value", expected=_expected(case), reason=say("interface_hidden"))
    return _given(case, "scale.value", case.interface.scaling, origin(case) or case.places.at(case.interface.place))


def at_kernel(case: Case) -> Finding:
    """Return scale.kernel: the kernel itself is given exactly head_dim**-0.5, or nothing, its default."""
    if case.seen.kernel is None:
        return untested(case, "scale.kernel", expected=_expected(case), reason=say("kernel_hidden"))
    return _given(case, "scale.kernel", case.seen.kernel.scale, origin(case) or kernel_site(case))


def effective(case: Case) -> list[Finding]:
    """Return scale.effective for each head, fitted to what the kernel gave."""
    found = []
    for row in range(case.step.ids.shape[0]):
        for index in case.heads:
            head = subject(case, row, index)
            if head is not None:
                check = trace_scale.effective(head)
                found.append(Finding(case.scenario.id, case.layer, index, _placed(check, origin(case))))
    return found or [untested(case, "scale.effective", expected=_expected(case), reason=say("interface_hidden"))]


def origin(case: Case) -> Site | None:
    """Return where a wrong scale comes from: its definition, the argument, or a hop to the kernel; None where every
    value on the way is right (then the kernel itself is to blame)."""
    attribute = case.seen.parts.attributes.get("scaling")
    given = case.interface.scaling if case.interface is not None else None
    kernel = case.seen.kernel.scale if case.seen.kernel is not None else None
    if isinstance(attribute, float) and attribute != case.scale:
        site = case.places.site("scale.definition")
        changed_later = site is not None and evaluate(site.code, _names(case)) == case.scale
        return case.places.site("scale.attribute", "interface.call") if changed_later or site is None else site
    if given is not None and given != case.scale:
        return case.places.site("scale.attribute", "interface.call")
    if kernel is not None and kernel != case.scale:
        return case.places.site("scale.kernel")
    return None


def evaluate(code: str, names: Mapping[str, float]) -> float | None:
    """Return the value of an arithmetic expression over ``names`` (dotted), or None where it is anything more."""
    try:
        value = _value(ast.parse(f"({code})", mode="eval").body, names)
        return float(value) if value is not None else None
    except (SyntaxError, ArithmeticError, ValueError, TypeError):
        return None


def _value(node: ast.AST, names: Mapping[str, float]) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.Name | ast.Attribute):
        return names.get(ast.unparse(node))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _value(node.operand, names)
        return None if inner is None else -inner
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _value(node.left, names), _value(node.right, names)
        return None if left is None or right is None else _OPERATORS[type(node.op)](left, right)
    if isinstance(node, ast.Call) and len(node.args) == 1 and ast.unparse(node.func) in ("math.sqrt", "sqrt"):
        inner = _value(node.args[0], names)
        return None if inner is None else math.sqrt(inner)
    return None


def _names(case: Case) -> dict[str, float]:
    facts = case.facts
    config = {
        "hidden_size": facts.hidden_size,
        "num_attention_heads": facts.heads,
        "num_key_value_heads": facts.kv_heads,
        "head_dim": facts.head_dim,
    }
    names: dict[str, float] = {
        f"{owner}.{name}": v for name, v in config.items() for owner in ("config", "self.config")
    }
    head_dim = case.seen.parts.attributes.get("head_dim", facts.head_dim)
    return {**names, "self.head_dim": head_dim, "self.num_heads": facts.heads, "self.hidden_size": facts.hidden_size}


def _given(case: Case, id: str, value: float | None, site: Site | None) -> Finding:
    if value is None:
        return finding(
            case,
            id,
            Status.PASS,
            measured=say("scale_default", head_dim=case.facts.head_dim, value=case.scale),
            expected=_expected(case),
            reason=say("scale_default_why"),
            site=site,
            default=True,
        )
    return _exact(case, id, float(value), site)


def _exact(case: Case, id: str, value: float, site: Site | None, code: str | None = None) -> Finding:
    holds = value == case.scale or math.isclose(value, case.scale, rel_tol=1e-15)
    reason: Message = say("scale_exact_why")
    if not holds:
        reason = explain(value, case.facts, 1e-12) or say("scale_ratio", ratio=value / case.scale)
    return finding(
        case,
        id,
        passed(holds),
        measured=say("scale_measured", value=value) if code is None else say("scale_static", code=code, value=value),
        expected=_expected(case),
        reason=reason,
        site=site,
        value=value,
        expected_value=case.scale,
    )


def _expected(case: Case) -> Message:
    return say("scale_expected", head_dim=case.facts.head_dim, value=case.scale)


def _placed(check: Check, site: Site | None) -> Check:
    return replace(check, site=site) if site is not None and check.status is Status.FAIL else check
