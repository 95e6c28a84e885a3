"""The pinned files of a release, in memory and verified, from the first place whose archive has them.

The only module of a sync that talks to servers (through index and ranges). Must not know: where files are laid out.
"""

import contextlib
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
from remotezip import RemoteZipError  # type: ignore[import-untyped]

from tracer.errors import InputError
from tracer.texts import Message, message
from tracer.vendoring import members, ranges
from tracer.vendoring.client import Client, connect
from tracer.vendoring.index import Indexes, in_a_row
from tracer.vendoring.pipconfig import Settings
from tracer.vendoring.places import STAGING
from tracer.vendoring.records import Archive, Progress, Release, Report, Stage


@dataclass(frozen=True)
class Taken:
    """The files of a release (member → bytes), and how they came. ``notes`` say what was tried in vain before."""

    contents: dict[str, bytes]
    archive: Archive
    how: Stage
    bytes: int
    notes: tuple[Message, ...]


class Fetcher:
    """Fetches releases over one connection pool, asking each index once for each package."""

    def __init__(self, client: Client, settings: Settings, report: Report, scratch: Path) -> None:
        self._client, self._report, self._scratch = client, report, scratch
        self._indexes = Indexes(settings, client)

    def fetch(self, release: Release) -> Taken:
        """Return the verified files of ``release``. Raises InputError that says what each place gave instead."""
        failures: list[InputError] = []
        self._report(Progress(release.project, release.version, Stage.FIND))
        for archive in self._indexes.archives(release):
            try:
                taken = self._take(release, archive)
            except InputError as error:
                failures.append(error)
                continue
            notes = tuple(failure.message for failure in failures)
            return Taken(taken.contents, archive, taken.how, taken.bytes, notes + taken.notes)
        if len(failures) == 1:
            raise failures[0]
        raise InputError("vendor.all_failed", failures=in_a_row([failure.message for failure in failures]))

    def _take(self, release: Release, archive: Archive) -> Taken:
        notes: list[Message] = []
        try:
            if archive.local is not None:
                self._report(Progress(release.project, release.version, Stage.LOCAL))
                ranges.check_hash(archive, archive.local)
                return Taken(_unpack(archive, archive.local, release), archive, Stage.LOCAL, 0, ())
            parts = ranges.Ranges(self._client, archive, self._counter(release, Stage.RANGE))
            if archive.kind == "wheel":
                try:
                    with parts.open() as wheel:
                        contents = members.from_zip(wheel, release.pins, archive.shown)
                    return Taken(contents, archive, Stage.RANGE, parts.transferred, ())
                except (ranges.RangeRefused, RemoteZipError, *members.BROKEN) as error:
                    notes.append(message("vendor.no_ranges", url=archive.shown, detail=str(error)))
            return self._take_whole(release, archive, parts.transferred, notes)
        except members.BROKEN as error:
            raise InputError("vendor.broken", url=archive.shown, detail=str(error)) from error
        except httpx2.HTTPError as error:
            detail = str(error) or type(error).__name__
            raise InputError("vendor.failed", url=archive.shown, detail=detail) from error
        except OSError as error:
            raise InputError("vendor.unreadable", path=archive.shown, why=error.strerror or str(error)) from error

    def _take_whole(self, release: Release, archive: Archive, before: int, notes: list[Message]) -> Taken:
        count = self._counter(release, Stage.WHOLE, notes[-1] if notes else None)
        count(0, None)
        # beside the files: there is room for them, and what a killed sync leaves there goes with the next one
        with tempfile.TemporaryDirectory(prefix=STAGING, dir=self._scratch) as folder:
            file = Path(folder) / "archive"
            done = ranges.download(self._client, archive, file, count)
            ranges.check_hash(archive, file)
            contents = _unpack(archive, file, release)
        return Taken(contents, archive, Stage.WHOLE, before + done, tuple(notes))

    def _counter(self, release: Release, stage: Stage, note: Message | None = None) -> ranges.Count:
        def count(done: int, total: int | None) -> None:
            self._report(Progress(release.project, release.version, stage, done, total, note))

        return count


@contextlib.contextmanager
def fetcher(settings: Settings, report: Report, scratch: Path) -> Iterator[Fetcher]:
    """Yield a Fetcher that downloads to ``scratch``; its connections end with the ``with``.

    Raises InputError where ``settings`` cannot be used.
    """
    with connect(settings) as client:
        yield Fetcher(client, settings, report, scratch)


def _unpack(archive: Archive, file: Path, release: Release) -> dict[str, bytes]:
    if archive.kind == "sdist":
        return members.from_sdist(file, release.pins, archive.shown)
    with zipfile.ZipFile(file) as wheel:
        return members.from_zip(wheel, release.pins, archive.shown)
