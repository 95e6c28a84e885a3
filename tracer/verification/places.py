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
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

from tracer import data
from tracer.engines.transformers.observed import Place
from tracer.records import Site, Span
from tracer.source.files import SourceFile

_NAME = re.compile(r"[\w.]+")


@cache
def _definitions() -> Mapping[str, tuple[Mapping[str, Any], ...]]:
    raw = tomllib.loads((data.annotations() / "places.toml").read_text(encoding="utf-8"))
    return {f"{group}.{name}": tuple(entry) for group, entries in raw.items() for name, entry in entries.items()}


@dataclass
class Places:
    """The places of one model: ``roles`` are its live functions by role, ``overlay`` sources that stand in for files."""

    roles: Mapping[str, FunctionType]
    overlay: Mapping[str, SourceFile] = field(default_factory=dict)
    _found: dict[str, Site | None] = field(default_factory=dict)
    _files: dict[str, SourceFile | None] = field(default_factory=dict)

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
        if place is None or place.lines is None:
            return None
        file = self._file(place.file)
        if file is None or place.lines[1] > len(file.text.starts):
            return None
        (first, last), columns = place.lines, place.bytes
        if columns is None:
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
        from tracer.source.patterns import Module, Pattern

        for wanted in _definitions()[name]:
            function = self.roles.get(wanted["role"])
            file = self._file(function.__code__.co_filename) if function is not None else None
            if function is None or file is None:
                continue
            scope = function.__code__.co_qualname.replace(".<locals>", "")
            part = _only(file.source, scope, function.__code__.co_firstlineno)
            if part is None:
                continue
            found = Module(part).find(Pattern(wanted["pattern"]), scope)
            if len(found) == 1 and (wanted.get("plain", True) or not _NAME.fullmatch(found[0].code)):
                return file.site(found[0].span, scope)
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


def _column(file: SourceFile, line: int, offset: int) -> int:
    """Return the column in code points of a column in UTF-8 bytes."""
    text = file.text.lines(line, line)[0]
    return len(text.encode()[:offset].decode(errors="ignore"))


def _only(source: str, scope: str, first: int) -> str | None:
    """Return ``source`` with every line blank but those of one function and the headers around it, so that parsing it
    costs little; lines keep their numbers. None where the source does not parse or holds no such function."""
    try:
        tree: ast.AST = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    keep: set[int] = set()
    names = scope.split(".")
    for depth, name in enumerate(names):
        last = depth == len(names) - 1
        node = _child(tree, name, first if last else None)
        if node is None:
            return None
        start = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        stop = node.end_lineno or node.lineno
        keep |= set(range(start, stop + 1) if last else range(start, node.body[0].lineno))
        tree = node
    lines = source.splitlines(keepends=True)
    if len(lines) != source.count("\n") + (not source.endswith("\n")):
        return source  # other line ends than \n: not worth the trouble
    return "".join(line if n in keep else "\n" for n, line in enumerate(lines, 1))


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
