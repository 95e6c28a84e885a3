"""Faults of the other arguments: positions mixed up, dropout at inference, a window one key too wide, heads repeated in
the wrong order.

Must not know: other rules, output.
"""

import ast
from collections.abc import Iterator
from dataclasses import replace

from tracer.lint import names
from tracer.lint.algebra import HEAD_DIM, PER_HEAD
from tracer.lint.resolve import Resolver
from tracer.lint.rules.subject import Fault, Subject
from tracer.lint.values import Root, RootKind, Value

_BOOLEAN = ("causal", "is_causal", "return_attn_probs", "deterministic", "enable_gqa")
_NUMBER = ("dropout_p", "softmax_scale", "scale", "softcap")
_GROUPS = ("n_rep", "num_key_value_groups", "num_groups", "n_groups", "kv_groups", "num_queries_per_kv", "q_per_kv")


def positions(subject: Subject) -> Iterator[Fault]:
    """Yield positional arguments that bear another parameter's name, or are of another parameter's kind."""
    call = subject.call
    if call is None:
        return
    for place, node in enumerate(call.node.args):
        if isinstance(node, ast.Starred):
            return
        if place >= len(call.names):
            break
        wanted, given = call.names[place], _parameter_named(node, call.names)
        values = (("place", str(place + 1)), ("wanted", wanted), ("signature", call.signature.title))
        misplaced = bool(given) and given != wanted and not _interchangeable(given, wanted)
        misplaced = misplaced or (place < 3 and _exchanged(call.names[:3], place, node))
        misplaced = misplaced or (wanted == "dropout_p" and _is_scale(subject, call.value.of(node)))
        if misplaced or (isinstance(node, ast.Constant) and _wrong_kind(wanted, node.value)):
            yield Fault(call.value.of(node), (*values, ("given", ast.unparse(node))))
            return  # what follows is out of place because this is


def _parameter_named(node: ast.expr, parameters: tuple[str, ...]) -> str:
    name = names.stem(node)
    for known, spelt in (
        ("cu_seqlen", "cu_seqlens"),
        ("cu_seq_len", "cu_seqlens"),
        ("max_seqlen", "max_seqlen"),
        ("max_length", "max_seqlen"),
        ("max_seq_len", "max_seqlen"),
    ):
        if name.startswith(known):
            side = "_q" if name.endswith("_q") else "_k" if name.endswith(("_k", "_kv")) else ""
            return spelt + side if side and spelt + side in parameters else ""
    return name if name in ("softmax_scale", "dropout_p", "causal", "is_causal") and name in parameters else ""


def _interchangeable(given: str, wanted: str) -> bool:
    """Self-attention gives the lengths of q for k, too."""
    return given[:-2] == wanted[:-2] and {given[-2:], wanted[-2:]} == {"_q", "_k"} and given.endswith("_q")


def _exchanged(wanted: tuple[str, ...], place: int, node: ast.expr) -> bool:
    """Whether queries, keys or values stand in each other's place."""
    kinds = (names.is_query, names.is_key, names.is_value)
    meant = [next((n for n, kind in enumerate(kinds) if kind(ast.Name(each, ast.Load()))), None) for each in wanted]
    given = {n for n, kind in enumerate(kinds) if kind(node)}
    return meant == [0, 1, 2] and len(given) == 1 and place not in given


def _is_scale(subject: Subject, value: Value) -> bool:
    """Whether what is given is a power of a head's width, which no rate of dropout is."""
    products = subject.judge.products(value)
    widths = (HEAD_DIM, PER_HEAD)
    return bool(products) and all(p.known and any(symbol in widths for symbol, _ in p.powers) for p in products)


def _wrong_kind(wanted: str, value: object) -> bool:
    if wanted in _NUMBER:
        return isinstance(value, bool)
    return wanted in _BOOLEAN and isinstance(value, float)


def dropout(subject: Subject) -> Iterator[Fault]:
    """Yield dropout that is not turned off outside training."""
    call = subject.call
    if call is None or "dropout_p" not in call.names or _in_training_only(call.value):
        return
    filled, _ = call.given("dropout_p")
    if filled is None:
        return
    if always_on(subject.resolver, filled.value):
        (first, *_) = subject.resolver.roots(filled.value)
        yield Fault(filled.value, (("code", filled.value.code),), first.steps)


def always_on(resolver: Resolver, rate: Value) -> bool:
    """Whether a dropout rate is known to be a constant or a configured value that training does not switch."""
    roots = resolver.roots(rate)
    return bool(roots) and all(root.why is None and _is_active(root) and not _mentions_training(root) for root in roots)


def _is_active(root: Root) -> bool:
    node = root.value.node
    if root.kind is RootKind.LITERAL:
        given = getattr(node, "value", None)
        return isinstance(given, float) and given > 0
    return root.kind is RootKind.ATTRIBUTE and isinstance(node, ast.Attribute) and names.is_config(node.value)


def _mentions_training(root: Root) -> bool:
    parts = [root.value.node, *(step.value.node for step in root.steps), *(test.node for test, _ in root.tests)]
    return any("train" in ast.unparse(part) for part in parts)


def _in_training_only(call: Value) -> bool:
    return any("train" in ast.unparse(test) for test, _ in call.at.tests)


def window(subject: Subject) -> Iterator[Fault]:
    """Yield windows that count the query's own key twice: the kernel's left bound leaves it out."""
    call = subject.call
    if call is None or "window_size" not in call.bound:
        return
    filled, _ = call.given("window_size")
    if filled is None:
        return
    for root in subject.resolver.roots(replace(filled.value, path=((0, 0),))):
        node = root.value.node
        of_config = isinstance(node, ast.Attribute) and names.is_config(node.value)
        if root.why is None and of_config and names.stem(node) == "sliding_window":
            yield Fault(filled.value, (("window", root.value.code),), root.steps)
            return


def repeated_heads(subject: Subject) -> Iterator[Fault]:
    """Yield key/value heads repeated as a whole block, where each is meant to stand beside its copies."""
    operands = _keys_and_values(subject)
    for operand in operands:
        for root in subject.resolver.roots(operand):
            chain = [root.value, *(step.value for step in root.steps)]
            for value in chain:
                found = _block_repeat(value, subject.resolver)
                if found is not None:
                    yield Fault(found, (("code", found.code),), root.steps)
                    return


def _keys_and_values(subject: Subject) -> list[Value]:
    if subject.call is not None:
        filled = [subject.call.given(name)[0] for name in subject.call.names[1:3]]
        return [each.value for each in filled if each is not None]
    return [scores.key for scores in subject.explicit.scores] if subject.explicit is not None else []


def _block_repeat(value: Value, resolver: Resolver) -> Value | None:
    node: ast.AST = value.node
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr == "repeat" and any(
            _is_group(arg) or _made_group(value.of(arg), resolver) for arg in node.args
        ):
            return None if _has_new_axis(node.func.value) or len(node.args) > 4 else value.of(node)
        node = node.func.value
    return None


def _is_group(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
        return names.stem(node.left) in names.HEADS and "kv" in names.stem(node.right).replace("key_value", "kv")
    return names.stem(node) in _GROUPS


def _made_group(value: Value, resolver: Resolver) -> bool:
    """Whether a name stands for the number of query heads to each key head."""
    if not isinstance(value.node, ast.Name | ast.Attribute):
        return False
    roots = resolver.roots(value)
    return bool(roots) and all(isinstance(r.value.node, ast.expr) and _is_group(r.value.node) for r in roots)


def _has_new_axis(node: ast.expr) -> bool:
    text = ast.unparse(node)
    return "unsqueeze" in text or "None" in text
