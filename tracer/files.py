"""Files that are whole or absent: written beside their final name, flushed to the disk, then moved into place.

Must not know: what is in them.
"""

import contextlib
import errno
import os
from collections.abc import Iterable
from pathlib import Path

from tracer.errors import InputError
from tracer.texts import Message, message

_REASONS = {
    errno.ENOENT: "files.no_such_folder",
    errno.ENOTDIR: "files.not_a_folder",
    errno.EISDIR: "files.is_a_folder",
    errno.EACCES: "files.not_allowed",
    errno.EPERM: "files.not_allowed",
    errno.EROFS: "files.read_only",
    errno.ENOSPC: "files.no_space",
    errno.EDQUOT: "files.no_space",
    errno.EFBIG: "files.file_limit",
    errno.ENAMETOOLONG: "files.name_too_long",
    errno.ELOOP: "files.link_loop",
}
Buffer = bytes | bytearray | memoryview
_BINARY = getattr(os, "O_BINARY", 0)  # Windows would otherwise change line ends


def reason(error: OSError | ValueError, *, reading: bool = False) -> Message:
    """Return why the operating system refused to read or write, in every language where the reason is a common one."""
    if isinstance(error, OSError):
        if reading and error.errno == errno.ENOENT:
            return message("files.no_such_file")
        if error.errno in _REASONS:
            return message(_REASONS[error.errno])
        return message("files.other", detail=error.strerror or type(error).__name__)
    return message("files.bad_name")  # Python's own refusal of a NUL character


def check_writable(path: Path) -> None:
    """Find out whether ``write_whole`` could write ``path``, by creating a file beside it; raises InputError if not."""
    try:
        target = _followed(path)
        if _is_special(target):
            if not os.access(target, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return
        _refuse_folder_or_read_only(target)
        handle, beside = _create_beside(target)
        os.close(handle)
        beside.unlink()
    except (OSError, ValueError) as error:
        raise InputError("files.unwritable", path=str(path), reason=reason(error)) from error


def write_whole(path: Path, *data: Buffer) -> None:
    """Write ``data`` to ``path`` so that nobody ever sees a part of it; raises InputError where that cannot be done.

    Several pieces are written one after the other, without a copy that holds them all. A symbolic link is followed.
    A device or a pipe is written to directly, having no "whole" to speak of.
    """
    try:
        target = _followed(path)
        if _is_special(target):
            with target.open("wb") as file:
                file.writelines(data)
        else:
            _refuse_folder_or_read_only(target)
            _replace(target, data)
    except (OSError, ValueError) as error:
        raise InputError("files.unwritable", path=str(path), reason=reason(error)) from error


def keep_if_possible(path: Path, *data: Buffer) -> None:
    """Write ``data`` to ``path`` as ``write_whole`` does, its folder made first; do nothing where that cannot be done
    (read-only home, full disk, something else in its place). For caches: without one a run costs time, nothing else.
    """
    with contextlib.suppress(OSError, InputError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, *data)


def _followed(path: Path) -> Path:
    target = Path(os.path.realpath(path))
    if target.is_symlink():  # what is left of links that go round in a circle
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return target


def _is_special(target: Path) -> bool:
    return target.exists() and not target.is_file() and not target.is_dir()


def _refuse_folder_or_read_only(target: Path) -> None:
    # Replacing a file needs no right to write to it, only to its folder: without this, a read-only file would be lost.
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _create_beside(target: Path) -> tuple[int, Path]:
    # A short name of its own: the target's may already be as long as the file system allows. 0o666 leaves the
    # permissions to the user's umask, where tempfile would make a file that only its owner can read.
    beside = target.parent / f".{os.urandom(6).hex()}.part"
    return os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o666), beside


def _replace(target: Path, data: Iterable[Buffer]) -> None:
    handle, beside = _create_beside(target)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(data)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            beside.chmod(target.stat().st_mode & 0o7777)
        os.replace(beside, target)
    except BaseException:  # also a Ctrl-C in the middle leaves nothing behind
        beside.unlink(missing_ok=True)
        raise
    _flush_folder(target.parent)


def _flush_folder(folder: Path) -> None:
    """Ask that the folder's new entry outlive a power failure. The file is in place by now: where this is refused (a
    folder that may be written and not read, some network file systems), nothing is wrong with it."""
    if os.name != "posix":
        return
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
