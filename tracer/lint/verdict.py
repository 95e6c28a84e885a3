"""What is said of one kernel in the end: right, a fault, unknown, or right but for a causality that its caller decides.

Right needs every scale proven, the softmax over the keys, and causality shown: True, or False in a class that declares
it. Nothing is decided by what a mask or a flag is called. Must not know: rules, output formats.
"""

from collections.abc import Sequence

from tracer.lint import axes, names
from tracer.lint.algebra import HEAD_DIM, PER_HEAD, Algebra
from tracer.lint.explicit import Explicit, Scores
from tracer.lint.grid import verdict
from tracer.lint.judge import RIGHT_POWER, Applied, Flag, Judge
from tracer.lint.places import hops, place
from tracer.lint.records import Causal, CausalStatus, Kernel, KernelStatus, Scale, ScaleStatus
from tracer.lint.resolve import Resolver
from tracer.lint.rules.subject import Subject
from tracer.lint.triangle import Triangles
from tracer.lint.unlisted import Unlisted
from tracer.lint.values import Value
from tracer.texts import Message, message

WRITTEN_OUT = "softmax(q @ k) @ v"


class Verdicts:
    """The verdicts on one program's kernels."""

    def __init__(self, resolver: Resolver, algebra: Algebra, judge: Judge, triangles: Triangles) -> None:
        self._resolver = resolver
        self._algebra = algebra
        self._judge = judge
        self._triangles = triangles

    def kernel(self, subject: Subject, faulty: bool) -> Kernel:
        """Return what is known of a kernel; ``faulty`` where a rule found a fault that nobody waived."""
        scales = tuple(dict.fromkeys(self._scale(subject, each) for group in subject.applied for each in group))
        causal = self._causal(subject)
        why = self._doubt(subject)
        status = KernelStatus.FAULT if faulty else KernelStatus.UNKNOWN
        proven = bool(scales) and why is None and all(scale.status is ScaleStatus.EQUAL for scale in scales)
        if not faulty and proven and causal.why is None:
            shown = causal.status in (CausalStatus.TRUE, CausalStatus.FALSE)  # False without a reason is declared
            status = KernelStatus.RIGHT if shown else KernelStatus.DEPENDS
            status = KernelStatus.UNKNOWN if causal.status is CausalStatus.UNKNOWN else status
        call = subject.call
        if call is None:
            return Kernel(WRITTEN_OUT, "explicit", place(subject.value), "", (), scales, causal, status, why)
        function = names.last(call.node.func) or call.signature.function
        arguments = tuple(call.bound.items())
        return Kernel(function, "call", place(subject.value), call.title, arguments, scales, causal, status, why)

    def _doubt(self, subject: Subject) -> Message | None:
        """What else keeps the kernel from being judged."""
        explicit = subject.explicit
        if explicit is None:
            return self._resolver.attributes.patched(subject.call.signature.function) if subject.call else None
        if explicit.own is not None:
            where = place(explicit.own_value) if explicit.own_value is not None else place(explicit.value)
            return message("lint.own_softmax", place=where.short)
        return message("lint.axis_unknown") if axes.over_keys(explicit, self._resolver) is None else None

    # ------------------------------------------------------------------------------------------------ the scale

    def _scale(self, subject: Subject, applied: Applied) -> Scale:
        total = applied.total
        where = total.origin
        expression = where.code if where is not None else ""
        normal = total.normal if total.known else None
        status, why = ScaleStatus.OTHER, total.why
        if not total.known:
            status = ScaleStatus.UNKNOWN
            why = why or message("lint.scale_unproven", code=_short(expression) or "?")
        elif total.is_power(HEAD_DIM, RIGHT_POWER):
            status = ScaleStatus.EQUAL
        elif total.is_power(PER_HEAD, RIGHT_POWER):
            own = self._judge.own_head_dim(where.at.scope if where is not None else subject.scope)
            status = {True: ScaleStatus.OTHER, False: ScaleStatus.EQUAL}.get(own, ScaleStatus.UNKNOWN)  # type: ignore[arg-type]
            why = why or (message("lint.no_head_dim") if own is None else None)
        if why is not None:
            status = ScaleStatus.UNKNOWN
        if why is None and status is ScaleStatus.OTHER:
            why = message("lint.scale_not_equal", normal=total.normal)
        return Scale(status, expression, normal, applied.by_default, hops(total.steps), why)

    # ---------------------------------------------------------------------------------------------- causality

    def _causal(self, subject: Subject) -> Causal:
        found = self._written_out(subject.explicit) if subject.explicit is not None else self._flagged(subject)
        if found.status is CausalStatus.FALSE and found.why is None and not subject.declared_not_causal:
            why = message("lint.sees_all")
            return Causal(found.status, found.expression, found.depends_on, found.by_default, found.hops, why)
        return found

    def _flagged(self, subject: Subject) -> Causal:
        flags = subject.causal
        roots = [flag.root for flag in flags if flag.root is not None]
        expression = roots[0].steps[0].value.code if roots and roots[0].steps else ""
        steps = hops(roots[0].steps) if roots else ()
        why = next((root.why for root in roots if root.why is not None), None)
        depends = tuple(dict.fromkeys(" ".join(leaf.code.split()) for flag in flags for leaf in flag.leaves))
        status = _status(flags)
        by_default = all(flag.root is None for flag in flags)
        mask = subject.call.given("attn_mask")[0] if subject.call is not None else None
        if status is CausalStatus.FALSE and mask is not None and subject.mask_given:
            if verdict(self._triangles.of_argument(mask.value)) == "causal":
                return Causal(CausalStatus.TRUE, mask.value.code, (), False, steps, why)
            status, depends = CausalStatus.DEPENDS, (mask.value.code,)
        if status is CausalStatus.DEPENDS and not depends:
            depends = tuple(dict.fromkeys(root.value.code for root in roots))
        if status is CausalStatus.UNKNOWN or why is not None:
            why = why or message("lint.causal_unproven", code=_short(expression) or "?")
            status = CausalStatus.UNKNOWN
        return Causal(status, expression, depends, by_default, steps, why)

    def _written_out(self, explicit: Explicit) -> Causal:
        masks = list(dict.fromkeys(mask for each in explicit.scores for mask in each.masks))
        codes = tuple(dict.fromkeys(_short(mask.value.code) for mask in masks))
        says = {verdict(self._triangles.of_scores(each)) for each in explicit.scores}
        if says and says <= {"causal", "itself"}:
            return Causal(CausalStatus.TRUE, codes[0], (), False, ())
        if says <= {"nothing", "reversed", "ahead"}:
            return Causal(CausalStatus.FALSE, codes[0] if codes else "", (), not masks, ())
        return Causal(CausalStatus.DEPENDS, codes[0] if codes else "", self._conditions(explicit.scores), False, ())

    def _conditions(self, ways: Sequence[Scores]) -> tuple[str, ...]:
        """What decides: masks whose values the files do not show, else the tests by which the ways differ."""
        masks: dict[str, None] = {}
        tests: dict[str, None] = {}
        for scores in ways:
            tests |= dict.fromkeys(_short(test.code) for test, _ in scores.tests)
            for mask in scores.masks:
                if None in self._triangles.of_mask(mask):
                    masks[_short(mask.value.code)] = None
        every = {_short(mask.value.code): None for scores in ways for mask in scores.masks}
        return tuple(masks or tests or every)

    # ----------------------------------------------------------------------------------------------- the others

    def not_understood(self, softmax: Value) -> Kernel:
        """Return attention written out of which only the product with the values is seen."""
        why = message("lint.not_followed")
        scale = Scale(ScaleStatus.UNKNOWN, "", None, False, (), why)
        causal = Causal(CausalStatus.UNKNOWN, "", (), False, (), why)
        where = place(softmax)
        return Kernel(WRITTEN_OUT, "explicit", where, "", (), (scale,), causal, KernelStatus.UNKNOWN, why)

    def unfollowed(self, mention: Value, name: str) -> Kernel:
        """Return a kernel that is named and handed on to where it is not found to be called."""
        why = message("lint.unfollowed", function=name)
        scale = Scale(ScaleStatus.UNKNOWN, "", None, False, (), why)
        causal = Causal(CausalStatus.UNKNOWN, "", (), False, (), why)
        return Kernel(name, "call", place(mention), "", (), (scale,), causal, KernelStatus.UNKNOWN, why)

    def unlisted(self, found: Unlisted) -> Kernel:
        """Return a kernel of which only the name and the arguments are known."""
        why = message("lint.unlisted_kernel", function=found.name)
        scales: list[Scale] = []
        if found.scale is not None:
            for product in self._algebra.products(found.scale):
                normal = product.normal if product.known and not product.none else None
                scales.append(Scale(ScaleStatus.UNKNOWN, found.scale.code, normal, False, hops(product.steps), why))
        else:
            scales.append(Scale(ScaleStatus.UNKNOWN, "", None, False, (), why))
        expression = found.causal.code if found.causal is not None else ""
        causal = Causal(CausalStatus.UNKNOWN, expression, (), False, (), why)
        where = place(found.value)
        return Kernel(found.name, "call", where, "", found.arguments, tuple(scales), causal, KernelStatus.UNKNOWN, why)


def _short(code: str) -> str:
    return " ".join(code.split())[:80]


def _status(flags: tuple[Flag, ...]) -> CausalStatus:
    if not flags or not all(flag.known for flag in flags):
        return CausalStatus.UNKNOWN
    values = {flag.value for flag in flags}
    if values == {True}:
        return CausalStatus.TRUE
    if values == {False}:
        return CausalStatus.FALSE
    return CausalStatus.DEPENDS


__all__ = ["WRITTEN_OUT", "Verdicts"]
