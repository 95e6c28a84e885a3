"""A whole lint, top to bottom: files → kernels → what is said of each → findings. The only module that knows it.

The code that is read is never run or imported. Must not know: output formats.
"""

import ast
import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tracer.lint import names
from tracer.lint.algebra import HEAD_DIM, PER_HEAD, Algebra
from tracer.lint.explicit import SOFTMAX, Explicit, ExplicitFinder
from tracer.lint.factors import Factors
from tracer.lint.facts import Module
from tracer.lint.gather import Read, gather
from tracer.lint.judge import RIGHT_POWER, Applied, Flag, Judge
from tracer.lint.places import hops, place
from tracer.lint.program import Program
from tracer.lint.records import (
    Causal,
    CausalStatus,
    Finding,
    Kernel,
    KernelStatus,
    Report,
    Scale,
    ScaleStatus,
    Severity,
)
from tracer.lint.resolve import Resolver
from tracer.lint.rules.between import scale_differs
from tracer.lint.rules.subject import Fault, Subject
from tracer.lint.rules.table import BETWEEN, RULES
from tracer.lint.subjects import KERNELS, Finder
from tracer.lint.suppress import waived
from tracer.texts import message

Progress = Callable[[int, int], None]


def lint(paths: Sequence[Path], progress: Progress | None = None) -> Report:
    """Return what a lint of the Python files under ``paths`` finds; raises InputError for a path that is not there."""
    with _without_collector():
        return _lint(paths, progress)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Millions of nodes of syntax trees live until the end; looking through them again and again took most of the
    time. The collector is left as it was found."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _lint(paths: Sequence[Path], progress: Progress | None) -> Report:
    gathered = gather(paths)
    program = Program(gathered.files)
    modules = list(_modules(program, gathered.files, progress))
    judged = _Judgement(program)
    subjects = [subject for module in modules for subject in judged.subjects(module)]
    findings = list(judged.findings(subjects))
    faulty = {id(subject) for subject, finding in findings if finding.suppressed is None}
    kernels = [judged.kernel(subject, id(subject) in faulty) for subject in subjects]
    return Report(
        tuple(str(path) for path in paths),
        len(gathered.files),
        sum(_lines(read.source) for read in gathered.files),
        tuple(kernels),
        tuple(dict.fromkeys(finding for _, finding in findings)),
        (*gathered.skipped, *program.skipped),
    )


def _lines(source: str) -> int:
    return source.count("\n") + bool(source and not source.endswith("\n"))


def _modules(program: Program, files: Sequence[Read], progress: Progress | None) -> Iterator[Module]:
    """Parse every file, so that what is not Python is told, and go through those that may compute attention."""
    for count, read in enumerate(files):
        if progress is not None and count % 50 == 0:
            progress(count, len(files))
        tree = program.parse(read)
        if tree is not None and (KERNELS.search(read.source) or SOFTMAX.search(read.source)):
            module = program.add(read, tree)
            if module is not None:
                yield module


class _Judgement:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._resolver = Resolver(program)
        algebra = Algebra(self._resolver)
        factors = Factors(self._resolver, algebra)
        self._finder = Finder(self._resolver)
        self._explicit = ExplicitFinder(self._resolver, factors)
        self._judge = Judge(self._resolver, algebra, factors, self._finder, self._explicit)

    def subjects(self, module: Module) -> Iterator[Subject]:
        found: list[Subject] = []
        for call in self._finder.calls(module):
            flags = self._judge.flags(call, call.signature.causal, False)
            applied = self._judge.applied(call)
            found.append(Subject(call.value, call, None, applied, flags, self._resolver, self._judge))
        for explicit in self._explicit.find(module):
            applied = self._judge.written_out(explicit)
            found.append(Subject(explicit.value, None, explicit, applied, (), self._resolver, self._judge))
        yield from sorted(found, key=lambda each: (each.value.node.lineno, each.value.node.col_offset))  # type: ignore[attr-defined]

    def findings(self, subjects: Sequence[Subject]) -> Iterator[tuple[Subject, Finding]]:
        for subject in subjects:
            for rule in RULES:
                for fault in rule.check(subject):
                    yield subject, self._finding(rule.id, rule.severity, fault)
        for subject, fault in scale_differs(subjects):
            yield subject, self._finding(BETWEEN, Severity.WARNING, fault)

    def _finding(self, rule: str, severity: Severity, fault: Fault) -> Finding:
        text = f"lint.{rule.replace('-', '_')}"
        values = dict(fault.values)
        said = message(f"{text}_{fault.text}" if fault.text else text, **values)
        module = fault.at.at.scope.module
        found = Finding(rule, severity, said, message(f"{text}_fix", **values), place(fault.at), hops(fault.steps))
        return waived(found, module.text.lines(1, len(module.text.starts)))

    # ----------------------------------------------------------------------------------------------- the kernels

    def kernel(self, subject: Subject, faulty: bool) -> Kernel:
        scales = tuple(dict.fromkeys(self._scale(subject, each) for group in subject.applied for each in group))
        causal = self._causal(subject)
        right = bool(scales) and all(scale.status is ScaleStatus.EQUAL for scale in scales)
        status = KernelStatus.FAULT if faulty else KernelStatus.UNKNOWN
        if not faulty and right and causal.status is not CausalStatus.UNKNOWN:
            status = KernelStatus.RIGHT
        call = subject.call
        if call is not None:
            named = tuple(call.bound.items())
            return Kernel(
                names.last(call.node.func) or call.signature.function,
                "call",
                place(subject.value),
                call.signature.title,
                named,
                scales,
                causal,
                status,
            )
        return Kernel("softmax(q @ k) @ v", "explicit", place(subject.value), "", (), scales, causal, status)

    def _scale(self, subject: Subject, applied: Applied) -> Scale:
        total = applied.total
        where = total.origin
        expression = where.code if where is not None else ""
        normal = total.normal if total.known else None
        status, why = ScaleStatus.OTHER, total.why
        if not total.known:
            status = ScaleStatus.UNKNOWN
        elif total.is_power(HEAD_DIM, RIGHT_POWER):
            status = ScaleStatus.EQUAL
        elif total.is_power(PER_HEAD, RIGHT_POWER):
            own = self._judge.own_head_dim(where.at.scope if where is not None else subject.scope)
            status = {True: ScaleStatus.OTHER, False: ScaleStatus.EQUAL}.get(own, ScaleStatus.UNKNOWN)  # type: ignore[arg-type]
            why = why or (message("lint.no_head_dim") if own is None else None)
        if why is not None and status is ScaleStatus.EQUAL:
            status = ScaleStatus.UNKNOWN
        return Scale(status, expression, normal, applied.by_default, hops(total.steps), why)

    def _causal(self, subject: Subject) -> Causal:
        if subject.explicit is not None:
            return self._masked(subject.explicit)
        flags = subject.causal
        roots = [flag.root for flag in flags if flag.root is not None]
        expression = roots[0].steps[0].value.code if roots and roots[0].steps else ""
        steps = hops(roots[0].steps) if roots else ()
        why = next((root.why for root in roots if root.why is not None), None)
        depends = tuple(dict.fromkeys(leaf.code for flag in flags for leaf in flag.leaves))
        status = _status(flags)
        mask = subject.call.bound.get("attn_mask") if subject.call is not None else None
        if status is CausalStatus.FALSE and mask not in (None, "None"):
            status, depends = CausalStatus.DEPENDS, (str(mask),)
        if why is not None:
            status = CausalStatus.UNKNOWN
        return Causal(status, expression, depends, all(flag.root is None for flag in flags), steps, why)

    def _masked(self, explicit: Explicit) -> Causal:
        masks = list(dict.fromkeys(mask for each in explicit.scores for mask in each.masks))
        codes = tuple(dict.fromkeys(mask.value.code for mask in masks))
        triangular = ("tril", "triu", "causal")
        for mask in masks:
            parts = [mask.value.node, *(root.value.node for root in self._resolver.roots(mask.value))]
            if any(word in ast.unparse(part).lower() for part in parts for word in triangular):
                return Causal(CausalStatus.TRUE, mask.value.code, (), False, ())
        status = CausalStatus.DEPENDS if masks else CausalStatus.FALSE
        return Causal(status, codes[0] if codes else "", codes, not masks, ())


def _status(flags: tuple[Flag, ...]) -> CausalStatus:
    if not flags or not all(flag.known for flag in flags):
        return CausalStatus.UNKNOWN
    values = {flag.value for flag in flags}
    if values == {True}:
        return CausalStatus.TRUE
    if values == {False}:
        return CausalStatus.FALSE
    return CausalStatus.DEPENDS
