"""Which release of a framework is read, and its files: verified bytes, or the command that brings them.

Must not know: what is in the files.
"""

import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tracer.errors import InputError, Unsupported
from tracer.reading.catalogue import FRAMEWORKS
from tracer.source import files, pins
from tracer.source.files import SourceFile
from tracer.texts import Message, message
from tracer.vendoring.status import require


@dataclass(frozen=True)
class Release:
    """One version of a framework, and why this one. ``installed``: its files are those of the installed package."""

    framework: str
    version: str
    installed: bool
    reason: Message

    @property
    def name(self) -> str:
        """``vllm 0.27.1``."""
        return f"{self.framework} {self.version}"


def chosen(asked: str) -> Release:
    """Return the release that ``asked`` (``vllm`` or ``vllm@0.33.0``) means; raises InputError where there is none.

    Without a version: what is installed, for transformers, because that is what a trace runs; else the newest release
    whose upstream commit is proven, because its lines can be linked to.
    """
    framework, _, version = asked.partition("@")
    known = every(framework)
    if version:
        for release in known:
            if release.version == version:
                return Release(framework, version, release.installed, message("source_pages.release_asked"))
        versions = ", ".join(release.version for release in known)
        raise InputError("source_pages.unknown_version", framework=framework, version=version, known=versions)
    if known[0].installed:
        return known[0]
    proven = [pin.version for pin in pins.pins(framework) if pin.commit]
    version = proven[0] if proven else known[0].version
    reason = "release_proven" if proven else "release_newest"
    return Release(framework, version, False, message(f"source_pages.{reason}"))


def every(framework: str) -> tuple[Release, ...]:
    """Return every release of ``framework`` that can be read: the installed one first, then the pinned ones.

    Raises InputError for an unknown framework.
    """
    if framework not in FRAMEWORKS:
        raise InputError("source_pages.unknown_framework", framework=framework, known=", ".join(FRAMEWORKS))
    found = []
    if framework == "transformers":
        try:
            version = importlib.metadata.version("transformers")
            found.append(Release(framework, version, True, message("source_pages.release_installed")))
        except importlib.metadata.PackageNotFoundError:
            pass
    for version in dict.fromkeys(pin.version for pin in pins.pins(framework)):
        if all(release.version != version for release in found):
            found.append(Release(framework, version, False, message("source_pages.release_asked")))
    return tuple(found)


def read(release: Release, members: Mapping[str, str]) -> dict[str, SourceFile]:
    """Return the files of ``release`` by key (``members``: key → path in the package).

    Raises InputError, with the command that brings it, where a file is absent or changed.
    """
    if release.installed:
        return {key: files.installed(release.framework, member) for key, member in members.items()}
    found = {}
    for key, member in members.items():
        path = require(_pin(release, member))
        found[key] = files.read(release.framework, release.version, member, Path(path))
    return found


def _pin(release: Release, member: str) -> pins.Pin:
    for pin in pins.pins(release.framework):
        if (pin.version, pin.member) == (release.version, member):
            return pin
    raise Unsupported("source_pages.not_pinned", member=member, framework=release.framework, version=release.version)
