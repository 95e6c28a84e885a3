"""Where vendored files lie on this machine, and how a release gets there: as a whole, or not at all.

A release is a folder ``<project>/<version>``. A folder that has files cannot be replaced in one step, so a repaired
release becomes a new generation, ``<version>~2``, in one rename; the newest generation is the one that counts, older
ones are then removed. Must not know: archives, indexes, what makes a file right.
"""

import os
import re
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from tracer import data
from tracer.errors import InputError
from tracer.files import reason
from tracer.source.pins import is_inside

STAGING = ".incoming-"  # begins the names of what a sync is still working on


def default_folder() -> Path:
    """Return ``vendor/files`` of the checkout this code runs from, or of the user's cache where tracer is installed."""
    vendor = data.pins().parent
    if vendor.parent.name == "_data":  # packed in a wheel
        return platformdirs.user_cache_path("tracer") / "vendor"
    return vendor / "files"


def release_folder(root: Path, project: str, version: str) -> Path | None:
    """Return the folder that holds the files of a release, or None where it was never laid out."""
    found = _generations(root, project, version)
    return found[max(found)] if found else None


def find(root: Path, project: str, version: str, member: str) -> Path | None:
    """Return where the file ``member`` of a release lies, whatever its bytes, or None."""
    folder = release_folder(root, project, version)
    path = folder / member if folder else None
    return path if path and path.is_file() else None


def lay_out(root: Path, project: str, version: str, contents: Mapping[str, bytes]) -> Path:
    """Write the files of a release (member → bytes) so that all of them appear at once; return their folder.

    The caller holds the lock of ``root``. Raises InputError where a name would leave the folder, the project's folder
    is a link to another place, or the folder cannot be written.
    """
    for member in contents:
        if not is_inside(member):
            raise InputError("vendor.outside", member=member, archive=f"{project} {version}")
    home = root / project
    if home.is_symlink():  # what is laid out stays in this folder
        raise InputError("vendor.leads_away", path=str(home), to=os.readlink(home))
    try:
        clear_staging(root)
        staging = root / f"{STAGING}{secrets.token_hex(6)}"
        _write_all(staging, contents)
        older = _generations(root, project, version)
        generation = max(older) + 1 if older else 1
        target = root / project / (version if generation == 1 else f"{version}~{generation}")
        target.parent.mkdir(exist_ok=True)
        os.rename(staging, target)
        _flush_folder(target.parent)
        _flush_folder(root)
    except OSError as error:
        raise InputError("vendor.unwritable", folder=str(root), reason=reason(error)) from error
    for folder in older.values():
        shutil.rmtree(folder, ignore_errors=True)  # what cannot be removed now is out of use, and goes with the next
    return target


def clear_staging(root: Path) -> None:
    """Remove what an interrupted sync left half-written. The caller holds the lock of ``root``."""
    for leftover in root.glob(f"{STAGING}*"):
        shutil.rmtree(leftover, ignore_errors=True)


def _generations(root: Path, project: str, version: str) -> dict[int, Path]:
    found: dict[int, Path] = {}
    name = re.compile(re.escape(version) + r"(?:~([1-9][0-9]*))?")
    folder = root / project
    if folder.is_dir():
        for path in folder.iterdir():
            match = name.fullmatch(path.name)
            if match and path.is_dir():
                found[int(match[1] or 1)] = path
    return found


def _write_all(staging: Path, contents: Mapping[str, bytes]) -> None:
    for member, content in contents.items():
        path = staging / member
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    for folder, _, _ in os.walk(staging):
        _flush_folder(Path(folder))


def _flush_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
