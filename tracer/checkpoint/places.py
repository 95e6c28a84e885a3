"""Where a checkpoint's files are: a folder, or a repository of the Hugging Face hub whose files come when asked for.

Must not know: what is in the files.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tracer.checkpoint.wording import shown
from tracer.errors import InputError

_SNAPSHOT = re.compile(r"[0-9a-f]{40}")


class Place(Protocol):
    """A set of named files. ``complete`` says whether ``names`` lists all of them (a hub's are not asked for)."""

    @property
    def name(self) -> str: ...
    @property
    def folder(self) -> Path: ...
    @property
    def revision(self) -> str | None: ...
    @property
    def complete(self) -> bool: ...

    def names(self) -> tuple[str, ...]:
        """Return the names of the files that are here already, sorted."""

    def find(self, name: str) -> Path | None:
        """Return the path of the file ``name``, or None where there is none; raises InputError for a forbidden one."""

    def absent(self, file: str, fault: InputError) -> InputError:
        """Return the error to raise where ``file`` is needed and absent; ``fault`` unless there is more to say."""


@dataclass(frozen=True)
class Folder:
    """A folder on this machine. Nothing is ever written into it."""

    folder: Path
    name: str
    revision: str | None = None
    complete: bool = True

    def names(self) -> tuple[str, ...]:
        """Return the names of the files here, sorted."""
        try:
            return tuple(sorted(path.name for path in self.folder.iterdir()))
        except OSError as fault:
            raise InputError(
                "checkpoint.unreadable", file=str(self.folder), fault=fault.strerror or str(fault)
            ) from None

    def find(self, name: str) -> Path | None:
        """Return the path of the file ``name`` here, or None; refuses links that lead out of the folder."""
        path = self.folder / name
        try:
            path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as fault:
            raise InputError("checkpoint.unreadable", file=str(path), fault=fault.strerror or str(fault)) from None
        return checked(path, self.folder)

    def absent(self, file: str, fault: InputError) -> InputError:
        """Return ``fault``: what is not in a folder is not there."""
        return fault


def checked(path: Path, folder: Path) -> Path:
    """Return ``path``; raises InputError unless it is a regular file that really lies in ``folder``.

    The hub's own cache is the one exception: its ``models--…/snapshots/<commit>/`` have links to ``models--…/blobs/``
    of the same repository. What lies beside them, other repositories among it, stays out of reach.
    """
    try:
        target, root = path.resolve(strict=True), folder.resolve(strict=True)
    except PermissionError as fault:
        raise InputError("checkpoint.unreadable", file=str(path), fault=fault.strerror or str(fault)) from None
    except (OSError, RuntimeError):  # RuntimeError: links in a circle, before Python 3.13
        raise InputError("checkpoint.broken_link", file=str(path)) from None
    if not target.is_file():
        raise InputError("checkpoint.not_a_file", file=str(path))
    if target.is_relative_to(root):
        return path
    blobs = _hub_blobs(root)
    if blobs is None or not target.is_relative_to(blobs):
        raise InputError("checkpoint.link_outside", file=str(path), target=shown(str(target)))
    return path


def _hub_blobs(folder: Path) -> Path | None:
    """Return the folder of blobs that ``folder``, a resolved path, is a snapshot over in a hub cache, or None."""
    repository = folder.parent.parent
    is_snapshot = folder.parent.name == "snapshots" and _SNAPSHOT.fullmatch(folder.name) is not None
    blobs = repository / "blobs"
    if is_snapshot and repository.name.startswith("models--") and blobs.is_dir() and not blobs.is_symlink():
        return blobs
    return None
