"""Instrumented code: the real source with probes spliced in, put into the live functions for one ``with``.

The whole file is compiled under its own path, so tracebacks and line numbers stay true, and only the code objects of
the functions that hold probes are swapped. Before that, the original text is compiled too and must equal the code that
is loaded: a line is shown only if the file on disk is what runs. Must not know: models, what is probed and why.
"""

import importlib
import inspect
import sys
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import CellType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from tracer.capture.recorder import Recorder
from tracer.capture.turn import turn
from tracer.errors import Unsupported
from tracer.records import Span
from tracer.source.anchors import Table
from tracer.source.files import SourceFile
from tracer.source.text import splice

PROBE = "__probe__"
# Not even the thread that has the turn can put instrumented code on top of instrumented code.
_RUNNING = threading.Lock()


@dataclass(frozen=True)
class Patched:
    """A live function, its own code and its instrumented code."""

    function: FunctionType
    original: CodeType
    instrumented: CodeType


@dataclass(frozen=True)
class Instrumentation:
    """Every function to patch, and which anchors each probe number stands for."""

    functions: tuple[Patched, ...]
    probes: tuple[tuple[str, ...], ...]

    @contextmanager
    def swapped(self, recorder: Recorder) -> Iterator[None]:
        """Run the ``with`` body on instrumented code; everything is put back after it, also after an error.

        Raises Unsupported where another trace holds the code in this process.
        """
        with turn():  # only this thread can hold what follows, so to ask first is enough
            if _RUNNING.locked():
                raise Unsupported("source.busy")
            with _RUNNING:
                yield from self._swapped(recorder)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Run the body of a ``with`` inside ``swapped`` on the functions' own code, as if nothing were instrumented."""
        try:
            for patched in self.functions:
                patched.function.__code__ = patched.original
            yield
        finally:
            for patched in self.functions:
                patched.function.__code__ = patched.instrumented

    def _swapped(self, recorder: Recorder) -> Iterator[None]:
        def probe(number: int, value: Any) -> Any:
            recorder.note(self.probes[number], value)
            return value

        try:
            for patched in self.functions:
                patched.function.__globals__[PROBE] = probe
                patched.function.__code__ = patched.instrumented
            yield
        finally:
            for patched in self.functions:
                patched.function.__code__ = patched.original
            # A thread of the user's may be inside instrumented code still: its probes must find something to call.
            entered = _entered({patched.instrumented for patched in self.functions})
            for patched in self.functions:
                if entered:
                    patched.function.__globals__[PROBE] = _handed_on
                else:
                    patched.function.__globals__.pop(PROBE, None)


def _handed_on(_number: int, value: Any) -> Any:
    return value


def _entered(codes: set[CodeType]) -> bool:
    """Return whether any thread is inside one of ``codes`` now."""
    for frame in sys._current_frames().values():
        inner: FrameType | None = frame
        while inner is not None:
            if inner.f_code in codes:
                return True
            inner = inner.f_back
    return False


def instrument(
    table: Table, anchors: Iterable[str], modules: Mapping[str, ModuleType] | None = None
) -> Instrumentation:
    """Return instrumented code for the functions that hold ``anchors``.

    ``modules`` are the loaded modules by dotted name; where it is None they are imported. Raises Unsupported where a
    loaded function was not compiled from the file that was read.
    """
    by_span: dict[str, dict[Span, list[str]]] = defaultdict(lambda: defaultdict(list))
    for id in anchors:
        anchor = table.anchors[id]
        by_span[anchor.file][anchor.span].append(id)
    functions: list[Patched] = []
    probes: list[tuple[str, ...]] = []
    for key, spans in by_span.items():
        file = table.files[key]
        wraps = []
        for span, ids in spans.items():
            wraps.append((span, f"{PROBE}({len(probes)}, (", "))"))
            probes.append(tuple(ids))
        scopes = sorted({table.anchors[id].scope for ids in spans.values() for id in ids})
        name = file.member.removesuffix(".py").replace("/", ".")
        module = importlib.import_module(name) if modules is None else modules[name]
        functions += patches(file, module, splice(file.text, wraps), scopes)
    return Instrumentation(tuple(functions), tuple(probes))


def patches(file: SourceFile, module: ModuleType, spliced: str, scopes: list[str]) -> list[Patched]:
    """Return the loaded functions ``scopes`` of ``file`` with their code in ``spliced``, a changed text of that file.

    Raises Unsupported where a loaded function was not compiled from the file that was read.
    """
    original = compile(file.source, str(file.file), "exec", dont_inherit=True)
    probed = compile(spliced, str(file.file), "exec", dont_inherit=True)
    patches = []
    for scope in scopes:
        function = live_function(module, scope)
        if function is None or function.__code__ != _code(original, scope):
            found = _whereabouts(function or _attribute(module, scope))
            name = f"{module.__name__}.{scope}"
            raise Unsupported("source.not_the_file", function=name, file=file.member, found=found)
        patches.append(Patched(function, function.__code__, _code(probed, scope)))
    return patches


def live_function(module: ModuleType, scope: str) -> FunctionType | None:
    """Return the loaded function that ``scope`` (dotted) names, decorators taken off, or None where there is none.

    A decorator may hide a function without ``__wrapped__``; then it is looked for, by its qualified name, among the
    objects that the decorated function closes over.
    """
    return _enclosed(_attribute(module, scope), scope, set())


def _attribute(module: ModuleType, scope: str) -> Any:
    """Return what stands at ``scope`` now, descriptors and ``__wrapped__`` decorators taken off, or None."""
    owner: Any = module
    for name in scope.split("."):
        try:
            owner = inspect.getattr_static(owner, name)
        except AttributeError:
            return None
    return inspect.unwrap(getattr(owner, "__func__", owner))


def _whereabouts(found: Any) -> str:
    code = getattr(found, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else repr(type(found).__name__)


def _enclosed(function: Any, scope: str, visited: set[int]) -> FunctionType | None:
    if not isinstance(function, FunctionType) or id(function) in visited:
        return None
    visited.add(id(function))
    if function.__code__.co_qualname == scope:
        return function
    for cell in function.__closure__ or ():
        if cell == CellType():  # empty: a name that was never bound
            continue
        hit = _enclosed(cell.cell_contents, scope, visited)
        if hit is not None:
            return hit
    return None


def _code(module_code: CodeType, scope: str) -> CodeType:
    """Return the code object that ``scope`` (dotted) names inside a compiled file; scopes from anchors always exist."""
    code = module_code
    for name in scope.split("."):
        code = next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name)
    return code
