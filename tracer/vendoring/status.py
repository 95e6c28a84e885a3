"""Which pinned files are on this machine, with which bytes, and the command that brings or mends the others.

A file of an installed package counts where its version and bytes are the pinned ones; else the vendored copy does.
Must not know: the network, archives. Nothing here imports the packages it looks at.
"""

import hashlib
import importlib.metadata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tracer.errors import InputError
from tracer.source.pins import Pin, lookup, pins, projects
from tracer.vendoring import places

# What runs is the installed package, whatever its version; it is shown even where no pin knows it.
_RUNS_INSTALLED = ("transformers",)


class State(StrEnum):
    """What is known of a file."""

    PINNED = "pinned"  # there, with the pinned bytes
    CHANGED = "changed"  # there, with other bytes than its pin has
    MISSING = "missing"
    UNPINNED = "present"  # there, in a version that no pin knows


class Source(StrEnum):
    """Where a file was found."""

    VENDOR = "vendor"
    INSTALLED = "installed"


@dataclass(frozen=True)
class FileStatus:
    """One file: its state, where it is (None where it is missing), and the command that makes it right, if one does."""

    project: str
    version: str
    member: str
    state: State
    source: Source
    path: Path | None
    pin: Pin | None
    command: str | None


def status(projects_: Sequence[str] | None = None, *, folder: Path | None = None) -> tuple[FileStatus, ...]:
    """Return the state of every pinned file of ``projects_`` (all if None), and of the installed package that runs.

    ``folder`` is where files were laid out (the default place if None). Raises InputError for a project without pins.
    """
    root = folder or places.default_folder()
    found: list[FileStatus] = []
    for project in projects() if projects_ is None else dict.fromkeys(projects_):
        if project in _RUNS_INSTALLED:
            found += _unpinned(pins(project))
        for pin in pins(project):
            found += statuses(pin, root)
    return tuple(found)


def statuses(pin: Pin, root: Path) -> tuple[FileStatus, ...]:
    """Return the state of the file of ``pin``: one entry, or two where the installed one is changed."""
    installed = _of_installed(pin)
    if installed is not None and installed.state is State.PINNED:
        return (installed,)
    vendored = _of_vendored(pin, root)
    return (vendored,) if installed is None else (installed, vendored)


def require(pin: Pin, *, folder: Path | None = None) -> Path:
    """Return where the very file of ``pin`` lies; raises InputError, with the command that brings it, if nowhere."""
    found = statuses(pin, folder or places.default_folder())
    for entry in found:
        if entry.state is State.PINNED and entry.path is not None:
            return entry.path
    vendored = found[-1]
    raise InputError(
        f"vendor.need_{vendored.state}",
        project=pin.project,
        version=pin.version,
        member=pin.member,
        path=str(vendored.path),
        command=vendored.command,
    )


def satisfied(pins_: Iterable[Pin], root: Path) -> bool:
    """Return whether every file of ``pins_`` is on this machine with the pinned bytes."""
    return all(any(entry.state is State.PINNED for entry in statuses(pin, root)) for pin in pins_)


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file; raises InputError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError("vendor.unreadable", path=str(path), why=error.strerror or str(error)) from error


def _of_vendored(pin: Pin, root: Path) -> FileStatus:
    path = places.find(root, pin.project, pin.version, pin.member)
    command = f"trace vendor sync {pin.project}"
    state = State.MISSING if path is None else _judge(path, pin)
    wanted = None if state is State.PINNED else command
    return FileStatus(pin.project, pin.version, pin.member, state, Source.VENDOR, path, pin, wanted)


def _of_installed(pin: Pin) -> FileStatus | None:
    version, path = _installed(pin.package, pin.member)
    if version != pin.version or path is None:
        return None
    state = _judge(path, pin)
    mend = f"pip install --force-reinstall --no-deps {pin.package}=={pin.version}"
    command = None if state is State.PINNED else mend
    return FileStatus(pin.project, pin.version, pin.member, state, Source.INSTALLED, path, pin, command)


def _judge(path: Path, pin: Pin) -> State:
    return State.PINNED if sha256_of(path) == pin.sha256 else State.CHANGED


def _unpinned(project: tuple[Pin, ...]) -> list[FileStatus]:
    found: list[FileStatus] = []
    versions = {pin.version for pin in project}
    for member in dict.fromkeys(pin.member for pin in project):
        version, path = _installed(project[0].package, member)
        if version is None or path is None or version in versions:
            continue
        pin = lookup(sha256_of(path))  # the very bytes of another release are as good as pinned
        state = State.UNPINNED if pin is None else State.PINNED
        found.append(FileStatus(project[0].project, version, member, state, Source.INSTALLED, path, pin, None))
    return found


def _installed(package: str, member: str) -> tuple[str | None, Path | None]:
    try:
        found = importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        return None, None
    path = Path(str(found.locate_file(member)))
    return found.version, path if path.is_file() else None
