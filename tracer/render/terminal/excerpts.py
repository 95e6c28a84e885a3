"""Excerpts of source: true line numbers in a gutter, brackets under the expressions that are pointed at.

Must not know: what the code does.
"""

from rich.cells import cell_len
from rich.style import Style

from tracer.page.record import CodeLine, Excerpt, Mark, Role
from tracer.render.terminal.palette import ROLES
from tracer.render.terminal.screen import Screen
from tracer.render.terminal.spelling import spelt
from tracer.render.terminal.strips import Part, Strip, strip_of, wrapped

_BAR = " │ "


def excerpt(block: Excerpt, screen: Screen, columns: int) -> list[Strip]:
    """Return the place, the lines, and under them the marks."""
    lines = wrapped(strip_of(block.place, screen), columns)
    digits = max((len(str(row.number)) for row in block.lines), default=1)
    room = max(columns - digits - len(_BAR), 8)
    for row in block.lines:
        lines += _code(row, digits, room, screen)
    return lines + (wrapped(strip_of(block.note, screen), columns) if block.note else [])


def _gutter(text: str, digits: int, screen: Screen) -> Part:
    return Part(f"{text:>{digits}}{spelt(_BAR, screen.encoding)}", ROLES[Role.LABEL])


def _code(row: CodeLine, digits: int, room: int, screen: Screen) -> list[Strip]:
    """Return one source line, folded where it is wider than the room, each piece with the marks that fall in it."""
    if not row.number:
        return [(_gutter(spelt(row.text, screen.encoding), digits, screen),)]
    lines: list[Strip] = []
    lanes = _lanes(tuple(mark for mark in row.marks if not _continues(row, mark)))
    chunks = _chunks(row.text, room)
    labelled = {mark: _roomiest(mark, chunks) for mark in row.marks if mark.label}
    for number, (start, end) in enumerate(chunks):
        gutter = _gutter(str(row.number) if number == 0 else "", digits, screen)
        lines.append((gutter, *_styled(row, start, end, screen)))
        here = {mark for mark, chunk in labelled.items() if chunk == (start, end)}
        for lane in lanes:
            drawn = _lane(row.text, lane, start, end, here)
            if drawn.strip():
                lines.append((_gutter("", digits, screen), Part(spelt(drawn, screen.encoding), ROLES[Role.FORMULA])))
    return lines or [(_gutter(str(row.number), digits, screen),)]


def _chunks(text: str, room: int) -> list[tuple[int, int]]:
    """Return the start and end of the pieces of ``text`` that fit, broken at spaces where that leaves no wide gap."""
    pieces, start = [], 0
    while start < len(text):
        end, used = start, 0
        while end < len(text) and used + cell_len(text[end]) <= room:
            used += cell_len(text[end])
            end += 1
        if end < len(text):
            end = max((place for place in range(start + room // 2, end + 1) if _breaks(text, place)), default=end)
        end = max(end, start + 1)
        pieces.append((start, end))
        start = end
    return pieces


def _breaks(text: str, place: int) -> bool:
    """Return whether a line of code reads well when broken before ``place``."""
    before, after = text[place - 1], text[place]
    return before in " (," or (after == "." and before in ")]")


def _styled(row: CodeLine, start: int, end: int, screen: Screen) -> Strip:
    """Return a piece of code with what is marked standing out."""
    parts: list[Part] = []
    for place in range(start, end):
        marked = any(mark.start <= place < mark.end for mark in row.marks)
        look: Style = ROLES[Role.CODE if marked else Role.MUTED]
        letter = spelt(row.text[place], screen.encoding)
        if parts and parts[-1].style is look:
            parts[-1] = Part(parts[-1].text + letter, look)
        else:
            parts.append(Part(letter, look))
    return tuple(parts)


def _continues(row: CodeLine, mark: Mark) -> bool:
    """Return whether a whole line lies inside an expression that began above: its colour says so, a bracket would not
    add to it."""
    return not mark.label and not row.text[: mark.start].strip() and not row.text[mark.end :].strip()


def _lanes(marks: tuple[Mark, ...]) -> list[list[Mark]]:
    """Return the marks in as few lines as keep them apart, inner expressions nearest to the code."""
    lanes: list[list[Mark]] = []
    for mark in sorted(marks, key=lambda mark: (mark.end - mark.start, mark.start)):
        for lane in lanes:
            if all(mark.end <= other.start or other.end <= mark.start for other in lane):
                lane.append(mark)
                break
        else:
            lanes.append([mark])
    return lanes


def _roomiest(mark: Mark, chunks: list[tuple[int, int]]) -> tuple[int, int]:
    """Return the piece of a folded line that holds most of a mark: its label stands there."""
    return max(chunks, key=lambda chunk: min(mark.end, chunk[1]) - max(mark.start, chunk[0]))


def _lane(text: str, lane: list[Mark], start: int, end: int, labelled: set[Mark]) -> str:
    """Return one line of marks under the code from ``start`` to ``end``, with the labels of those in ``labelled``."""
    drawn = ""
    for mark in sorted(lane, key=lambda mark: mark.start):
        a, b = max(mark.start, start), min(mark.end, end)
        if a >= b:
            continue
        drawn += " " * (cell_len(text[start:a]) - cell_len(drawn))
        size = cell_len(text[a:b].rstrip() or " ")
        drawn += _bracket(size, mark.label if mark in labelled else "", a == mark.start, b == mark.end)
    return drawn


def _bracket(size: int, label: str, begins: bool, ends: bool) -> str:
    """Return a bracket of ``size`` columns; a label that does not fit into it is cut to its number or left out."""
    if size == 1:
        return "╵"
    inner = size - begins - ends
    for shown in (f" {label} ", f" {label.partition(' ')[0]} "):
        if label and inner >= cell_len(shown) + 1:
            line = f"─{shown}{'─' * (inner - cell_len(shown) - 1)}"
            break
    else:
        line = "─" * inner
    return ("╰" if begins else "") + line + ("╯" if ends else "")
