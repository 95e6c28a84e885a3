"""Single files out of a wheel or a source archive, unpacked into memory and only if they are what the pin says.

Nothing else of an archive is unpacked, and no name in it reaches the file system; an archive with names that would
leave a folder is refused all the same. Must not know: where archives come from, where files go.
"""

import gzip
import hashlib
import io
import lzma
import stat
import struct
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath

from tracer.errors import InputError
from tracer.source.pins import Pin

# bytes of a whole source archive when unpacked; the largest pinned one has 30 MB
MAX_UNPACKED = 1 << 30
# what the standard library raises on an archive that is none, or is damaged
BROKEN = (
    zipfile.BadZipFile,
    tarfile.TarError,
    gzip.BadGzipFile,
    lzma.LZMAError,
    zlib.error,
    struct.error,
    EOFError,
    ValueError,
    NotImplementedError,
)
_ENCRYPTED = 0x1


def from_zip(archive: zipfile.ZipFile, pins: Sequence[Pin], name: str, *, top: bool = False) -> dict[str, bytes]:
    """Return member → bytes for each of ``pins``. ``top`` says that all names lie below one folder, as in an sdist.

    Raises InputError where one is absent, twice there, a link, of another size or of other bytes; BROKEN errors.
    """
    entries = [entry for entry in archive.infolist() if not entry.is_dir()]
    _refuse_outside((entry.filename for entry in entries), name)
    called = [(_below_top(entry.filename) if top else entry.filename, entry) for entry in entries]
    count, by_name = Counter(below for below, _ in called), dict(called)
    found: dict[str, bytes] = {}
    for pin in pins:
        alias = _alias(pin, by_name, name)
        entry = by_name[alias]
        if count[alias] > 1:
            raise InputError("vendor.twice", member=alias, archive=name)
        if stat.S_ISLNK(entry.external_attr >> 16) or entry.flag_bits & _ENCRYPTED:
            raise InputError("vendor.not_plain", member=entry.filename, archive=name)
        _check_size(entry.file_size, pin, name)
        with archive.open(entry) as content:
            found[pin.member] = content.read(pin.bytes + 1)
        check(found[pin.member], pin, name)
    return found


def from_sdist(file: Path, pins: Sequence[Pin], name: str) -> dict[str, bytes]:
    """Return member → bytes for each of ``pins`` out of a source archive (.tar.gz or .zip). Raises as ``from_zip``."""
    if name.endswith(".zip"):
        with zipfile.ZipFile(file) as archive:
            return from_zip(archive, pins, name, top=True)
    with gzip.open(file, "rb") as gzipped:
        unpacked = _Limited(gzipped, name)
        with tarfile.open(fileobj=unpacked, mode="r|") as tar:
            found = _from_tar(tar, pins, name)
        while unpacked.read(1 << 16):  # up to gzip's own checksum: a truncated archive is no archive
            pass
    return found


def _from_tar(tar: tarfile.TarFile, pins: Sequence[Pin], name: str) -> dict[str, bytes]:
    wanted = {alias: pin for pin in pins for alias in (pin.path, pin.member)}
    contents: dict[str, bytes] = {}
    for entry in tar:
        _refuse_outside([entry.name], name)
        below = _below_top(entry.name)
        if below not in wanted or entry.isdir():
            continue
        if below in contents:
            raise InputError("vendor.twice", member=below, archive=name)
        content = tar.extractfile(entry) if entry.isreg() and not entry.issparse() else None
        if content is None:
            raise InputError("vendor.not_plain", member=entry.name, archive=name)
        _check_size(entry.size, wanted[below], name)
        contents[below] = content.read(wanted[below].bytes + 1)
    found = {pin.member: contents[_alias(pin, contents, name)] for pin in pins}
    for pin in pins:
        check(found[pin.member], pin, name)
    return found


def check(content: bytes, pin: Pin, name: str) -> None:
    """Compare ``content`` with ``pin``; raises InputError, with both hashes, where they differ."""
    _check_size(len(content), pin, name)
    found = hashlib.sha256(content).hexdigest()
    if found != pin.sha256:
        raise InputError("vendor.hash", member=pin.member, archive=name, expected=pin.sha256, found=found)


def _check_size(found: int, pin: Pin, name: str) -> None:
    if found != pin.bytes:
        raise InputError("vendor.size", member=pin.member, archive=name, expected=pin.bytes, found=found)


def _alias(pin: Pin, names: Container[str], archive: str) -> str:
    """Return the name of the pinned file in the archive: a source archive may be laid out as upstream."""
    for alias in (pin.member, pin.path):
        if alias in names:
            return alias
    raise InputError("vendor.no_member", member=pin.member, archive=archive)


def _below_top(name: str) -> str:
    return name.removeprefix("./").partition("/")[2]


def _refuse_outside(names: Iterable[str], archive: str) -> None:
    for name in names:
        windows = PureWindowsPath(name)
        if PurePosixPath(name).is_absolute() or windows.drive or windows.root or ".." in windows.parts:
            raise InputError("vendor.outside", member=name, archive=archive)


class _Limited(io.RawIOBase):
    """Reads a gzip stream up to a limit, however much it would unpack to."""

    def __init__(self, stream: gzip.GzipFile, name: str) -> None:
        self._stream, self._name, self._total = stream, name, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Return up to ``size`` bytes; raises InputError beyond the limit."""
        content = self._stream.read(size)
        self._total += len(content)
        if self._total > MAX_UNPACKED:
            raise InputError("vendor.oversize", place=self._name, found=self._total, limit=MAX_UNPACKED)
        return content
