"""The places and value paths of one release, found when they are asked for, kept in the user's cache.

Must not know: lessons, pages.
"""

from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

import platformdirs

from tracer.errors import InputError
from tracer.lineage.definitions import definition
from tracer.lineage.find import Reader
from tracer.lineage.result import Place, ValuePath
from tracer.reading import catalogue, releases
from tracer.reading.releases import Release
from tracer.records import Site
from tracer.source import anchors
from tracer.source.anchors import Definitions, Table
from tracer.source.files import SourceFile


def cache_folder() -> Path:
    """Return the folder that finished tables and paths are kept in."""
    return platformdirs.user_cache_path("tracer")


@dataclass(eq=False)
class Library:
    """One release of a framework, ready to be read."""

    release: Release
    cache: Path | None = None

    @cached_property
    def defined(self) -> Definitions:
        """The places that are defined for the framework."""
        return anchors.definitions(self.release.framework, "reading")

    @cached_property
    def table(self) -> Table:
        """Where they stand in this release. Raises Unsupported where one is not found exactly once."""
        return anchors.table(self.defined, releases.read(self.release, self.defined.files), self.cache)

    @property
    def places(self) -> tuple[str, ...]:
        """The ids of the places, in the order of computation."""
        return tuple(self.defined.anchors)

    def site(self, place: str) -> Site:
        """Return where a place is."""
        return self.table.site(place)

    def known_site(self, name: str) -> Site:
        """Return where the place ``name`` is; raises InputError with near names where there is no such place."""
        if name in self.places:
            return self.site(name)
        known = dict.fromkeys((
            *catalogue.VALUES, *catalogue.ALIASES, *catalogue.lessons(), *catalogue.REFERENCES, *self.places,
        ))  # fmt: skip
        near = get_close_matches(name, known, n=3, cutoff=0.5)
        shown = ", ".join(near) if near else ", ".join(list(known)[:8]) + ", …"
        raise InputError("source_pages.unknown_name", name=name, release=self.release.name, near=shown)

    def given(self, place: str) -> Any:
        """Return what the definition of a place says beyond its form (``capture``, ``hop``)."""
        return self.defined.anchors[place]

    @cached_property
    def reader(self) -> Reader:
        """The analysis of the release."""
        wanted = definition(self.release.framework)
        return Reader(wanted, releases.read(self.release, wanted.files), self.cache)

    def path(self, value: str) -> ValuePath:
        """Return the way of ``value`` (scale, causal, q, k, v) from its definition to the kernel."""
        return self.reader.path(value)

    def path_site(self, place: Place) -> Site:
        """Return a place of a path as a Site."""
        return self.path_file(place).site(place.span, place.scope)

    def path_file(self, place: Place) -> SourceFile:
        """Return the file that a place of a path is in."""
        return self.reader.files[place.file]


def library(framework: str) -> Library:
    """Return the release that ``framework`` (``vllm`` or ``vllm@0.33.0``) means."""
    return Library(releases.chosen(framework), cache_folder())
