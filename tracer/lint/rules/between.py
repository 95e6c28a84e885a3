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
    """Yield kernels that take the default scale in a class whose other kernels are given one that is known to differ.

    Equal values, however they are written, are no fault; nor is anything where one of the two is not known.
    """
    by_class: dict[Class, list[Subject]] = defaultdict(list)
    for subject in subjects:
        if subject.scope.cls is not None:
            by_class[subject.scope.cls].append(subject)
    for members in by_class.values():
        given = [(each, total) for each in members if (total := _given(each)) is not None]
        for subject in members:
            if not _by_default(subject):
                continue
            for other, total in given:
                if other is not subject and not _is_default(total):
                    origin = (total.origin or other.value).code
                    line = str(getattr(other.value.node, "lineno", 0))
                    values = (("normal", total.normal), ("origin", origin), ("line", line))
                    yield subject, Fault(subject.value, values, total.steps)
                    break


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
