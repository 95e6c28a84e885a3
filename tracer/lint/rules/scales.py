"""Faults of the scale. A scale that the files do not settle is no fault.

Must not know: other rules, output.
"""

import math
from collections.abc import Iterator
from fractions import Fraction

from tracer.lint.algebra import HEAD_DIM, HEADS, HIDDEN, PER_HEAD, Product
from tracer.lint.judge import RIGHT_POWER, Applied
from tracer.lint.rules.subject import Fault, Subject, qwen3
from tracer.lint.values import Value

_SMALLEST = {HEAD_DIM: 128.0, HIDDEN: 1024.0, HEADS: 16.0, PER_HEAD: 64.0}  # Qwen3-0.6B


def hidden_size(subject: Subject) -> Iterator[Fault]:
    """Yield scales made of hidden_size where head_dim has an origin of its own."""
    for applied in _every(subject):
        total, origin = applied.total, applied.total.origin or subject.value
        powers = dict(total.powers)
        if (
            not total.known
            or total.why is not None
            or HEAD_DIM in powers
            or powers.get(HIDDEN, powers.get(PER_HEAD)) is None
        ):
            continue
        own = subject.judge.own_head_dim(origin.at.scope)
        stated = subject.of_qwen3 or _in_qwen3(origin)
        if own or (stated and not own):
            ratio = _at_smallest(total) / _SMALLEST[HEAD_DIM] ** -0.5
            text = "" if ratio <= 0 or math.isclose(ratio, 1) else "larger" if ratio > 1 else "smaller"
            shown = f"{max(ratio, 1 / ratio):.2f}" if text else ""
            yield Fault(origin, (("normal", total.normal), ("ratio", shown)), total.steps, text)


def _at_smallest(product: Product) -> float:
    """Its value in Qwen3-0.6B; 0 where it is made of other sizes, too."""
    value = product.coefficient
    for symbol, exponent in product.powers:
        value *= _SMALLEST.get(symbol, 0.0) ** float(exponent) if symbol in _SMALLEST else 0.0
    return value


def derived_head_dim(subject: Subject) -> Iterator[Fault]:
    """Yield head_dim computed as hidden_size // num_heads where the model's configuration states another."""
    for applied in _every(subject):
        origin = applied.total.origin
        if (
            origin is None
            or not applied.total.is_power(HEAD_DIM, RIGHT_POWER)
            or not (subject.of_qwen3 or _in_qwen3(origin))
        ):
            continue
        if subject.judge.own_head_dim(origin.at.scope) is False:
            yield Fault(origin, (), applied.total.steps)


def power(subject: Subject) -> Iterator[Fault]:
    """Yield head_dim to another power than -1/2, by itself.

    Some architectures scale by 1 / head_dim on purpose; only where the class is Qwen3's is that known to be wrong.
    """
    for group in subject.applied:
        faults = [a for a in group if _is_wrong_power(subject, a)]
        if group and len(faults) == len(group):
            applied = faults[0]
            yield Fault(applied.total.origin or subject.value, (("normal", applied.total.normal),), applied.total.steps)


def twice(subject: Subject) -> Iterator[Fault]:
    """Yield kernels that scale what was scaled already."""
    for group in subject.applied:
        if group and all(_twice(each) for each in group):
            applied = group[0]
            text = "default" if applied.own.none else ""
            before = applied.before.origin or subject.value
            values = (("before", before.code), ("own", applied.own.normal), ("normal", applied.total.normal))
            yield Fault(subject.value, values, (*applied.before.steps, *applied.own.steps), text)


def other_in_qwen3(subject: Subject) -> Iterator[Fault]:
    """Yield a scale in Qwen3's attention that is known and is no power of head_dim or hidden_size."""
    if not subject.of_qwen3:
        return
    for group in subject.applied:
        wrong = [a for a in group if a.total.known and a.total.why is None and not _of_sizes(a.total)]
        if wrong and all(_is_hard_coded(each.total) for each in wrong):
            return
        if group and len(wrong) == len(group):
            total = wrong[0].total
            yield Fault(total.origin or subject.value, (("normal", total.normal),), total.steps)


def hard_coded(subject: Subject) -> Iterator[Fault]:
    """Yield the scale of every released Qwen3 written as a number, which a model with another head_dim inherits."""
    for applied in _every(subject):
        if subject.of_qwen3 and applied.total.why is None and _is_hard_coded(applied.total):
            yield Fault(applied.total.origin or subject.value, (("normal", applied.total.normal),), applied.total.steps)


def _is_hard_coded(product: Product) -> bool:
    number = _SMALLEST[HEAD_DIM] ** -0.5
    return product.known and not product.powers and math.isclose(product.coefficient, number, rel_tol=1e-6)


def _of_sizes(product: Product) -> bool:
    return any(symbol in (HEAD_DIM, HIDDEN, PER_HEAD) for symbol, _ in product.powers)


def _every(subject: Subject) -> Iterator[Applied]:
    for group in subject.applied:
        yield from group


def _head_power(product: Product) -> Fraction | None:
    """The power of head_dim where the product is nothing else and proven."""
    if not product.known or product.none or product.why is not None or len(product.powers) != 1:
        return None
    symbol, exponent = product.powers[0]
    return exponent if symbol == HEAD_DIM and abs(product.coefficient - 1) < 1e-9 else None


def _is_wrong_power(subject: Subject, applied: Applied) -> bool:
    exponent = _head_power(applied.total)
    if exponent is None or exponent == RIGHT_POWER or _twice(applied):
        return False
    origin = applied.total.origin
    return exponent != -1 or subject.of_qwen3 or (origin is not None and _in_qwen3(origin))


def _twice(applied: Applied) -> bool:
    own = RIGHT_POWER if applied.own.none else _head_power(applied.own)
    return own == RIGHT_POWER and _head_power(applied.before) == RIGHT_POWER


def _in_qwen3(origin: Value) -> bool:
    return qwen3(origin.at.scope.cls)
