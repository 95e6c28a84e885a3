"""Quick reference, glossary and review route, and the table of contents of all that can be asked for.

Must not know: output formats.
"""

from collections.abc import Sequence

from tracer.page.record import Block, Column, Facts, Page, Piece, Prose, Role, Row, Section, Table, line
from tracer.page.wording import place as place_piece
from tracer.reading import catalogue
from tracer.reading.library import Library
from tracer.reading.topics import shape_of
from tracer.reading.wording import Words


def formulas_page(say: Words) -> Page:
    """Return every formula with its shapes and one sentence, in the order of computation."""
    sections = []
    for id, entry in catalogue.formulas().items():
        blocks: list[Block] = [
            Prose(line(Piece(entry["formula"], Role.FORMULA))),
            Prose(line(Piece(shape_of(say, entry), Role.MUTED))),
            Prose(line(say.own(entry))),
        ]
        sections.append(Section(id, "", line(say(f"formula_{id}")), tuple(blocks)))
    return Page("formulas", say.language, line(Piece(say("formulas_title"), Role.STRONG)), (), tuple(sections))


def glossary_page(say: Words) -> Page:
    """Return the glossary."""
    rows = tuple(
        (line(Piece(own["name"], Role.STRONG)), line(own["text"]))
        for entry in catalogue.glossary().values()
        for own in [say.own(entry)]
    )
    title = line(Piece(say("glossary_title"), Role.STRONG))
    return Page("glossary", say.language, title, (), (Section("terms", "", (), (Facts(rows),)),))


def route_page(say: Words) -> Page:
    """Return the review route: what to do, the command, how long it takes."""
    sections = []
    for number, stop in enumerate(catalogue.route(), 1):
        blocks: tuple[Block, ...] = (
            Prose(line(say.own(stop))),
            Prose(line(Piece(stop["command"], Role.CODE))),
        )
        sections.append(Section(f"stop-{number}", str(number), line(say("minutes", minutes=stop["minutes"])), blocks))
    total = sum(stop["minutes"] for stop in catalogue.route())
    title = line(Piece(say("route_title", minutes=total), Role.STRONG))
    return Page("route", say.language, title, (), tuple(sections))


def contents_page(say: Words) -> Page:
    """Return what can be asked for: lessons, paths of values, reference pages, and how to see places."""
    lessons = tuple(
        Row(
            (
                line(Piece(lesson.id, Role.CODE)),
                line(say.own(lesson.texts)["title"]),
                line(Piece(" ".join(lesson.covers), Role.MUTED)),
            )
        )
        for lesson in catalogue.lessons().values()
    )
    values = tuple((line(Piece(value, Role.CODE)), line(say(f"value_{value}"))) for value in catalogue.VALUES)
    pages = tuple((line(Piece(name, Role.CODE)), line(say(f"page_{name}"))) for name in catalogue.REFERENCES)
    options = tuple(
        (line(Piece(option, Role.CODE)), line(say(f"hint_{name}")))
        for option, name in (("--frameworks", "frameworks"), ("--framework NAME", "framework"), ("--list", "list"))
    )
    columns = (Column(say("column_ask")), Column(say("column_what")), Column(say("column_covers"), spare=1))
    return Page(
        "contents",
        say.language,
        line(Piece(say("contents_title"), Role.STRONG)),
        (),
        (
            Section("lessons", "", line(say("lessons_heading")), (Table(columns, lessons),)),
            Section("values", "", line(say("values_heading")), (Facts(values),)),
            Section("pages", "", line(say("pages_heading")), (Facts(pages),)),
            Section("options", "", line(say("options_heading")), (Facts(options),)),
        ),
    )


def places_page(say: Words, libraries: Sequence[Library]) -> Page:
    """Return every place of ``libraries`` with where it stands."""
    sections = []
    for library in libraries:
        rows = []
        for place in library.places:
            site = library.site(place)
            code = " ".join(site.code.split())
            rows.append(
                Row(
                    (
                        line(Piece(place, Role.CODE)),
                        line(place_piece(site)),
                        line(Piece(code if len(code) <= 60 else f"{code[:59]}…", Role.MUTED)),
                    )
                )
            )
        columns = (Column(say("column_ask")), Column(say("column_place")), Column(say("column_code"), spare=1))
        heading = line(f"{library.release.name}  ", Piece(say.of(library.release.reason), Role.MUTED))
        sections.append(Section(library.release.framework, "", heading, (Table(columns, tuple(rows)),)))
    return Page("places", say.language, line(Piece(say("places_title"), Role.STRONG)), (), tuple(sections))
