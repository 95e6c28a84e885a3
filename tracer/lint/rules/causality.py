"""Faults of causality: a flag that a mask's presence decides, a flag beside a mask, a mask aligned at the wrong corner.

Must not know: other rules, output.
"""

import ast
from collections.abc import Iterator

from tracer.lint import names
from tracer.lint.explicit import Scores
from tracer.lint.grid import Hides, verdict
from tracer.lint.rules.subject import Fault, Subject, qwen3
from tracer.lint.values import RootKind, Value


def mask_presence(subject: Subject) -> Iterator[Fault]:
    """Yield causal arguments that a mask's presence turns off, where the mask does not reach the same kernel."""
    call = subject.call
    if call is None:
        return
    mask_name = _mask_argument(subject)
    for flag in subject.causal:
        if flag.root is None or flag.root.why is not None:
            continue
        for leaf in flag.leaves:
            for inner in (leaf, *subject.judge.all_leaves(leaf)):
                tested = _mask_tested(inner)
                if tested is not None and not (mask_name and _reaches(subject, mask_name, tested)):
                    values = (("mask", names.last(tested.node)), ("code", inner.code))
                    yield Fault(inner, values, flag.root.steps)
                    return


def _mask_argument(subject: Subject) -> str:
    """The parameter that takes a mask, where the call gives one."""
    call = subject.call
    if call is None or "attn_mask" not in call.names:
        return ""
    filled, maybe = call.given("attn_mask")
    if filled is None:
        return "attn_mask" if maybe else ""
    return "" if isinstance(filled.value.node, ast.Constant) else "attn_mask"


def _mask_tested(leaf: Value) -> Value | None:
    """The mask that a condition asks the presence of."""
    node = leaf.node
    if not isinstance(node, ast.Compare) or len(node.comparators) != 1 or not names.is_mask(node.left):
        return None
    against = node.comparators[0]
    return leaf.of(node.left) if isinstance(against, ast.Constant) and against.value is None else None


def _reaches(subject: Subject, parameter: str, mask: Value) -> bool:
    """Whether the mask that is asked about is, or goes into, the one that the kernel is given."""
    if subject.call is None:
        return False
    filled, _ = subject.call.given(parameter)
    if filled is None:
        return True  # through an opened dictionary: may be
    wanted = names.last(mask.node)
    if any(names.last(part) == wanted for part in ast.walk(filled.value.node)):
        return True
    for root in subject.resolver.roots(filled.value):
        parts = [root.value.node, *(step.value.node for step in root.steps)]
        if any(names.last(each) == wanted for part in parts for each in ast.walk(part)):
            return True
    return False


def with_mask(subject: Subject) -> Iterator[Fault]:
    """Yield calls of torch's kernel that give both is_causal=True and a mask, which it refuses."""
    call = subject.call
    if call is None or "attn_mask" not in call.names or not _surely(subject, True):
        return
    filled, _ = call.given("attn_mask")
    if filled is None:
        return
    roots = subject.resolver.roots(filled.value)
    made = (RootKind.OPERATION, RootKind.CALL)
    if roots and all(root.kind in made and not root.value.path for root in roots):
        yield Fault(call.value, (("mask", filled.value.code),), tuple(step for root in roots for step in root.steps))


def top_left(subject: Subject) -> Iterator[Fault]:
    """Yield torch's is_causal=True where keys hold a cache that queries do not: its mask ends at the wrong corner."""
    call = subject.call
    if call is None or call.signature.aligned != "top" or not _surely(subject, True):
        return
    key, _ = call.given(call.names[1])
    query, _ = call.given(call.names[0])
    if key is None or query is None or _cached(subject, query.value) is not None:
        return
    cached = _cached(subject, key.value)
    if cached is not None and not _lengths_compared(call.value):
        yield Fault(call.value, (("cache", cached.code),))


def _surely(subject: Subject, wanted: bool) -> bool:
    flags = subject.causal
    return bool(flags) and all(f.known and f.value is wanted and not f.leaves for f in flags)


def _cached(subject: Subject, value: Value, depth: int = 0) -> Value | None:
    """The expression in which a tensor is joined with a cache."""
    if depth > 6:
        return None
    for root in subject.resolver.roots(value):
        node = root.value.node
        if not isinstance(node, ast.Call):
            continue
        called = names.last(node.func)
        if called in ("cat", "concat", "concatenate") and node.args:
            parts = node.args[0].elts if isinstance(node.args[0], ast.Tuple | ast.List) else []
            if any("past" in _text(part) or "cache" in _text(part) for part in parts):
                return root.value.of(node)
        elif called == "update" and isinstance(node.func, ast.Attribute) and "cache" in _text(node.func.value):
            return root.value.of(node)
        elif isinstance(node.func, ast.Attribute) and called in (
            "view",
            "reshape",
            "transpose",
            "contiguous",
            "to",
            "expand",
        ):
            found = _cached(subject, root.value.of(node.func.value), depth + 1)
            if found is not None:
                return found
        elif called in ("repeat_kv", "repeat_interleave") and node.args:
            found = _cached(subject, root.value.of(node.args[0]), depth + 1)
            if found is not None:
                return found
    return None


def _lengths_compared(call: Value) -> bool:
    """Whether a test around the call speaks of lengths, so that it may run on a first chunk only."""
    words = ("len", "shape", "size", "past", "cache", "prefill", "start", "pos")
    return any(word in _text(test) for test, _ in call.at.tests for word in words)


def _text(node: ast.AST) -> str:
    return ast.unparse(node).lower()


def ignored_flag(subject: Subject) -> Iterator[Fault]:
    """Yield kernel calls that are not causal, without a mask, in a class that says it is causal."""
    call = subject.call
    if call is None or call.scope.cls is None or _mask_argument(subject) or not _surely(subject, False):
        return
    if any(name.startswith("#") for name in call.bound) or _one_token(subject):
        return
    line = subject.resolver.program.bases(call.scope.cls)
    entries = [entry for each in line for entry in subject.resolver.attribute_sets(each).get("is_causal", [])]
    if {getattr(node, "value", None) for node, _, _ in entries} == {True}:
        text = "given" if all(flag.root is not None for flag in subject.causal) else ""
        yield Fault(call.value, (("parameter", call.signature.causal), ("cls", call.scope.cls.name)), (), text)


def off(subject: Subject) -> Iterator[Fault]:
    """Yield kernels of Qwen3's attention, or of a class that only that calls, which let every token see the future."""
    hidden = _mask_argument(subject) if subject.call is not None else any(s.masks for s in _scores(subject))
    surely = _surely(subject, False) if subject.call is not None else bool(_scores(subject))
    if hidden or not surely or subject.declared_not_causal or _one_token(subject) or any(ignored_flag(subject)):
        return
    if subject.of_qwen3 or subject.judge.only_called_by(subject.scope, qwen3):
        steps = tuple(step for flag in subject.causal if flag.root is not None for step in flag.root.steps)
        yield Fault(subject.value, (), steps)


def triangle(subject: Subject) -> Iterator[Fault]:
    """Yield masks worked out to hide the wrong tokens: the past, the token itself, or not all of the future."""
    for mask, hides in _masks(subject):
        found = verdict(hides)
        if found in ("reversed", "itself", "ahead"):
            yield Fault(mask, (("mask", " ".join(mask.code.split())[:80]),), (), found)
            return


def _masks(subject: Subject) -> Iterator[tuple[Value, Hides]]:
    call = subject.call
    if call is not None and "attn_mask" in call.names:
        filled, _ = call.given("attn_mask")
        if filled is not None:
            yield filled.value, subject.triangles.of_argument(filled.value)
    for scores in _scores(subject):
        if scores.masks:
            yield scores.masks[0].value, subject.triangles.of_scores(scores)


def _scores(subject: Subject) -> tuple[Scores, ...]:
    return subject.explicit.scores if subject.explicit is not None else ()


def _one_token(subject: Subject) -> bool:
    """Whether the kernel may run for single new tokens, which have no future: a cache is read, or a test says so."""
    if subject.call is not None and subject.call.signature.function == "flash_attn_with_kvcache":
        return True
    for test, held in subject.value.at.tests:
        text = _text(test)
        if ("prefill" in text and not held) or ("decod" in text and held) or ("== 1" in text and held):
            return True
        if ("> 1" in text or "!= 1" in text) and not held:
            return True
    return False
