"""The page of one lesson, or of one place: explanation, formulas, the source, what a trace saw there.

Must not know: output formats.
"""

from collections.abc import Iterable, Mapping, Sequence

from tracer.page.record import Block, Facts, Page, Piece, Prose, Role, Section, line
from tracer.reading import catalogue
from tracer.reading.catalogue import Lesson
from tracer.reading.excerpts import around
from tracer.reading.library import Library
from tracer.reading.values import Seen
from tracer.reading.wording import Words
from tracer.records import Site


def lesson_page(say: Words, lesson: Lesson, libraries: Sequence[Library], seen: Seen | None) -> Page:
    """Return the page of ``lesson`` with its places in each of ``libraries``."""
    own = say.own(lesson.texts)
    sections = [Section("text", "", (), (Prose(line(own["text"])),))]
    if lesson.formulas:
        sections.append(Section("formulas", "", line(say("formulas_heading")), (formulas(say, lesson.formulas),)))
    for library in libraries:
        places = lesson.places.get(library.release.framework, ())
        if places:
            sites = [library.site(place) for place in places]
            blocks: list[Block] = [release_note(say, library, sites)]
            blocks += [block for place in places for block in place_blocks(say, library, place, seen)]
        else:
            others = ", ".join(lesson.places)
            blocks = [Prose(line(Piece(say("lesson_without", framework=library.release.framework, others=others))))]
        sections.append(Section(f"source-{library.release.framework}", "", release_heading(library), tuple(blocks)))
    if seen is not None:
        sections.append(Section("seen", "", (), (Prose(seen.source(say)),)))
    if "answer" in own:  # of an exercise: last, so that it is not read by accident
        sections.append(Section("answer", "", line(say("answer_heading")), (Prose(line(own["answer"])),)))
    title = line(Piece(own["title"], Role.STRONG))
    return Page(f"lesson-{lesson.id}", say.language, title, covers(lesson), tuple(sections))


def place_page(say: Words, library: Library, place: str, seen: Seen | None) -> Page:
    """Return the page of one place: its source, and the explanations that speak of it."""
    site = library.site(place)
    sections = [
        Section(
            "source",
            "",
            release_heading(library),
            (*place_blocks(say, library, place, seen, context=4), release_note(say, library, [site])),
        )
    ]
    lessons = catalogue.lessons_at(library.release.framework, place)
    names = tuple(dict.fromkeys(name for lesson in lessons for name in lesson.formulas))
    if names:
        sections.append(Section("formulas", "", line(say("formulas_heading")), (formulas(say, names),)))
    for lesson in lessons:
        own = say.own(lesson.texts)
        sections.append(
            Section(f"lesson-{lesson.id}", "", (*line(own["title"]), *covers(lesson)), (Prose(line(own["text"])),))
        )
    if seen is not None:
        sections.append(Section("seen", "", (), (Prose(seen.source(say)),)))
    title = line(Piece(place, Role.STRONG), Piece(f"  {' '.join(site.code.split())[:60]}", Role.CODE))
    return Page("place", say.language, title, (), tuple(sections))


def place_blocks(say: Words, library: Library, place: str, seen: Seen | None, context: int = 0) -> list[Block]:
    """Return the excerpt of a place and what a trace saw there."""
    site = library.site(place)
    text = library.table.files[library.table.anchors[place].file].text
    blocks: list[Block] = [
        around(site, text, place, before=context, after=context, note=link_note(say, site.link_kind))
    ]
    if seen is not None:
        blocks += seen.lines(say, library, place)
    return blocks


def formulas(say: Words, names: Sequence[str], own: str = "") -> Facts:
    """Return formulas with what they say. ``own``: how a trace writes the first of them, for this very tensor."""
    known = catalogue.formulas()
    rows = []
    for name in names:
        entry = known[name]
        formula = own if own and name == names[0] else entry["formula"]
        rows += [
            (line(Piece(formula, Role.FORMULA)), line(say.own(entry))),
            ((), line(Piece(shape_of(say, entry), Role.MUTED))),
        ]
    return Facts(tuple(rows))


def shape_of(say: Words, entry: Mapping[str, str]) -> str:
    """Return the shape of a formula; what has no axes is called a scalar."""
    return say("scalar") if entry["shape"] == "[]" else entry["shape"]


def release_heading(library: Library) -> tuple[Piece, ...]:
    """Return which release an excerpt is from."""
    return line(library.release.name)


def release_note(say: Words, library: Library, sites: Iterable[Site]) -> Prose:
    """Return why this release is the one that is read, and where the links of ``sites`` lead if not to a commit."""
    note = [Piece(say.of(library.release.reason), Role.MUTED)]
    if any(site.link_kind == "tag" for site in sites):
        note.append(Piece(f" {say('links_tag', version=library.release.version)}", Role.MUTED))
    return Prose(line(*note))


def link_note(say: Words, kind: str) -> tuple[Piece, ...]:
    """Return what is to be said about a place without a link; where links lead is said once, with the release."""
    return () if kind in ("commit", "tag") else line(Piece(say(f"link_{kind}"), Role.MUTED))


def covers(lesson: Lesson) -> tuple[Piece, ...]:
    """Return the parts of the lesson page that a lesson covers."""
    return line(Piece(f"  {' '.join(lesson.covers)}", Role.MUTED))
