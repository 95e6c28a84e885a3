"""Facts and tables: columns where they fit, spare ones left out where not, and rows as short paragraphs on a narrow
screen.

Must not know: what is in them.
"""

from tracer.page.record import Column, Facts, Piece, Role, Table
from tracer.render.terminal.palette import ROLES
from tracer.render.terminal.screen import Screen
from tracer.render.terminal.strips import Part, Strip, gathered, padded, plain_strip, strip_of, width, wrapped

_GAP = 2
_LEAST = 20  # a column is wrapped, rather than the table taken apart, while it keeps this many columns
_FLOW_GAP = 4
_INDENT = 3

_Cells = list[Strip]


def facts(block: Facts, screen: Screen, columns: int) -> list[Strip]:
    """Return names and values, the values in one column that wraps."""
    names = [strip_of(name, screen) for name, _ in block.rows]
    first = max(map(width, names), default=0) + _GAP
    if first > columns // 3:
        return [
            row
            for name, value in block.rows
            for row in _stacked_fact(strip_of(name, screen), strip_of(value, screen), columns)
        ]
    rows = []
    for name, (_, value) in zip(names, block.rows, strict=True):
        for index, piece in enumerate(wrapped(strip_of(value, screen), columns - first)):
            rows.append((*padded(name if index == 0 else (), first), *piece))
    return rows


def _stacked_fact(name: Strip, value: Strip, columns: int) -> list[Strip]:
    named = wrapped(name, columns, hanging=1) if name else []
    return [*named, *((Part("  "), *row) for row in wrapped(value, columns - 2))]


def table(block: Table, screen: Screen, columns: int) -> list[Strip]:
    """Return a table, laid out by the room there is."""
    kept = list(range(len(block.columns)))
    cells = [[strip_of(cell, screen) for cell in row.cells] for row in block.rows]
    titles = [plain_strip(column.title, ROLES[Role.LABEL], screen) if column.title else () for column in block.columns]
    while _natural(kept, cells, titles) > columns and any(block.columns[index].spare for index in kept):
        kept.remove(max(kept, key=lambda index: block.columns[index].spare))
    widths = _widths(kept, cells, titles)
    excess = sum(widths) + _GAP * (len(kept) - 1) - columns
    if excess > 0:
        widest = max(range(len(kept)), key=lambda place: widths[place])
        if widths[widest] - excess < max(_LEAST, widths[widest] // 3):
            parts = _parts(block, kept, widths, columns)
            if not parts:
                return _stacked(block, kept, cells, screen, columns)
            return _in_parts(block, parts, cells, titles, screen)
        widths[widest] -= excess
    lines = _aligned(block, kept, cells, titles, widths, screen)
    return _flowing(lines, sum(widths) + _GAP * (len(kept) - 1), columns, any(titles)) if block.flow else lines


def _widths(kept: list[int], cells: list[_Cells], titles: _Cells) -> list[int]:
    return [max([width(titles[index]), *(width(row[index]) for row in cells if row)]) for index in kept]


def _natural(kept: list[int], cells: list[_Cells], titles: _Cells) -> int:
    return sum(_widths(kept, cells, titles)) + _GAP * (len(kept) - 1)


def _aligned(
    block: Table, kept: list[int], cells: list[_Cells], titles: _Cells, widths: list[int], screen: Screen
) -> list[Strip]:
    def row_of(strips: list[Strip]) -> Strip:
        parts: list[Part] = []
        for place, (index, strip) in enumerate(zip(kept, strips, strict=True)):
            parts += [Part(" " * _GAP)] if place else []
            parts += padded(strip, widths[place], block.columns[index].numeric)
        return tuple(parts)

    lines = [row_of([titles[index] for index in kept])] if any(titles[index] for index in kept) else []
    for row, strips in zip(block.rows, cells, strict=True):
        if not strips:
            lines.append(strip_of(row.heading, screen))
            continue
        columns = [wrapped(strips[index], size) for index, size in zip(kept, widths, strict=True)]
        for depth in range(max(map(len, columns))):
            lines.append(row_of([column[depth] if depth < len(column) else () for column in columns]))
    return lines


def _parts(block: Table, kept: list[int], widths: list[int], columns: int) -> list[list[int]]:
    """Return the columns of each part of a table of figures, the naming ones in each; none where it is no such table
    or a part would hold a single figure."""
    size = dict(zip(kept, widths, strict=True))
    names = [index for index in kept if block.columns[index].names]
    figures = [index for index in kept if index not in names]
    room = columns - sum(size[index] + _GAP for index in names)
    if not names or any(not block.columns[index].title for index in figures):
        return []
    parts: list[list[int]] = [[]]
    for index in figures:
        if parts[-1] and sum(size[each] + _GAP for each in [*parts[-1], index]) - _GAP > room:
            parts.append([])
        parts[-1].append(index)
    narrow = any(size[index] > room for index in figures)
    return [] if narrow or len(parts) == len(figures) else [[*names, *part] for part in parts]


def _in_parts(block: Table, parts: list[list[int]], cells: list[_Cells], titles: _Cells, screen: Screen) -> list[Strip]:
    lines: list[Strip] = []
    for part in parts:
        lines += [()] if lines else []
        lines += _aligned(block, part, cells, titles, _widths(part, cells, titles), screen)
    return lines


def _stacked(block: Table, kept: list[int], cells: list[_Cells], screen: Screen, columns: int) -> list[Strip]:
    """Return each row as a paragraph: its cells one after another, figures with the title of their column."""
    lines: list[Strip] = []
    for row, strips in zip(block.rows, cells, strict=True):
        if not strips:
            lines += wrapped(strip_of(row.heading, screen), columns)
            continue
        shown = [
            (*_named(block.columns[index], screen), *strips[index]) if index else strips[index]
            for index in kept
            if strips[index]
        ]
        first = True
        for group in gathered(shown, columns - _INDENT, _GAP):
            rows = wrapped(group, columns - (0 if first else _INDENT), hanging=_INDENT if first else 0)
            lines += rows if first else [(Part(" " * _INDENT), *row) for row in rows]
            first = False
    return lines


def _named(column: Column, screen: Screen) -> Strip:
    return strip_of((Piece(f"{column.title} ", Role.LABEL),), screen) if column.numeric and column.title else ()


def _flowing(lines: list[Strip], size: int, columns: int, titled: bool) -> list[Strip]:
    """Return lines in as many columns of lines as fit side by side, read downwards."""
    count = max(1, (columns + _FLOW_GAP) // (size + _FLOW_GAP))
    head, body = (lines[:1], lines[1:]) if titled else ([], lines)
    height = -(-len(body) // count) if body else 0
    if count == 1 or not height:
        return lines
    stacks = [head + body[start : start + height] for start in range(0, len(body), height)]
    return [
        tuple(
            part
            for place, stack in enumerate(stacks)
            if depth < len(stack)
            for part in ((Part(" " * _FLOW_GAP),) if place else ()) + padded(stack[depth], size)
        )
        for depth in range(height + len(head))
    ]
