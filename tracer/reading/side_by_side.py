"""One table of all frameworks: a row for each step of attention, a column for each code base.

Must not know: output formats.
"""

from collections.abc import Sequence

from tracer.errors import TracerError
from tracer.page.record import Block, Column, Facts, Line, Page, Piece, Prose, Role, Row, Section, Table, line, plain
from tracer.page.wording import place as place_piece
from tracer.reading.library import Library
from tracer.reading.wording import Words
from tracer.records import Site

# Steps in the order of computation: a place id, and for frameworks that have no such place another that holds it.
STEPS: tuple[tuple[str, str | None], ...] = (
    ("project", None),
    ("split", None),
    ("norm", None),
    ("rotate", None),
    ("cache", None),
    ("scale", None),
    ("scale.call", None),
    ("causal", "causal.call"),
    ("causal.call", None),
    ("call", None),
    ("out", None),
)
_WIDE = 190  # from here on every framework has a column of its own; below, a row under the step
_STEP_ROOM = 26


def side_by_side_page(say: Words, libraries: Sequence[Library], width: int) -> Page:
    """Return the table for a screen of ``width`` columns. For a framework whose files are not here the command that
    brings them stands below it."""
    missing: list[str] = []
    ready: list[Library] = []
    for library in libraries:
        try:
            _ = library.table
            ready.append(library)
        except TracerError as error:
            missing.append(error.text(say.language))
    table = _columns(say, ready, width) if width >= _WIDE and len(ready) > 1 else _rows(say, ready, width)
    blocks: list[Block] = [table]
    blocks += [Prose(line(Piece(why, Role.WARNING))) for why in missing]
    reasons = tuple(
        (line(library.release.name), line(Piece(say.of(library.release.reason), Role.MUTED))) for library in ready
    )
    title = line(Piece(say("side_title_one" if len(ready) == 1 else "side_title", count=len(ready)), Role.STRONG))
    releases = Section("releases", "", line(say("releases_heading")), (Facts(reasons),))
    return Page("frameworks", say.language, title, (), (Section("steps", "", (), tuple(blocks)), releases))


def _columns(say: Words, ready: Sequence[Library], width: int) -> Table:
    """Return a column for each framework; each step has a row of places and below it one of expressions."""
    room = (width - _STEP_ROOM) // len(ready) - 2
    columns = (Column(say("column_step")), *(Column(library.release.name) for library in ready))
    rows = []
    for step, instead in STEPS:
        sites = [_site(library, step, instead) for library in ready]
        rows.append(Row((_name(say, step), *(_place(site) if site else _none(say) for site in sites))))
        rows.append(Row(((), *(_code(site, room) if site else () for site in sites))))
    return Table(columns, tuple(rows))


def _rows(say: Words, ready: Sequence[Library], width: int) -> Table:
    """Return each step as a heading with a row for each framework."""
    longest = max((len(library.release.framework) for library in ready), default=0)
    rows = []
    for step, instead in STEPS:
        rows.append(Row(heading=_name(say, step)))
        for library in ready:
            site = _site(library, step, instead)
            framework = line(f"  {library.release.framework}")
            if site is None:
                rows.append(Row((framework, _none(say), ())))
            else:
                place = _place(site)
                taken = longest + len(plain(place)) + 9
                rows.append(Row((framework, place, _code(site, max(width - max(taken, 58), 20)))))
    return Table((Column(), Column(say("column_place")), Column(say("column_code"))), tuple(rows))


def _name(say: Words, step: str) -> Line:
    return line(Piece(say(f"step_{step.replace('.', '_')}"), Role.STRONG))


def _none(say: Words) -> Line:
    return line(Piece(say("no_such_step"), Role.MUTED))


def _site(library: Library, step: str, instead: str | None) -> Site | None:
    place = step if step in library.places else instead
    return library.site(place) if place is not None and place in library.places else None


def _place(site: Site) -> Line:
    """Return ``qwen3.py:102``, with its links."""
    full = place_piece(site)
    return line(Piece(full.text.rsplit(":", 1)[0], full.role, full.link))


def _code(site: Site, most: int) -> Line:
    code = " ".join(site.code.split())
    return line(Piece(code if len(code) <= most else f"{code[: most - 1]}…", Role.CODE))
