"""Turn the place of an expression, in whatever code the model really ran, into a Site.

Two ways lead there: by structure (``annotations/places.toml``: patterns, looked for in the live function of a role) and
by run-time position (a frame's own columns). Sources come from an overlay, else from the file, else from linecache,
which also holds cells of notebooks. Must not know: what a place is needed for.
"""

import ast
import hashlib
import importlib.metadata
import linecache
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

from tracer import data
from tracer.engines.transformers.observed import Place
from tracer.records import Site, Span
from tracer.source.files import SourceFile
from tracer.source.text import Text

if TYPE_CHECKING:
    from tracer.source.patterns import Module, Pattern

_NAME = re.compile(r"[\w.]+")
_DEF = re.compile(r"\s*(async\s+)?def\b")


@cache
def _definitions() -> Mapping[str, tuple[Mapping[str, Any], ...]]:
    raw = tomllib.loads((data.annotations() / "places.toml").read_text(encoding="utf-8"))
    return {f"{group}.{name}": tuple(entry) for group, entries in raw.items() for name, entry in entries.items()}


@dataclass
class Places:
    """The places of one layer. ``roles``: its live functions by role. ``overlay``: sources that stand in for files."""

    roles: Mapping[str, FunctionType]
    overlay: Mapping[str, SourceFile] = field(default_factory=dict)
    _found: dict[str, Site | None] = field(default_factory=dict)
    _files: dict[str, SourceFile | None] = field(default_factory=dict)
    _seen: dict[Place, Site | None] = field(default_factory=dict)

    def site(self, *names: str) -> Site | None:
        """Return the first place among ``names`` (``group.entry``) that is found, or None."""
        for name in names:
            if name not in self._found:
                self._found[name] = self._find(name)
            if self._found[name] is not None:
                return self._found[name]
        return None

    def at(self, place: Place | None) -> Site | None:
        """Return the Site of an expression that was seen running, or None where its source cannot be had."""
        if place is None:
            return None
        if place not in self._seen:
            self._seen[place] = self._at(place)
        return self._seen[place]

    def _at(self, place: Place) -> Site | None:
        if place.lines is None:
            return None
        file = self._file(place.file)
        if file is None or place.lines[1] > len(file.text.starts):
            return None
        (first, last), columns = place.lines, place.bytes
        if columns is None:
            first = _header(file, first)
            line = file.text.lines(first, first)[0]
            span = Span(first, len(line) - len(line.lstrip()), first, len(line))
        else:
            span = Span(first, _column(file, first, columns[0]), last, _column(file, last, columns[1]))
        return file.site(span, place.function.replace(".<locals>", ""))

    def function(self, role: str) -> Site | None:
        """Return the ``def`` line of a role's function."""
        function = self.roles.get(role)
        if function is None:
            return None
        code = function.__code__
        return self.at(Place(code.co_filename, code.co_qualname, (code.co_firstlineno, code.co_firstlineno), None))

    def _find(self, name: str) -> Site | None:
        for wanted in _definitions()[name]:
            function = self.roles.get(wanted["role"])
            file = self._file(function.__code__.co_filename) if function is not None else None
            if function is None or file is None:
                continue
            scope = function.__code__.co_qualname.replace(".<locals>", "")
            found = find_in(file.source, scope, wanted["pattern"], function.__code__.co_firstlineno)
            if len(found) == 1 and (wanted.get("plain", True) or not _NAME.fullmatch(file.text.code(found[0]))):
                return file.site(found[0], scope)
        return None

    def _file(self, path: str) -> SourceFile | None:
        if path in self.overlay:
            return self.overlay[path]
        if path not in self._files:
            self._files[path] = _read(path, self.roles.values())
        return self._files[path]


def _read(path: str, functions: Any) -> SourceFile | None:
    source = "".join(linecache.getlines(path))
    if not source:
        return None
    module = next((f.__module__ or "" for f in functions if f.__code__.co_filename == path), "")
    project, version, member = _named(path, module)
    return SourceFile(project, version, member, Path(path), source, hashlib.sha256(source.encode()).hexdigest())


def _named(path: str, module: str) -> tuple[str, str, str]:
    """Return project, version and path inside the project of a file; a file of no installed package is its own."""
    top = module.partition(".")[0]
    parts = Path(path).parts
    inside = "/".join(parts[len(parts) - 1 - parts[::-1].index(top) :]) if top in parts else Path(path).name
    try:
        return top, importlib.metadata.version(top), inside
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return top or "?", "", inside


def _header(file: SourceFile, first: int) -> int:
    """Return the line of a function's ``def``: to Python, a function begins at its first decorator."""
    lines = file.text.lines(first, len(file.text.starts))
    if not lines[0].lstrip().startswith("@"):
        return first
    return next((n for n, line in enumerate(lines, first) if _DEF.match(line)), first)


def _column(file: SourceFile, line: int, offset: int) -> int:
    """Return the column in code points of a column in UTF-8 bytes."""
    text = file.text.lines(line, line)[0]
    return len(text.encode()[:offset].decode(errors="ignore"))


@lru_cache(maxsize=1024)
def find_in(source: str, scope: str, pattern: str, first: int | None = None) -> tuple[Span, ...]:
    """Return where ``pattern`` matches inside one function (dotted ``scope``, beginning at line ``first`` if several
    have that name). Only that function is parsed: whole files cost LibCST a third of a second each. Empty where the
    source does not parse."""
    part = _function(source, scope, first)
    if part is None:
        return ()
    from libcst import ParserSyntaxError

    try:
        module = _parsed(part.text)
    except ParserSyntaxError:  # newer syntax than LibCST knows: no place can be told, the measurements stand
        return ()
    return tuple(part.span(found.span) for found in module.find(_pattern(pattern), scope))


@lru_cache(maxsize=64)
def _parsed(text: str) -> "Module":
    from tracer.source.patterns import Module

    return Module(text)


@cache
def _pattern(text: str) -> "Pattern":
    from tracer.source.patterns import Pattern

    return Pattern(text)


@dataclass(frozen=True, slots=True)
class _Part:
    """Some lines of a source, moved to the left: ``lines`` and ``moved`` tell, for each, its number in the source and
    by how many columns it was moved."""

    text: str
    lines: tuple[int, ...]
    moved: tuple[int, ...]

    def span(self, span: Span) -> Span:
        """Return the span in the whole source of a span in this part."""
        first, last = span.line - 1, span.end_line - 1
        return Span(
            self.lines[first], span.column + self.moved[first], self.lines[last], span.end_column + self.moved[last]
        )


@lru_cache(maxsize=64)
def _function(source: str, scope: str, first: int | None) -> _Part | None:
    """Return one function with the headers around it; None where the source does not parse or holds no such function.

    A class under an ``if`` or ``try`` is indented, but that line is not kept: what is kept is moved to the left.
    """
    try:
        tree: ast.AST = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    kept: set[int] = set()
    column = 0
    names = scope.split(".")
    for depth, name in enumerate(names):
        last = depth == len(names) - 1
        node = _child(tree, name, first if last else None)
        if node is None:
            return None
        start = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        stop = node.end_lineno or node.lineno
        column = column if depth else node.col_offset
        kept |= set(range(start, stop + 1) if last else range(start, node.body[0].lineno))
        tree = node
    lines = Text.of(source).lines(1, stop)
    numbers = tuple(sorted(kept))
    taken = [lines[number - 1] for number in numbers]
    # lines inside a string or brackets may stand further to the left than the header
    moved = tuple(column if not line[:column].strip() and len(line) >= column else 0 for line in taken)
    text = "\n".join([*(line[by:] for line, by in zip(taken, moved, strict=True)), ""])
    return _Part(text, numbers, moved)


def _child(tree: ast.AST, name: str, first: int | None) -> Any:
    """Return the class or function ``name`` right inside ``tree`` (also under an if or try); ``first`` picks one."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    pending = list(ast.iter_child_nodes(tree))
    found = []
    while pending:
        node = pending.pop(0)
        if isinstance(node, kinds):
            if node.name == name:
                found.append(node)
            continue
        pending += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt | ast.excepthandler)]
    if first is None or len(found) < 2:
        return found[-1] if found else None
    return next((n for n in found if min([n.lineno, *(d.lineno for d in n.decorator_list)]) == first), found[-1])
