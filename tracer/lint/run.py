"""A whole lint, top to bottom: files → kernels → what is said of each → findings. The only module that knows it.

The code that is read is never run or imported. Must not know: output formats.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tracer.lint.algebra import Algebra
from tracer.lint.explicit import SOFTMAX, ExplicitFinder
from tracer.lint.factors import Factors
from tracer.lint.facts import Module
from tracer.lint.gather import Read, gather
from tracer.lint.judge import Judge
from tracer.lint.places import hops, place
from tracer.lint.program import Program
from tracer.lint.records import Finding, Kernel, Report, Severity
from tracer.lint.resolve import Resolver
from tracer.lint.rules.between import scale_differs
from tracer.lint.rules.subject import Fault, Subject
from tracer.lint.rules.table import BETWEEN, IDS, RULES
from tracer.lint.subjects import Finder
from tracer.lint.suppress import idle, waived
from tracer.lint.triangle import Triangles
from tracer.lint.unlisted import NAMED, unlisted
from tracer.lint.verdict import Verdicts
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
    judged = _Judgement(program)
    modules = list(_modules(program, judged.finder, gathered.files, progress))
    subjects = [subject for module in modules for subject in judged.subjects(module)]
    findings = list(judged.findings(subjects))
    faulty = {id(subject) for subject, finding in findings if finding.suppressed is None}
    kernels = [judged.kernel(subject, id(subject) in faulty) for subject in subjects]
    kernels += judged.unlisted(modules, subjects)
    order = {read.name: number for number, read in enumerate(gathered.files)}
    kernels.sort(key=lambda each: (order[each.place.path], each.place.span.line, each.place.span.column))
    return Report(
        tuple(str(path) for path in paths),
        len(gathered.files),
        sum(_lines(read.source) for read in gathered.files),
        tuple(kernels),
        tuple({(finding.rule, finding.place): finding for _, finding in reversed(findings)}.values())[::-1],
        (*gathered.skipped, *program.skipped),
        tuple(note for read in gathered.files for note in idle(read, IDS)),
    )


def _lines(source: str) -> int:
    return source.count("\n") + bool(source and not source.endswith("\n"))


def _modules(program: Program, finder: Finder, files: Sequence[Read], progress: Progress | None) -> Iterator[Module]:
    """Parse every file, so that what is not Python is told, and go through those that may compute attention."""
    for count, read in enumerate(files):
        if progress is not None and count % 50 == 0:
            progress(count, len(files))
        tree = program.parse(read)
        if tree is not None and (finder.may_call(read) or SOFTMAX.search(read.source) or NAMED.search(read.source)):
            module = program.add(read, tree)
            if module is not None:
                yield module


class _Judgement:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._resolver = Resolver(program)
        algebra = Algebra(self._resolver)
        factors = Factors(self._resolver, algebra)
        self.finder = Finder(self._resolver)
        self._explicit = ExplicitFinder(self._resolver, factors)
        self._judge = Judge(self._resolver, algebra, factors, self.finder, self._explicit)
        self._triangles = Triangles(self._resolver)
        self._verdicts = Verdicts(self._resolver, algebra, self._judge, self._triangles)

    def subjects(self, module: Module) -> Iterator[Subject]:
        found: list[Subject] = []
        for call in self.finder.calls(module):
            flags = self._judge.flags(call, call.signature.causal, False)
            applied = self._judge.applied(call)
            found.append(Subject(call.value, call, None, applied, flags, self._resolver, self._judge, self._triangles))
        for explicit in self._explicit.find(module):
            applied = self._judge.written_out(explicit)
            found.append(
                Subject(explicit.value, None, explicit, applied, (), self._resolver, self._judge, self._triangles)
            )
        yield from sorted(found, key=lambda each: (each.value.node.lineno, each.value.node.col_offset))  # type: ignore[attr-defined]

    def findings(self, subjects: Sequence[Subject]) -> Iterator[tuple[Subject, Finding]]:
        wrong: set[int] = set()  # whose scale is told to be wrong by itself
        for subject in subjects:
            for rule in RULES:
                for fault in rule.check(subject):
                    wrong.update([id(subject)] if rule.id.startswith("scale") else [])
                    yield subject, self._finding(rule.id, rule.severity, fault, subject)
        for subject, fault in scale_differs([each for each in subjects if id(each) not in wrong]):
            yield subject, self._finding(BETWEEN, Severity.WARNING, fault, subject)

    def _finding(self, rule: str, severity: Severity, fault: Fault, subject: Subject) -> Finding:
        text = f"lint.{rule.replace('-', '_')}"
        values = dict(fault.values)
        said = message(f"{text}_{fault.text}" if fault.text else text, **values)
        module = fault.at.at.scope.module
        fix, steps, kernel = message(f"{text}_fix", **values), hops(fault.steps), place(subject.value)
        found = Finding(rule, severity, said, fix, place(fault.at), steps, kernel=kernel)
        return waived(found, module.text.lines(1, len(module.text.starts)))

    def kernel(self, subject: Subject, faulty: bool) -> Kernel:
        return self._verdicts.kernel(subject, faulty)

    def unlisted(self, modules: Sequence[Module], subjects: Sequence[Subject]) -> Iterator[Kernel]:
        known = {subject.value.node for subject in subjects}
        for module in modules:
            for found in unlisted(module, self._resolver, known):
                yield self._verdicts.unlisted(found)
            for softmax in self._explicit.unfollowed(module):
                if softmax.node not in known:
                    yield self._verdicts.not_understood(softmax)
            for mention, name in self.finder.unfollowed(module):
                yield self._verdicts.unfollowed(mention, name)
