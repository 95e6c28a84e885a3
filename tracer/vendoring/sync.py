"""Bring the pinned files of a project to this machine: find, fetch, verify, lay out. Nothing is installed or built.

Must not know: how progress is shown. Network libraries are imported only when something has to be fetched.
"""

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tracer.errors import InputError, TracerError
from tracer.files import reason
from tracer.source.pins import pins, projects
from tracer.texts import message
from tracer.vendoring import pipconfig, places
from tracer.vendoring.records import (
    Outcome,
    Progress,
    Release,
    ReleaseReport,
    Report,
    Stage,
    SyncReport,
    releases,
)
from tracer.vendoring.status import State, satisfied, statuses

if TYPE_CHECKING:
    from tracer.vendoring.fetch import Fetcher

_LOCK = ".lock"
WAIT = 600.0  # seconds to wait for another sync of the same folder


class SyncFailed(InputError):
    """Some releases could not be brought. ``report`` tells of those that were, ``failures`` holds one error each."""

    def __init__(self, failures: Sequence[tuple[Release, TracerError]], report: SyncReport) -> None:
        self.failures, self.report = tuple(failures), report
        alike: dict[str, tuple[list[str], TracerError]] = {}  # without a network each release fails for the same reason
        for release, error in failures:
            alike.setdefault(str(error), ([], error))[0].append(f"{release.project} {release.version}")
        lines = [
            message("vendor.one_failed", releases=", ".join(names), error=error.message)
            for names, error in alike.values()
        ]
        text = lines[-1]
        for line in reversed(lines[:-1]):
            text = message("vendor.lines", first=line, rest=text)
        done = sum(release.files for release in report.releases)
        super().__init__("vendor.sync_failed", failures=text, files=done, folder=str(report.folder))


def sync(
    projects_: Sequence[str] | None = None,
    *,
    folder: Path | None = None,
    index: str | None = None,
    report: Report | None = None,
) -> SyncReport:
    """Lay out the pinned files of ``projects_`` (all if None) in ``folder`` and return a report.

    ``folder`` is places.default_folder() if None. What is there with the pinned bytes, laid out or installed, is left
    alone. ``index`` takes the place of the index-url that pip's configuration names. ``report`` is called with a
    Progress at every step. Each release appears as a whole or not at all; one that fails does not stop the others.
    Raises SyncFailed after the last, InputError for wrong arguments or configuration.
    """
    chosen = projects() if projects_ is None else tuple(dict.fromkeys(projects_))
    wanted = releases(tuple(pin for project in chosen for pin in pins(project)))
    settings = pipconfig.read(index)
    return sync_releases(wanted, folder or places.default_folder(), settings, report or (lambda _: None))


def sync_releases(
    wanted: Sequence[Release], root: Path, settings: pipconfig.Settings, report: Report, *, wait: float = WAIT
) -> SyncReport:
    """Lay out ``wanted`` in ``root``, as ``sync`` does. ``wait``: seconds to wait for another sync of that folder."""
    begin = time.monotonic()
    done: dict[Release, ReleaseReport] = {release: _present(release) for release in wanted if _is_there(release, root)}
    failures: list[tuple[Release, TracerError]] = []
    missing = [release for release in wanted if release not in done]
    if missing:
        # not at import, nor where nothing is missing: unearth and its HTTP client take half a second
        from tracer.vendoring.fetch import fetcher

        with _locked(root, report, missing[0], wait), fetcher(settings, report, root) as fetching:
            for release in missing:
                try:
                    done[release] = _bring(release, root, fetching, report)
                except TracerError as error:
                    failures.append((release, error))
    result = SyncReport(
        folder=root,
        releases=tuple(done[release] for release in wanted if release in done),
        places=settings.places,
        seconds=time.monotonic() - begin,
    )
    if failures:
        raise SyncFailed(failures, result)
    return result


def _bring(release: Release, root: Path, fetching: "Fetcher", report: Report) -> ReleaseReport:
    if _is_there(release, root):  # another sync brought it while this one waited
        return _present(release)
    begin = time.monotonic()
    replaced = sum(entry.state is State.CHANGED for pin in release.pins for entry in statuses(pin, root)[-1:])
    taken = fetching.fetch(release)
    report(Progress(release.project, release.version, Stage.WRITE))
    places.lay_out(root, release.project, release.version, taken.contents)
    report(Progress(release.project, release.version, Stage.DONE, taken.bytes, taken.bytes))
    return replace(
        _present(release),
        outcome=Outcome.LAID_OUT,
        replaced=replaced,
        how=taken.how,
        origin=taken.archive.origin,
        archive=taken.archive.filename,
        bytes=taken.bytes,
        seconds=time.monotonic() - begin,
        notes=taken.notes,
    )


def _is_there(release: Release, root: Path) -> bool:
    return satisfied(release.pins, root)


def _present(release: Release) -> ReleaseReport:
    return ReleaseReport(release.project, release.version, Outcome.PRESENT, len(release.pins))


@contextlib.contextmanager
def _locked(root: Path, report: Report, first: Release, wait: float) -> Iterator[None]:
    import filelock  # only a sync that has something to do needs it

    try:
        root.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(root / _LOCK)
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            report(Progress(first.project, first.version, Stage.WAIT))
            lock.acquire(timeout=wait)
    except filelock.Timeout as error:
        raise InputError("vendor.locked", folder=str(root), seconds=wait) from error
    except OSError as error:
        raise InputError("vendor.unwritable", folder=str(root), reason=reason(error)) from error
    with contextlib.ExitStack() as stack:
        stack.callback(lock.release)
        places.clear_staging(root)
        yield
