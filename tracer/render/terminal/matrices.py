"""Matrices and heat maps: numbers under token labels, coloured by how much, in parts where the screen is narrow.

Must not know: what the numbers mean.
"""

from dataclasses import dataclass

from tracer.page.record import Beside, Label, Matrix, Picture, Pictures, Piece, Role
from tracer.render.terminal.palette import ROLES, style
from tracer.render.terminal.screen import Screen
from tracer.render.terminal.spelling import spelt
from tracer.render.terminal.strips import Part, Strip, cut, joined, padded, strip_of, width, wrapped

_LONGEST_LABEL, _SHORT_LABEL = 12, 8
_LEAST_CELL = 5
_BESIDE_GAP = 4
_SHADES = " ░▒▓█"
_PICTURE_GAP = 3


@dataclass(frozen=True)
class _Grid:
    """A matrix measured: its row labels, and the width of each column, a space before each number included."""

    labels: tuple[Strip, ...]
    label_width: int
    widths: tuple[int, ...]


def matrix(block: Matrix, screen: Screen, columns: int, compact: bool = False) -> list[Strip]:
    """Return a matrix under its title, with its legend. ``compact``: rows are named by their position alone."""
    grid = _measured(block, screen, columns, compact)
    lines = wrapped(strip_of(block.title, screen), columns)
    bands, begin = [], 0
    while begin < len(grid.widths):
        end, used = begin, grid.label_width
        while end < len(grid.widths) and (end == begin or used + grid.widths[end] <= columns):
            used += grid.widths[end]
            end += 1
        bands.append(range(begin, end))
        begin = end
    left_out = False
    for number, band in enumerate(bands):
        lines += [()] if number else []
        lines += _heading(block, grid, band, screen)
        for row, cells in enumerate(block.cells):
            if number and all(cells[place].role is Role.MASKED for place in band):
                left_out = True
                continue
            parts: list[Part] = [*padded(grid.labels[row], grid.label_width)]
            for place in band:
                parts += _cell(cells[place], grid.widths[place], screen)
            lines.append(tuple(parts))
    notes = (*block.legend, *(block.parted if left_out else ()))
    return lines + (wrapped(strip_of(notes, screen), columns) if notes else [])


def _measured(block: Matrix, screen: Screen, columns: int, compact: bool) -> _Grid:
    longest = 0 if compact else min(_SHORT_LABEL if columns < 60 else _LONGEST_LABEL, columns // 3)
    digits = max((len(label.position) for label in block.rows), default=0)
    labels = tuple(_row_label(label, digits, longest, screen) for label in block.rows)
    widths = []
    for place, label in enumerate(block.columns):
        cells = [width(strip_of((row[place],), screen)) for row in block.cells]
        named = width(strip_of((Piece(label.text),), screen)) if not label.position else len(label.position)
        widths.append(max(_LEAST_CELL, named + 1, *(size + 1 for size in cells)))
    common = max((size for size, label in zip(widths, block.columns, strict=True) if label.position), default=0)
    widths = [common if label.position else size for size, label in zip(widths, block.columns, strict=True)]
    label_width = max(map(width, labels), default=0)
    room = max(columns - label_width, _LEAST_CELL)
    return _Grid(labels, label_width, tuple(min(size, room) for size in widths))


def _row_label(label: Label, digits: int, longest: int, screen: Screen) -> Strip:
    # What is no token is not recognised when it is cut.
    room = longest if label.position or longest < _SHORT_LABEL else _LONGEST_LABEL
    text = cut(spelt(label.text, screen.encoding), room, spelt("…", screen.encoding)) if longest else ""
    number = f"{label.position:>{digits}} " if digits else ""
    look = Role.TOKEN if label.position else Role.STRONG
    return (Part(number, ROLES[Role.LABEL]), Part(text, ROLES[look]), Part(" "))


def _heading(block: Matrix, grid: _Grid, band: range, screen: Screen) -> list[Strip]:
    """Return one or two lines over the columns: their positions, and their tokens cut to fit."""
    numbers: list[Part] = [Part(" " * grid.label_width)]
    texts: list[Part] = [Part(" " * grid.label_width)]
    for place in band:
        label, size = block.columns[place], grid.widths[place]
        text = cut(spelt(label.short or label.text, screen.encoding), size - 1, spelt("…", screen.encoding))
        look = Role.TOKEN if label.position else Role.LABEL
        numbers += padded((Part(label.position, ROLES[Role.LABEL]),), size, right=True)
        texts += padded((Part(text, ROLES[look]),), size, right=True)
    rows = [tuple(numbers), tuple(texts)]
    return rows if any(block.columns[place].position for place in band) else rows[1:]


def _cell(piece: Piece, size: int, screen: Screen) -> Strip:
    """Return a cell filled to its width, in its own background."""
    (shown,) = strip_of((piece,), screen) or (Part(""),)
    return (Part(" " * max(size - shown.width, 0) + shown.text, style(piece)),)


def beside(block: Beside, screen: Screen, columns: int) -> list[Strip]:
    """Return matrices side by side where all fit whole, else below each other."""
    natural = [_natural(each, screen, columns, compact=index > 0) for index, each in enumerate(block.blocks)]
    if sum(natural) + _BESIDE_GAP * (len(natural) - 1) > columns:
        lines: list[Strip] = []
        for index, each in enumerate(block.blocks):
            lines += [(), *matrix(each, screen, columns)] if index else matrix(each, screen, columns)
        return lines
    stacks = [
        matrix(each, screen, size, compact=index > 0)
        for index, (each, size) in enumerate(zip(block.blocks, natural, strict=True))
    ]
    return side_by_side(stacks, _BESIDE_GAP)


def _natural(block: Matrix, screen: Screen, columns: int, compact: bool) -> int:
    grid = _measured(block, screen, columns, compact)
    return max(grid.label_width + sum(grid.widths), min(width(strip_of(block.title, screen)), columns))


def side_by_side(stacks: list[list[Strip]], gap: int) -> list[Strip]:
    """Return stacks of lines next to each other."""
    sizes = [max(map(width, stack), default=0) for stack in stacks]
    lines = []
    for depth in range(max(map(len, stacks), default=0)):
        parts: list[Part] = []
        for place, (stack, size) in enumerate(zip(stacks, sizes, strict=True)):
            parts += [Part(" " * gap)] if place else []
            parts += padded(stack[depth] if depth < len(stack) else (), size)
        lines.append(tuple(parts))
    return lines


# ------------------------------------------------------------------------------------------------------ pictures


def pictures(block: Pictures, screen: Screen, columns: int) -> list[Strip]:
    """Return heat maps in rows of as many as fit."""
    cards = [_picture(item, screen, columns) for item in block.items]
    lines: list[Strip] = []
    row: list[list[Strip]] = []
    used = 0
    for card in cards:
        size = max(map(width, card), default=0) + _PICTURE_GAP
        if row and used + size - _PICTURE_GAP > columns:
            lines += [*side_by_side(row, _PICTURE_GAP), ()]
            row, used = [], 0
        row.append(card)
        used += size
    lines += side_by_side(row, _PICTURE_GAP)
    return lines + (wrapped(strip_of(block.legend, screen), columns) if block.legend else [])


def _picture(item: Picture, screen: Screen, columns: int) -> list[Strip]:
    size = len(item.values[0]) if item.values else 0
    return [
        *wrapped(strip_of(item.title, screen), min(max(size, 16), columns)),
        *(_shaded(row, screen) for row in item.values),
    ]


def _shaded(row: tuple[float | None, ...], screen: Screen) -> Strip:
    parts: list[Part] = []
    for value in row:
        if value is None:
            text, role = "·", Role.MASKED
        elif value < 0:
            text, role = "×", Role.WARNING  # NaN
        else:
            text, role = _SHADES[min(int(value * len(_SHADES)), len(_SHADES) - 1)], Role.TOKEN
        parts.append(Part(spelt(text, screen.encoding), ROLES[role]))
    return joined(parts)
