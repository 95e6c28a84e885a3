"""The bytes of an archive on a server: parts of it over HTTP Range, or the whole of it.

Must not know: what an archive is, where its files go.
"""

import hashlib
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
from remotezip import PartialBuffer, RemoteZip  # type: ignore[import-untyped]

from tracer.errors import InputError
from tracer.vendoring.client import AS_IT_IS, Client, patiently
from tracer.vendoring.records import Archive

MAX_ARCHIVE = 1 << 30  # bytes; the largest pinned one has 336 MB
MAX_RANGE = 32 << 20  # bytes; a member, or the list of members of a wheel with 100,000 files
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")

Count = Callable[[int, int | None], None]  # bytes so far, bytes in all


class RangeRefused(Exception):
    """The server gives no ranges, or not those it was asked for: only the whole archive is to be had."""


class Ranges:
    """Reads ranges of one archive; the ``fetcher`` of a RemoteZip."""

    def __init__(self, client: Client, archive: Archive, count: Count) -> None:
        self._client, self._archive, self._count = client, archive, count
        self.transferred = 0

    def fetch(self, data_range: tuple[int, int | None], stream: bool = False) -> Any:
        """Return the bytes of ``data_range`` as a PartialBuffer: (first, last), or (-n, None) for the last n.

        Raises RangeRefused, InputError for a range too large to be true, httpx2.HTTPError.
        """
        first, last = data_range
        if last is None:
            return self._last(-first)
        if last - first >= MAX_RANGE:
            raise InputError("vendor.oversize", place=self._archive.shown, found=last - first + 1, limit=MAX_RANGE)
        return self._get(f"bytes={first}-{last}", first)

    def _last(self, wanted: int) -> Any:
        try:
            return self._get(f"bytes=-{wanted}", None)
        except RangeRefused:  # some servers count only from the start: ask how long it is
            one = self._get("bytes=0-0", 0, only_total=True)
            first = max(0, one - wanted)
            return self._get(f"bytes={first}-{one - 1}", first)

    def _get(self, asked: str, first: int | None, *, only_total: bool = False) -> Any:
        return patiently(lambda: self._get_once(asked, first, only_total))

    def _get_once(self, asked: str, first: int | None, only_total: bool) -> Any:
        with self._client.http.stream("GET", self._archive.url, headers={**AS_IT_IS, "Range": asked}) as response:
            given = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", "").strip())
            if response.status_code != 206 or given is None:
                raise RangeRefused(f"HTTP {response.status_code}")
            start, end, total = int(given[1]), int(given[2]), int(given[3])
            if first not in (None, start) or not start <= end < total or (first is None and end != total - 1):
                raise RangeRefused(f"{asked} → {given[0]}")
            content = self._body(response, end - start + 1)
        return total if only_total else PartialBuffer(io.BytesIO(content), start, len(content), False)

    def _body(self, response: httpx2.Response, size: int) -> bytes:
        if size > MAX_RANGE:
            raise InputError("vendor.oversize", place=self._archive.shown, found=size, limit=MAX_RANGE)
        content = bytearray()
        for chunk in response.iter_raw():
            content += chunk
            self.transferred += len(chunk)
            self._count(self.transferred, None)
            if len(content) > size:
                raise RangeRefused(f"{len(content)} > {size}")
        if len(content) < size:
            raise httpx2.RemoteProtocolError(f"{len(content)} < {size}")
        return bytes(content)

    def open(self) -> Any:
        """Return the archive as a zipfile.ZipFile over ranges. Raises as ``fetch``, and zipfile.BadZipFile."""
        return RemoteZip(self._archive.url, fetcher=lambda *_, **__: self)


def download(client: Client, archive: Archive, target: Path, count: Count) -> int:
    """Write the whole of ``archive`` to ``target``; return how many bytes it has.

    Raises InputError where the server refuses it, it is too large, cut off, or not what the index's hash says.
    """
    try:
        return patiently(lambda: _download_once(client, archive, target, count))
    except httpx2.RemoteProtocolError as error:
        got = target.stat().st_size if target.exists() else 0
        raise InputError("vendor.cut_off", url=archive.shown, got=got, detail=str(error)) from error


def _download_once(client: Client, archive: Archive, target: Path, count: Count) -> int:
    done = 0
    with client.http.stream("GET", archive.url, headers=AS_IT_IS) as response, target.open("wb") as file:
        if response.status_code != 200:
            raise InputError("vendor.archive_refused", url=archive.shown, status=response.status_code)
        length = response.headers.get("Content-Length", "")
        total = int(length) if length.isdecimal() else None
        for chunk in response.iter_raw():
            done += len(chunk)
            if max(done, total or 0) > MAX_ARCHIVE:
                found = max(done, total or 0)
                raise InputError("vendor.oversize", place=archive.shown, found=found, limit=MAX_ARCHIVE)
            file.write(chunk)
            count(done, total)
    return done


def check_hash(archive: Archive, file: Path) -> None:
    """Compare ``file`` with the strongest hash the index gives for ``archive``; raises InputError if they differ."""
    given = dict(archive.hashes)
    for name in ("sha512", "sha384", "sha256"):
        if name in given:
            with file.open("rb") as content:
                found = hashlib.file_digest(content, name).hexdigest()
            if found != given[name].lower():
                raise InputError("vendor.archive_hash", url=archive.shown, name=name, expected=given[name], found=found)
            return
