"""Which upstream file a text is, by its sha256, and the link that shows the same lines upstream.

The pins are data (``vendor/pins/<project>.toml``), read once for each process at the first question.
Must not know: where the files lie on this machine, how they get there, the network.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, NoReturn
from urllib.parse import quote

from tracer import data
from tracer.errors import InputError

COMMIT, TAG = "commit", "tag"
DIFFERS = "differs"  # pinned, but upstream these lines are others

_SHA256 = re.compile(r"[0-9a-f]{64}")
_SHA1 = re.compile(r"[0-9a-f]{40}")
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+")
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.!+_-]*")
_ARCHIVES = ("wheel", "sdist")
_LONGEST = 200  # characters of what was found that an error shows


@dataclass(frozen=True, slots=True)
class Pin:
    """A file whose bytes are known: its hash, its licence, the archive it comes in and its place upstream.

    ``same_until_line`` is the last line up to which the file equals the upstream one (None: all of it is equal).
    """

    project: str
    package: str  # the name at the package index
    version: str
    archive: str  # wheel | sdist
    member: str  # inside the archive, for an sdist below its top folder
    sha256: str
    bytes: int
    git_blob: str
    licence: str
    repository: str  # "owner/name" at GitHub
    commit: str | None  # 40 hex digits, only where that commit is shown to hold these bytes
    tag: str | None  # the release tag, for where no commit could be shown
    path: str  # inside the repository
    same_until_line: int | None
    note: str

    @property
    def link_kind(self) -> str:
        """``commit`` where the exact commit is proven, else ``tag``."""
        return COMMIT if self.commit else TAG


def projects() -> tuple[str, ...]:
    """Return the names of all pinned projects, sorted. Raises InputError where a pin file is wrong."""
    return tuple(_read())


def pins(project: str) -> tuple[Pin, ...]:
    """Return all pins of ``project`` in the order of its pin file. Raises InputError for a project without pins."""
    known = _read()
    if project not in known:
        raise InputError("vendor.unknown_project", project=project, known=", ".join(known))
    return known[project]


def lookup(sha256: str) -> Pin | None:
    """Return the pin of the file with this sha256 (hex digits), or None; of several, one with a proven commit."""
    return _by_sha256().get(sha256.lower())


def permalink(pin: Pin, line: int, end_line: int | None = None) -> tuple[str | None, str]:
    """Return the upstream link to lines ``line`` to ``end_line`` (from 1, inclusive) and its kind, commit or tag.

    (None, "differs") for lines after ``pin.same_until_line``: upstream they are others. Raises ValueError where
    ``line`` is below 1 or ``end_line`` before it.
    """
    last = line if end_line is None else end_line
    if not 1 <= line <= last:
        raise ValueError(f"lines {line} to {last}: they count from 1, and the end is not before the start")
    if pin.same_until_line is not None and last > pin.same_until_line:
        return None, DIFFERS
    lines = f"#L{line}" if last == line else f"#L{line}-L{last}"
    return f"https://github.com/{pin.repository}/blob/{pin.commit or pin.tag}/{quote(pin.path)}{lines}", pin.link_kind


@cache
def _read() -> Mapping[str, tuple[Pin, ...]]:
    found: dict[str, tuple[Pin, ...]] = {}
    for file in sorted(data.pins().glob("*.toml")):
        found[file.stem] = parse(file.read_text(encoding="utf-8"), file)
    return MappingProxyType(found)


@cache
def _by_sha256() -> Mapping[str, Pin]:
    everything = [pin for project in _read().values() for pin in project]
    # later entries win, so those with a proven commit come last
    return {pin.sha256: pin for pin in sorted(everything, key=lambda pin: pin.commit is not None)}


def parse(text: str, file: Path) -> tuple[Pin, ...]:
    """Return the pins that the pin file ``text`` holds. ``file`` names it in errors; its stem is the project's name.

    Raises InputError (``vendor.pin_file``) where the text is not TOML, or a key is missing, unknown or malformed.
    """
    try:
        table = tomllib.loads(text)
        head = _Table(table, "", file)
        project = head.take("project", _NAME)
        if project != file.stem:
            head.fail("project", project, file.stem)
        shared = {"project": project, "package": head.take("package", _NAME), "licence": head.take("licence")}
        shared["repository"] = head.take("repository", _REPOSITORY)
        releases = head.tables("release")
        head.end()
    except tomllib.TOMLDecodeError as error:
        raise InputError("vendor.pin_file", file=file.name, key="(TOML)", found=str(error), expected="TOML") from None
    return tuple(pin for release in releases for pin in _release(release, shared))


def _release(release: "_Table", shared: Mapping[str, str]) -> list[Pin]:
    version, archive = release.take("version", _VERSION), release.take("archive")
    if archive not in _ARCHIVES:
        release.fail("archive", archive, " | ".join(_ARCHIVES))
    commit, tag = release.maybe("commit", _SHA1), release.maybe("tag", _TAG)
    if (commit is None) == (tag is None):
        release.fail("commit, tag", f"{commit}, {tag}", "commit | tag")
    note = release.maybe("note") or ""
    files = release.tables("file")
    release.end()
    return [
        _file(file, shared, version=version, archive=archive, commit=commit, tag=tag, release_note=note)
        for file in files
    ]


def _file(file: "_Table", shared: Mapping[str, str], *, release_note: str, **release: str | None) -> Pin:
    member, path = file.take("member"), file.take("path")
    for key, value in (("member", member), ("path", path)):
        if not is_inside(value):
            file.fail(key, value, "a/b.py")
    sha256, git_blob = file.take("sha256", _SHA256), file.take("git_blob", _SHA1)
    fields: dict[str, Any] = {
        **shared,
        **release,
        "member": member,
        "path": path,
        "sha256": sha256,
        "git_blob": git_blob,
        "bytes": file.number("bytes"),
        "same_until_line": file.maybe_number("same_until_line"),
        "note": file.maybe("note") or release_note,
    }
    file.end()
    return Pin(**fields)


def is_inside(name: str) -> bool:
    """Return whether ``name`` is a plain relative path, with forward slashes, that stays inside its folder."""
    path = PurePosixPath(name)
    plain = str(path) == name and not path.is_absolute() and ".." not in path.parts
    return plain and name not in ("", ".") and not set(name) & set('\\:\0*?"<>|')


class _Table:
    """A TOML table whose keys are taken one by one, so that what is left over is a misspelt key."""

    def __init__(self, table: Mapping[str, Any], where: str, file: Path) -> None:
        self._left, self._where, self._file = dict(table), where, file

    def fail(self, key: str, found: object, expected: str) -> NoReturn:
        values = {"key": f"{self._where}{key}", "found": str(found)[:_LONGEST], "expected": expected}
        inert = {name: text if text.isprintable() else ascii(text) for name, text in values.items()}
        raise InputError("vendor.pin_file", file=self._file.name, **inert)

    def take(self, key: str, pattern: re.Pattern[str] | None = None) -> str:
        value = self.maybe(key, pattern)
        if not value:
            self.fail(key, repr(value), pattern.pattern if pattern else "text")
        return value

    def maybe(self, key: str, pattern: re.Pattern[str] | None = None) -> str | None:
        value = self._left.pop(key, None)
        if value is None:
            return None
        if not isinstance(value, str) or (pattern and not pattern.fullmatch(value)):
            self.fail(key, repr(value), pattern.pattern if pattern else "text")
        return value

    def number(self, key: str) -> int:
        value = self._left.pop(key, None)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            self.fail(key, repr(value), "1, 2, 3, …")
        return value

    def maybe_number(self, key: str) -> int | None:
        return self.number(key) if key in self._left else None

    def tables(self, key: str) -> list["_Table"]:
        value = self._left.pop(key, None)
        if not isinstance(value, list) or not value or not all(isinstance(entry, dict) for entry in value):
            self.fail(key, repr(value)[:60], f"[[{self._where}{key}]]")
        return [_Table(entry, f"{self._where}{key}[{index}].", self._file) for index, entry in enumerate(value)]

    def end(self) -> None:
        for key in self._left:
            self.fail(key, key, "—")
