"""Which files a lint reads: every Python file under the paths given, and what of it cannot be read, with the reason.

Folders are walked without following links, so a circle of links ends; a link to a file is read once. Must not know:
what is in the files.
"""

import io
import os
import stat
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tracer.errors import InputError
from tracer.files import reason
from tracer.lint.records import Skipped
from tracer.texts import Message, message

LARGEST = 4_000_000  # bytes; the largest file of transformers, vLLM and SGLang has a tenth of that
_LEFT_OUT = ("__pycache__", "node_modules")


@dataclass(frozen=True, eq=False)
class Read:
    """One file: ``name`` as a reader finds it, ``parts`` of its module name, ``source`` with the line ends it has."""

    name: str
    parts: tuple[str, ...]
    source: str
    file: Path


@dataclass(frozen=True)
class Gathered:
    """All files read, and those that were not."""

    files: tuple[Read, ...]
    skipped: tuple[Skipped, ...]


def gather(paths: Iterable[Path]) -> Gathered:
    """Return the Python files under ``paths``; raises InputError for a path that does not exist."""
    files: list[Read] = []
    skipped: list[Skipped] = []
    seen: set[tuple[int, int]] = set()
    for path in paths:
        for file, top in _under(path, skipped):
            _read(file, top, files, skipped, seen)
    return Gathered(tuple(files), tuple(skipped))


def _under(path: Path, skipped: list[Skipped]) -> Iterator[tuple[Path, Path]]:
    try:
        found = path.stat()
    except (OSError, ValueError) as error:
        why = reason(error, reading=True)
        raise InputError("lint.no_such_path", path=str(path), reason=why) from error
    if not stat.S_ISDIR(found.st_mode):
        yield path, path.parent
        return

    def refused(error: OSError) -> None:
        skipped.append(Skipped(str(error.filename), message("lint.unreadable", reason=reason(error, reading=True))))

    for folder, folders, names in os.walk(path, onerror=refused):
        here = Path(folder)
        kept = []
        for name in sorted(folders):
            if name.startswith(".") or name in _LEFT_OUT or (here / name / "pyvenv.cfg").exists():
                continue
            if (here / name).is_symlink():
                skipped.append(Skipped(str(here / name), message("lint.linked_folder")))
                continue
            kept.append(name)
        folders[:] = kept
        for name in sorted(names):
            if name.endswith(".py"):
                yield here / name, path


def _read(file: Path, top: Path, files: list[Read], skipped: list[Skipped], seen: set[tuple[int, int]]) -> None:
    try:
        found = file.stat()
        if not stat.S_ISREG(found.st_mode):
            skipped.append(Skipped(str(file), message("lint.not_a_file")))
            return
        if (found.st_dev, found.st_ino) in seen:
            return
        seen.add((found.st_dev, found.st_ino))
        if found.st_size > LARGEST:
            skipped.append(Skipped(str(file), message("lint.too_large", size=found.st_size, largest=LARGEST)))
            return
        data = file.read_bytes()
    except (OSError, ValueError) as error:
        skipped.append(Skipped(str(file), message("lint.unreadable", reason=reason(error, reading=True))))
        return
    if b"\0" in data:
        skipped.append(Skipped(str(file), message("lint.nul", offset=data.index(b"\0"))))
        return
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)  # as the first lines declare it
        source = data.decode(encoding)
    except UnicodeDecodeError as error:
        why = message("lint.not_decoded", encoding=encoding, offset=error.start)
        skipped.append(Skipped(str(file), why if encoding != "utf-8" else message("lint.not_utf8", offset=error.start)))
        return
    except (SyntaxError, LookupError, ValueError):
        skipped.append(Skipped(str(file), _undeclared(data)))
        return
    files.append(Read(str(file), _module_name(file, top), source, file))


def _undeclared(data: bytes) -> Message:
    """Why the first lines give no encoding: they are no UTF-8 themselves, or name one that does not exist."""
    try:
        data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return message("lint.not_utf8", offset=error.start)
    return message("lint.encoding_unknown")


def _module_name(file: Path, top: Path) -> tuple[str, ...]:
    """Return the parts of a file's module name: those of the packages above the path given, too."""
    above: list[str] = []
    folder = top.absolute()
    while (folder / "__init__.py").is_file() and folder.name and len(above) < 32:
        above.insert(0, folder.name)
        folder = folder.parent
    *inside, last = file.relative_to(top).parts if file != top else (file.name,)
    stem = last.rpartition(".")[0] or last  # not Path's: what it makes of "..py" is a matter of Python's version
    if stem != "__init__":
        inside.append(stem)
    return tuple(part.replace(".", "_") for part in (*above, *inside))  # a folder may be named 5.16.1
