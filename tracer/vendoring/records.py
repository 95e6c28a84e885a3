"""What a sync hands on: progress while it runs, and a report of what it did. Must not know: how either is shown."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tracer.source.pins import Pin
from tracer.texts import Message
from tracer.vendoring.pipconfig import Place


@dataclass(frozen=True)
class Release:
    """The pinned files of one version of a project; they come out of one archive."""

    project: str
    version: str
    pins: tuple[Pin, ...]

    @property
    def package(self) -> str:
        """Its name at the package index."""
        return self.pins[0].package

    @property
    def archive(self) -> str:
        """The kind of archive that was pinned, ``wheel`` or ``sdist``."""
        return self.pins[0].archive


def releases(pins: tuple[Pin, ...]) -> tuple[Release, ...]:
    """Return ``pins`` grouped by release, in the order of their first pin."""
    keys = dict.fromkeys((pin.project, pin.version) for pin in pins)
    return tuple(Release(*key, tuple(pin for pin in pins if (pin.project, pin.version) == key)) for key in keys)


class Stage(StrEnum):
    """What a sync is doing."""

    WAIT = "wait"  # another sync holds the folder
    FIND = "find"  # asking where the archive is
    RANGE = "range"  # reading single members over HTTP Range
    WHOLE = "whole"  # downloading the whole archive
    LOCAL = "local"  # reading an archive that lies on this machine
    WRITE = "write"  # laying the files out
    DONE = "done"


@dataclass(frozen=True)
class Progress:
    """One step of a sync. ``done`` and ``total`` count bytes; ``total`` is None where it is not known."""

    project: str
    version: str
    stage: Stage
    done: int = 0
    total: int | None = None
    note: Message | None = None


Report = Callable[[Progress], None]


class Outcome(StrEnum):
    """How a sync left a release."""

    PRESENT = "present"  # every file was already there with the pinned bytes
    LAID_OUT = "laid_out"


@dataclass(frozen=True)
class ReleaseReport:
    """What a sync did for one release. ``origin`` is the index (without credentials) that ``archive`` came from,
    ``replaced`` the number of files that were there with other bytes, ``bytes`` what was transferred."""

    project: str
    version: str
    outcome: Outcome
    files: int
    replaced: int = 0
    how: Stage | None = None
    origin: str | None = None
    archive: str | None = None
    bytes: int = 0
    seconds: float = 0.0
    notes: tuple[Message, ...] = ()


@dataclass(frozen=True)
class SyncReport:
    """What a sync did. ``places`` are those it was configured to look in, in that order, with who named them."""

    folder: Path
    releases: tuple[ReleaseReport, ...]
    places: tuple[Place, ...]
    seconds: float

    @property
    def bytes(self) -> int:
        """How many bytes of archives were transferred."""
        return sum(release.bytes for release in self.releases)


@dataclass(frozen=True)
class Archive:
    """An archive of a release. ``hashes`` are those the index gives (name → hex digits); ``local`` is its path where it
    lies on this machine; ``origin`` is the index that names it and ``shown`` its own address, without credentials."""

    kind: str  # wheel | sdist
    url: str
    shown: str
    filename: str
    hashes: tuple[tuple[str, str], ...]
    origin: str
    local: Path | None
