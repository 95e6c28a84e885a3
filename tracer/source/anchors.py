"""Anchors: named expressions of a project's source, found by structure and tied to a file's sha256.

The definitions are data (``annotations/anchors/*.toml``). Finding them needs LibCST, which costs a third of a second,
so a finished table is kept in the user's cache under the hash of everything it follows from. Must not know: what runs.
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tracer import data
from tracer.errors import Unsupported
from tracer.files import keep_if_possible
from tracer.records import Site, Span
from tracer.source.files import SourceFile

_TABLE_FORMAT = 2


@dataclass(frozen=True)
class Anchor:
    """One named expression: ``file`` is its key in the definitions, ``callee`` the function a matched call names."""

    id: str
    file: str
    span: Span
    scope: str
    code: str
    parameters: tuple[str, ...]
    callee: str | None


@dataclass(frozen=True)
class PathStep:
    """One hop of a value's path as the definitions give it: an anchor, and the name the next hop reads."""

    anchor: str
    binds: str


@dataclass(frozen=True)
class Definitions:
    """What ``annotations/anchors/<project>.toml`` says. ``paths``: value → way of computing attention → its hops.

    An anchor's ``scope`` and ``pattern`` may be lists, for layouts of different versions: of all of them exactly one
    expression has to match.
    """

    project: str
    files: Mapping[str, str]
    anchors: Mapping[str, Mapping[str, Any]]
    paths: Mapping[str, Mapping[str, tuple[PathStep, ...]]]
    digest: str


@dataclass(frozen=True)
class Table:
    """All anchors of a project in the very files that are given. ``cache`` is the folder that finished answers about
    them are kept in (None: keep none)."""

    files: Mapping[str, SourceFile]
    anchors: Mapping[str, Anchor]
    cache: Path | None = None

    def site(self, id: str) -> Site:
        """Return the Site of the anchor ``id``."""
        if id not in self._sites:
            anchor = self.anchors[id]
            self._sites[id] = self.files[anchor.file].site(anchor.span, anchor.scope)
        return self._sites[id]

    @cached_property
    def _sites(self) -> dict[str, Site]:
        """Those that were asked for."""
        return {}


def definitions(project: str, folder: str = "anchors") -> Definitions:
    """Return the anchor definitions of ``project``: those that runs probe, or of another ``folder`` of annotations."""
    content = (data.annotations() / folder / f"{project}.toml").read_bytes()
    raw = tomllib.loads(content.decode("utf-8"))
    paths = {
        value: {way: tuple(PathStep(**step) for step in steps) for way, steps in ways.items()}
        for value, ways in raw.get("paths", {}).items()
    }
    return Definitions(raw["project"], raw["files"], raw["anchors"], paths, hashlib.sha256(content).hexdigest())


def table(defined: Definitions, files: Mapping[str, SourceFile], cache: Path | None) -> Table:
    """Return every anchor of ``defined`` in ``files``; raises Unsupported where one matches nowhere or several times.

    ``cache`` is a folder that keeps finished tables (None: keep nothing). A table read from it is used only if its own
    hash holds and each anchor's code still stands at its span: a damaged one costs time and never a wrong line.
    """
    key = _key(defined, files)
    kept = cache / f"anchors-{key}.json" if cache is not None else None
    anchors = _read(kept, files) if kept is not None else None
    if anchors is None:
        anchors = _find_all(defined, files)
        if kept is not None:
            rows = json.dumps([asdict(a) for a in anchors.values()])
            keep_if_possible(kept, f"{hashlib.sha256(rows.encode()).hexdigest()}\n{rows}".encode())
    return Table(files, anchors, cache)


def faults(defined: Definitions, files: Mapping[str, SourceFile]) -> tuple[Unsupported, ...]:
    """Return an error for every anchor that matches nowhere or several times, in place of raising the first."""
    return tuple(found for found in _search(defined, files).values() if isinstance(found, Unsupported))


def _find_all(defined: Definitions, files: Mapping[str, SourceFile]) -> dict[str, Anchor]:
    anchors = {}
    for id, found in _search(defined, files).items():
        if isinstance(found, Unsupported):
            raise found
        anchors[id] = found
    return anchors


def _search(defined: Definitions, files: Mapping[str, SourceFile]) -> dict[str, Anchor | Unsupported]:
    from tracer.source.patterns import Module, Pattern  # LibCST: not loaded where the cache has the table

    modules = {key: Module(file.source) for key, file in files.items()}
    anchors: dict[str, Anchor | Unsupported] = {}
    for id, wanted in defined.anchors.items():
        module, under = modules[wanted["file"]], wanted.get("under")
        found = [
            hit
            for pattern in several(wanted["pattern"])
            for scope in several(wanted["scope"])
            for hit in module.find(Pattern(pattern), scope, under)
        ]
        if len(found) == 1:
            (hit,) = found
            anchors[id] = Anchor(id, wanted["file"], hit.span, hit.scope, hit.code, hit.parameters, hit.callee)
        else:
            places = [(f.span.line, f.span.column, f.code) for f in found]
            anchors[id] = _not_one(id, wanted, files[wanted["file"]], places)
    return anchors


def several(given: str | Sequence[str]) -> tuple[str, ...]:
    """Return the alternatives that a definition gives, one or more."""
    return (given,) if isinstance(given, str) else tuple(given)


def _not_one(id: str, wanted: Mapping[str, Any], file: SourceFile, found: list[tuple[int, int, str]]) -> Unsupported:
    values: dict[str, object] = {
        "anchor": id,
        "pattern": "\n  ".join(several(wanted["pattern"])),
        "scope": ", ".join(several(wanted["scope"])),
        "file": file.member,
        "project": file.project,
        "version": file.version,
        "count": len(found),
        "candidates": "\n".join(f"  {line}:{column}  {' '.join(code.split())}" for line, column, code in found),
    }
    return Unsupported("source.anchor_several" if found else "source.anchor_none", **values)


def _key(defined: Definitions, files: Mapping[str, SourceFile]) -> str:
    parts = [str(_TABLE_FORMAT), defined.digest, *(f"{key}:{files[key].sha256}" for key in sorted(files))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _read(kept: Path, files: Mapping[str, SourceFile]) -> dict[str, Anchor] | None:
    try:
        digest, rows = kept.read_text(encoding="utf-8").split("\n", 1)
        if hashlib.sha256(rows.encode()).hexdigest() != digest:
            return None
        anchors = {row["id"]: _anchor(row) for row in json.loads(rows)}
        whole = all(files[a.file].text.code(a.span) == a.code for a in anchors.values())
    except (OSError, ValueError, TypeError, KeyError, IndexError):
        return None  # absent or damaged: it is made anew from the source
    return anchors if whole else None


def _anchor(row: Mapping[str, Any]) -> Anchor:
    fields = {**row, "span": Span(**row["span"]), "parameters": tuple(row["parameters"])}
    return Anchor(**fields)
