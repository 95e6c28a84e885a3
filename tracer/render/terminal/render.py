"""A page on a terminal, in a pipe or in a file: every record lowered to lines of the screen's width.

Computes nothing and words nothing. Must not know: traces.
"""

from tracer.page.record import (
    Beside,
    Block,
    Excerpt,
    Facts,
    Matrix,
    Page,
    Pictures,
    Piece,
    Prose,
    Role,
    Section,
    Table,
    Verdict,
    Verdicts,
)
from tracer.render.terminal.excerpts import excerpt
from tracer.render.terminal.matrices import beside, matrix, pictures
from tracer.render.terminal.palette import ROLES, RULE
from tracer.render.terminal.screen import Screen
from tracer.render.terminal.spelling import spelt
from tracer.render.terminal.strips import Part, Strip, gathered, padded, strip_of, width, wrapped, written
from tracer.render.terminal.tables import facts, table

_MARGIN = 1
_WIDEST_PROSE = 100


def render(page: Page, screen: Screen) -> str:
    """Return ``page`` as text, every line at most as wide as the screen, ending with a line end."""
    return written(lines(page, screen), screen)


def lines(page: Page, screen: Screen) -> list[Strip]:
    """Return ``page`` as lines of styled text."""
    columns = screen.width - 2 * _MARGIN
    rows: list[Strip] = _title(page, screen, columns)
    for section in page.sections:
        rows += [(), *_section(section, screen, columns)]
    return [(Part(" " * _MARGIN), *row) if row else () for row in rows]


def _title(page: Page, screen: Screen, columns: int) -> list[Strip]:
    title, verdict = strip_of(page.title, screen), strip_of(page.verdict, screen)
    if width(title) + width(verdict) + 2 <= columns:
        return [(*padded(title, columns - width(verdict)), *verdict)]
    return [*wrapped(title, columns), *(wrapped(verdict, columns) if verdict else [])]


def _section(section: Section, screen: Screen, columns: int) -> list[Strip]:
    rows = _rule(section, screen, columns) if section.heading else []
    for index, block in enumerate(section.blocks):
        rows += [()] if index else []
        rows += _block(block, screen, columns)
    return rows


def _rule(section: Section, screen: Screen, columns: int) -> list[Strip]:
    number = (Piece(f"{section.number}  ", Role.STRONG),) if section.number else ()
    heading = strip_of((*number, *(Piece(piece.text, Role.STRONG) for piece in section.heading)), screen)
    dash = spelt("─", screen.encoding)
    begin = Part(f"{dash}{dash} ", RULE)
    room = columns - width(heading) - 4
    if room < 1:
        return wrapped((begin, *heading), columns)
    return [(begin, *heading, Part(f" {dash * room}", RULE))]


def _block(block: Block, screen: Screen, columns: int) -> list[Strip]:
    match block:
        case Prose():
            return wrapped(strip_of(block.text, screen), min(columns, _WIDEST_PROSE))
        case Facts():
            return facts(block, screen, columns)
        case Table():
            return table(block, screen, columns)
        case Excerpt():
            return excerpt(block, screen, columns)
        case Matrix():
            return matrix(block, screen, columns)
        case Beside():
            return beside(block, screen, columns)
        case Pictures():
            return pictures(block, screen, columns)
        case Verdicts():
            return [row for verdict in block.items for row in _verdict(verdict, screen, columns)]


def _verdict(verdict: Verdict, screen: Screen, columns: int) -> list[Strip]:
    """Return one check. Why its tolerance is what it is goes without saying on a narrow screen, unless it matters."""
    mark = Part(f"{spelt(verdict.mark, screen.encoding)} ", ROLES[verdict.status])
    rows = wrapped((mark, *strip_of(verdict.claim, screen)), columns, hanging=2)
    strips = [
        (Part(f"{spelt(name, screen.encoding)} ", ROLES[Role.LABEL]), *strip_of(value, screen))
        for name, value in verdict.details
    ]
    if verdict.reason and (verdict.status is not Role.PASS or columns > _WIDEST_PROSE):
        strips.append(strip_of(verdict.reason, screen))
    for strip in gathered(strips, columns - 2, 3):
        rows += [(Part("  "), *row) for row in wrapped(strip, columns - 2, hanging=2)]
    return rows
