"""Plant a fault: change expressions of the real source in memory, and put the changed code into the live functions for
one ``with``, by the same means as tracing.

Must not know: which faults there are, what catches them.
"""

import hashlib
import importlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from tracer.capture.instrument import Instrumentation, patches
from tracer.capture.recorder import Recorder
from tracer.errors import Unsupported
from tracer.kernels.choose import ChosenKernel
from tracer.records import Span
from tracer.source import anchors, files
from tracer.source.files import SourceFile
from tracer.source.text import Text
from tracer.verification.faults.records import Edit, Fault
from tracer.verification.places import find_in


def changed_kernel(fault: Fault, kernel: ChosenKernel) -> ChosenKernel:
    """Return ``kernel`` with the fault's change, if it has one."""
    if fault.kernel_change is None or kernel.varlen is None or kernel.dense is None:
        return kernel
    from tracer.verification.faults import kernels

    wrong = kernels.CHANGES[fault.kernel_change]
    return replace(kernel, varlen=kernels.varlen(wrong, kernel.varlen), dense=kernels.dense(wrong, kernel.dense))


@contextmanager
def planted(fault: Fault) -> Iterator["Planted"]:
    """Run the ``with`` body with the fault in the live code; yields the changed sources and the places of the edits."""
    changed = change(fault)
    functions = []
    for file in changed.files.values():
        module = importlib.import_module(file.member.removesuffix(".py").replace("/", "."))
        original = changed.originals[str(file.file)]
        scopes = sorted({edit.scope for edit in fault.edits if changed.keys[edit.file] == str(file.file)})
        functions += patches(original, module, file.source, scopes)
    with Instrumentation(tuple(functions), ()).swapped(Recorder()):
        yield changed


class Planted:
    """Changed sources by path, their originals, and the span of each edit in the changed text."""

    def __init__(
        self,
        keys: Mapping[str, str],
        originals: Mapping[str, SourceFile],
        files: Mapping[str, SourceFile],
        spans: tuple[tuple[str, Span], ...],
    ) -> None:
        self.keys = keys
        self.originals = originals
        self.files = files
        self.spans = spans


def change(fault: Fault) -> Planted:
    """Return the changed sources of ``fault``; raises Unsupported where an edit's pattern does not match once."""
    defined = anchors.definitions("transformers")
    by_file: dict[str, list[tuple[int, Edit]]] = defaultdict(list)
    for number, edit in enumerate(fault.edits):
        by_file[edit.file].append((number, edit))
    keys, originals, changed = {}, {}, {}
    spans: dict[int, tuple[str, Span]] = {}
    for key, edits in by_file.items():
        original = files.installed("transformers", defined.files[key])
        path = str(original.file)
        text, found = _apply(original, [edit for _, edit in edits])
        digest = hashlib.sha256(text.encode()).hexdigest()
        keys[key], originals[path], changed[path] = path, original, replace(original, source=text, sha256=digest)
        for (number, _), span in zip(edits, found, strict=True):
            spans[number] = (path, span)
    return Planted(keys, originals, changed, tuple(spans[n] for n in range(len(fault.edits))))


def _apply(file: SourceFile, edits: list[Edit]) -> tuple[str, list[Span]]:
    """Return the text with every edit made, and where each now stands."""
    cuts = []
    for number, edit in enumerate(edits):
        start, end = file.text.offsets(_find(file, edit))
        old = file.source[start:end]
        cuts.append((start, end, f"({edit.code.replace('{0}', f'({old})')})", number))
    pieces, at, length = [], 0, 0
    placed: dict[int, tuple[int, int]] = {}
    for start, end, code, number in sorted(cuts):
        pieces += [file.source[at:start], code]
        length += start - at
        placed[number] = (length, length + len(code))
        length += len(code)
        at = end
    source = "".join([*pieces, file.source[at:]])
    text = Text.of(source)
    spans = [Span(*text.position(placed[n][0]), *text.position(placed[n][1])) for n in range(len(edits))]
    return source, spans


def _find(file: SourceFile, edit: Edit) -> Span:
    found = find_in(file.source, edit.scope, edit.pattern)
    if len(found) != 1:
        raise Unsupported(
            "source.anchor_several" if found else "source.anchor_none",
            anchor=edit.code,
            pattern=edit.pattern,
            scope=edit.scope,
            file=file.member,
            project=file.project,
            version=file.version,
            count=len(found),
            candidates="\n".join(f"  {s.line}:{s.column}  {' '.join(file.text.code(s).split())}" for s in found),
        )
    return found[0]
