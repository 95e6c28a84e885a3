"""The frameworks as a reader leafs through them: files, named expressions, the ways of values, all read when asked for.

Must not know: screens, languages.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from threading import RLock

from tracer.browse.syntax import expressions
from tracer.errors import TracerError
from tracer.lineage.definitions import definition
from tracer.lineage.result import Step, ValuePath
from tracer.reading import catalogue, releases
from tracer.reading.library import Library, cache_folder
from tracer.reading.releases import Release
from tracer.records import Hop, LayerTrace, Site, Span
from tracer.source.files import SourceFile


@dataclass(frozen=True)
class Spot:
    """An expression that can be pointed at. ``place`` is its name among the places that are explained, ``capture`` the
    tensor of the trace that it made; either is None where there is none."""

    framework: str
    file: str  # the file's path inside its package
    span: Span
    scope: str
    code: str
    place: str | None = None
    capture: str | None = None

    @property
    def named(self) -> bool:
        """Whether anything is said about this very expression."""
        return self.place is not None or self.capture is not None

    def holds(self, line: int, column: int) -> bool:
        """Return whether the expression covers a line (from 1) and column (from 0)."""
        return (self.span.line, self.span.column) <= (line, column) < (self.span.end_line, self.span.end_column)


@dataclass(frozen=True)
class Stop:
    """A spot as a step on the way of ``value``: the ``number``-th (from 1) of ``count``."""

    value: str
    number: int
    count: int
    step: Step


@dataclass(eq=False)
class Book:
    """One release of a framework, open: its files by their path, and what has been found in them so far."""

    library: Library
    files: Mapping[str, SourceFile]
    layer: LayerTrace | None = None
    ways: dict[str, ValuePath] = field(default_factory=dict)
    placed: bool = False
    _spots: dict[tuple[str, int, bool], tuple[Spot, ...]] = field(default_factory=dict)
    _one: RLock = field(default_factory=RLock)  # the analysis is for one thread at a time

    @property
    def framework(self) -> str:
        """The framework's name."""
        return self.library.release.framework

    @property
    def values(self) -> tuple[str, ...]:
        """The values that can be followed here."""
        return tuple(value for value in catalogue.VALUES if value in definition(self.framework).values)

    def find_places(self) -> None:
        """Find the named places. May take seconds the first time; raises Unsupported where one is not found once."""
        with self._one:
            _ = self.library.table
        self.placed = True

    def follow(self, value: str) -> ValuePath:
        """Return the way of ``value``; may take seconds the first time."""
        with self._one:
            if value not in self.ways:
                self.ways[value] = self.library.path(value)
        return self.ways[value]

    # -------------------------------------------------------------------------------------------------- spots

    def spots(self, file: str) -> tuple[Spot, ...]:
        """Return every expression of ``file`` that something is known of, in the order of the text."""
        key = (file, len(self.ways), self.placed)
        if key not in self._spots:
            found: dict[Span, Spot] = {}
            for spot in self._known(file):
                before = found.get(spot.span, spot)
                place, capture = before.place or spot.place, before.capture or spot.capture
                found[spot.span] = replace(before, place=place, capture=capture)
            self._spots[key] = tuple(sorted(found.values(), key=lambda spot: spot.span))
        return self._spots[key]

    def place(self, id: str) -> Spot | None:
        """Return the spot of a named place, None where there is none or it has not been looked for."""
        if not self.placed or id not in self.library.places:
            return None
        anchor = self.library.table.anchors[id]
        return self.at(self.library.table.files[anchor.file].member, anchor.span)

    def at(self, file: str, span: Span) -> Spot | None:
        """Return the known expression that stands at ``span`` of ``file``, None where nothing is known."""
        return next((spot for spot in self.spots(file) if spot.span == span), None)

    def steps(self, value: str) -> tuple[Spot, ...]:
        """Return the spots of the way of ``value``, the definition first; empty before it has been followed."""
        return tuple(self.at(spot.file, spot.span) or spot for spot in self._steps(value))

    def stops(self, spot: Spot) -> tuple[Stop, ...]:
        """Return at which steps of the ways followed so far ``spot`` stands."""
        return tuple(
            Stop(value, number, len(way.steps), step)
            for value, way in tuple(self.ways.items())
            for number, step in enumerate(way.steps, 1)
            if self.library.path_file(step.place).member == spot.file and step.place.span == spot.span
        )

    def site(self, spot: Spot) -> Site:
        """Return where a spot is, with its link upstream."""
        return self.files[spot.file].site(spot.span, spot.scope)

    def hops(self, spot: Spot) -> Mapping[str, Hop]:
        """Return what the trace saw go through ``spot`` of the very same file, by value (scale, causal)."""
        return {value: hop for value, hop in self._hops(spot.file) if hop.site.span == spot.span}

    def _known(self, file: str) -> Iterator[Spot]:
        if self.placed:
            table = self.library.table
            for id, anchor in table.anchors.items():
                if table.files[anchor.file].member == file:
                    capture = str(self.library.given(id).get("capture", "")) or None
                    yield Spot(self.framework, file, anchor.span, anchor.scope, anchor.code, id, capture)
        for tensor in self.layer.captures.values() if self.layer is not None else ():
            if tensor.site.sha256 == self.files[file].sha256:
                yield self._of_site(file, tensor.site, tensor.name)
        for _, hop in self._hops(file):
            yield self._of_site(file, hop.site, None)
        for value in tuple(self.ways):  # another thread may be following one more
            yield from (spot for spot in self._steps(value) if spot.file == file)

    def _hops(self, file: str) -> Iterator[tuple[str, Hop]]:
        if self.layer is not None:
            for value, hops in (("scale", self.layer.scale.hops), ("causal", self.layer.causal.hops)):
                yield from ((value, hop) for hop in hops if hop.site.sha256 == self.files[file].sha256)

    def _of_site(self, file: str, site: Site, capture: str | None) -> Spot:
        return Spot(self.framework, file, site.span, site.scope, site.code, capture=capture)

    def _steps(self, value: str) -> Iterator[Spot]:
        way = self.ways.get(value)
        for step in way.steps if way is not None else ():
            place = step.place
            yield Spot(self.framework, self.library.path_file(place).member, place.span, place.scope, place.code)

    # ------------------------------------------------------------------------------------------ under the cursor

    def under(self, file: str, line: int, column: int) -> Spot | None:
        """Return the expression at a place of ``file``: the smallest known one, the first known one of the line where
        the cursor stands before the code, else whatever expression the syntax has there. None on empty lines."""
        known = self.spots(file)
        holding = [spot for spot in known if spot.holds(line, column)]
        if holding:
            return min(holding, key=_size)
        beginning = next((spot for spot in known if spot.span.line == line), None)
        content = self.files[file].text.lines(line, line)[0]
        if beginning is not None and column <= len(content) - len(content.lstrip()):
            return beginning
        holding = [spot for spot in self._expressions(file, line) if spot.holds(line, column)]
        return min(holding, key=_size) if holding else beginning

    def _expressions(self, file: str, line: int) -> Iterator[Spot]:
        text = self.files[file].text
        for span, scope in expressions(text, line):
            yield Spot(self.framework, file, span, scope, text.code(span))


@dataclass(eq=False)
class Shelf:
    """All frameworks. ``layer`` is a saved trace to read beside them; its own framework is read at its version."""

    layer: LayerTrace | None = None
    _books: dict[str, Book | TracerError] = field(default_factory=dict)

    def book(self, framework: str) -> Book:
        """Return a framework, its files read; raises InputError, with the command that brings them, where they are not
        here."""
        if framework not in self._books:
            self._books[framework] = self._opened(framework)
        found = self._books[framework]
        if isinstance(found, TracerError):
            raise found
        return found

    @property
    def first(self) -> str:
        """The framework to begin with: the one that was traced."""
        traced = self.layer.kernel.site.project if self.layer is not None else ""
        return traced if traced in catalogue.FRAMEWORKS else catalogue.FRAMEWORKS[0]

    def books(self) -> tuple[Book, ...]:
        """Return the frameworks whose files are here."""
        found = []
        for framework in catalogue.FRAMEWORKS:
            if self.missing(framework) is None:
                found.append(self.book(framework))
        return tuple(found)

    def missing(self, framework: str) -> TracerError | None:
        """Return why a framework cannot be read, None where it can."""
        try:
            self.book(framework)
        except TracerError as error:
            return error
        return None

    def _opened(self, framework: str) -> Book | TracerError:
        try:
            library = Library(self._release(framework), cache_folder())
            read = {**releases.read(library.release, library.defined.files)}
            read |= releases.read(library.release, definition(framework).files)
        except TracerError as error:
            return error
        return Book(library, {file.member: file for file in read.values()}, self.layer)

    def _release(self, framework: str) -> Release:
        if self.layer is not None and framework == self.layer.kernel.site.project:
            version = self.layer.kernel.site.version
            if any(release.version == version for release in releases.every(framework)):
                return releases.chosen(f"{framework}@{version}")
        return releases.chosen(framework)


def _size(spot: Spot) -> tuple[int, int, int]:
    lines = spot.span.end_line - spot.span.line
    return lines, len(spot.code), -spot.span.column
