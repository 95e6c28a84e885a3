"""The fault between kernels of one class: backends of the same model that apply different scales.

Must not know: other rules, output.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from tracer.lint.algebra import HEAD_DIM, PER_HEAD, Product
from tracer.lint.facts import Class
from tracer.lint.judge import RIGHT_POWER
from tracer.lint.rules.subject import Fault, Subject


def scale_differs(subjects: Sequence[Subject]) -> Iterator[tuple[Subject, Fault]]:
    """Yield kernels that are given a scale known to differ from the default, in a class where others take that.

    Equal values, however they are written, are no fault; nor is anything where one of the two is not known.
    """
    by_class: dict[Class, list[Subject]] = defaultdict(list)
    for subject in subjects:
        if subject.scope.cls is not None:
            by_class[subject.scope.cls].append(subject)
    for members in by_class.values():
        default = [each for each in members if _by_default(each)]
        for subject in members if default else ():
            total = _given(subject)
            if total is None or _is_default(total):
                continue
            lines = sorted({getattr(each.value.node, "lineno", 0) for each in default})
            values = (("normal", total.normal), ("lines", ", ".join(map(str, lines))))
            yield subject, Fault(total.origin or subject.value, values, total.steps)


def _by_default(subject: Subject) -> bool:
    applied = [each for group in subject.applied for each in group]
    return subject.call is not None and bool(applied) and all(a.by_default and not a.before.powers for a in applied)


def _given(subject: Subject) -> Product | None:
    """The one scale that is given to a kernel, None where there are several or it is not known."""
    totals = {(a.total.normal, a.total.known): a.total for group in subject.applied for a in group if not a.by_default}
    if len(totals) != 1 or any(a.by_default for group in subject.applied for a in group):
        return None
    (total,) = totals.values()
    return total if total.known and total.why is None else None


def _is_default(total: Product) -> bool:
    return total.is_power(HEAD_DIM, RIGHT_POWER) or total.is_power(PER_HEAD, RIGHT_POWER)
