"""Strips: lines of styled text with a known width in terminal columns, and how they are wrapped, cut and padded.

Must not know: what the text says.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import isfinite

from rich.cells import cell_len
from rich.style import Style

from tracer.page.record import Line, Link, Piece
from tracer.render.terminal.palette import style
from tracer.render.terminal.screen import Screen
from tracer.render.terminal.spelling import spelt

# Marks that must not begin a line, and marks that must not end one.
_CLOSING = "，。、；：？！）》」』”’…,.;:?!)]}│"
_OPENING = "（《「『“‘([{"
PLAIN = Style()
_BLOCKS = "▁▂▃▄▅▆▇█"
UPSTREAM = "↗"
# A letter that the encoding lacks, as tracer.render.terminal.spelling spells it; or any other.
_ESCAPE_OR_LETTER = re.compile(r"\\x[0-9a-f]{2}|\\u[0-9a-f]{4}|\\U[0-9a-f]{8}|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Part:
    """Text of one look. ``address`` is where it leads, None for nowhere."""

    text: str
    style: Style = PLAIN
    address: str | None = None

    @property
    def width(self) -> int:
        """Columns this takes."""
        return cell_len(self.text)


Strip = tuple[Part, ...]


def width(strip: Strip) -> int:
    """Return the columns a strip takes."""
    return sum(part.width for part in strip)


def strip_of(text: Line, screen: Screen) -> Strip:
    """Return a Line as a Strip: letters the screen's encoding lacks spelt out, places linked where it takes links."""
    return tuple(part for piece in text for part in _parts(piece, screen))


def _parts(piece: Piece, screen: Screen) -> Iterator[Part]:
    text = spark(piece.spark) if piece.spark else piece.text
    look = style(piece)
    if piece.link is None or not screen.links:
        yield Part(spelt(text, screen.encoding), look)
        return
    local, upstream = addresses(piece.link)
    local = local if screen.local_links else None
    yield Part(spelt(text, screen.encoding), look, local or upstream)
    if local and upstream:
        yield Part(spelt(UPSTREAM, screen.encoding), look, upstream)


def addresses(link: Link) -> tuple[str | None, str | None]:
    """Return the address of the file here and the one upstream, each None where there is none."""
    local = f"{link.file.as_uri()}#L{link.line}" if link.file is not None else None
    return local, link.url


def spark(values: tuple[float, ...]) -> str:
    """Return values from 0 to 1 as a bar chart of one line; ``?`` stands for a value that is no number."""
    return "".join(_BLOCKS[min(int(v * len(_BLOCKS)), len(_BLOCKS) - 1)] if isfinite(v) else "?" for v in values)


def plain_strip(text: str, look: Style, screen: Screen) -> Strip:
    """Return one text in one look."""
    return (Part(spelt(text, screen.encoding), look),)


def padded(strip: Strip, columns: int, right: bool = False) -> Strip:
    """Return ``strip`` filled with spaces to ``columns``; ``right`` puts them before it."""
    missing = columns - width(strip)
    if missing <= 0:
        return strip
    return (Part(" " * missing), *strip) if right else (*strip, Part(" " * missing))


def cut(text: str, columns: int, mark: str) -> str:
    """Return ``text``, or where it is wider than ``columns`` its beginning with ``mark`` at its end."""
    if cell_len(text) <= columns:
        return text
    kept = ""
    for letter in _units(text, len(text)):
        if cell_len(kept + letter + mark) > columns:
            break
        kept += letter
    return kept + mark if cell_len(kept + mark) <= columns else mark[:columns]


def wrapped(strip: Strip, columns: int, hanging: int = 0) -> list[Strip]:
    """Return ``strip`` in lines of at most ``columns``; lines after the first begin with ``hanging`` spaces."""
    columns = max(columns, hanging + 4)
    if width(strip) <= columns:
        return [_without_end(strip)]
    lines: list[list[Part]] = [[]]
    used = 0
    for atom in _atoms(strip):
        begun = used > (hanging if len(lines) > 1 else 0)
        if begun and used + width(_without_end(atom)) > columns:
            lines.append([Part(" " * hanging)] if hanging else [])
            used = hanging
        for piece in _folded(atom, columns, used, hanging):
            if piece is None:
                lines.append([Part(" " * hanging)] if hanging else [])
                used = hanging
            else:
                lines[-1].append(piece)
                used += piece.width
    return [_without_end(joined(line)) for line in lines]


def _atoms(strip: Strip) -> Iterator[Strip]:
    """Yield the stretches that must stay on one line; each carries the spaces that follow it."""
    atom: list[Part] = []
    before = ""
    for part in strip:
        for letter in part.text:
            if before and _may_break(before, letter) and not (before == " " and _is_index(atom)):
                yield tuple(atom)
                atom = []
            if atom and atom[-1].style is part.style and atom[-1].address == part.address:
                atom[-1] = replace(atom[-1], text=atom[-1].text + letter)
            else:
                atom.append(replace(part, text=letter))
            before = letter
    if atom:
        yield tuple(atom)


def _is_index(atom: list[Part]) -> bool:
    """Return whether an atom is an index such as ``[3] ``, which stays with what it counts."""
    text = "".join(part.text for part in atom)
    return text.startswith("[") and text.endswith("] ")


def _may_break(before: str, after: str) -> bool:
    if after == " " or after in _CLOSING or before in _OPENING:
        return False
    return before in " │" or cell_len(before) == 2 or cell_len(after) == 2


def _folded(atom: Strip, columns: int, used: int, hanging: int) -> Iterator[Part | None]:
    """Yield the parts of an atom, None where a line must end because the atom alone is wider than a line."""
    if used + width(_without_end(atom)) <= columns:
        yield from atom
        return
    for part in atom:
        text = ""
        for unit in _units(part.text, columns - hanging):
            if used + cell_len(text + unit) > columns:
                keep = _nice_end(text)
                yield replace(part, text=text[:keep])
                yield None
                text, used = text[keep:], hanging
            if text and used + cell_len(text + unit) > columns:
                yield replace(part, text=text)
                yield None
                text = ""
            text += unit
        yield replace(part, text=text)
        used += cell_len(text)


def _units(text: str, columns: int) -> Iterator[str]:
    """Yield the letters of ``text``; one that was spelt as an escape is one, unless it is wider than ``columns``."""
    for found in _ESCAPE_OR_LETTER.finditer(text):
        yield from (found[0],) if len(found[0]) <= columns else found[0]


def _nice_end(text: str) -> int:
    """Return how much of a name that is too long for its line stays on it: up to a joint in its second half, or all."""
    joints = [
        place
        for place in range(len(text) // 2, len(text) + 1)
        if (place and text[place - 1] in "/_-") or text[place : place + 1] == ":"
    ]
    return max(joints, default=len(text))


def _without_end(strip: Strip) -> Strip:
    """Return ``strip`` without spaces at its end."""
    parts = list(strip)
    while parts and not parts[-1].text.rstrip(" ") and parts[-1].style.bgcolor is None:
        parts.pop()
    if parts and parts[-1].style.bgcolor is None:
        parts[-1] = replace(parts[-1], text=parts[-1].text.rstrip(" "))
    return tuple(parts)


def gathered(strips: list[Strip], columns: int, gap: int) -> list[Strip]:
    """Return strips with as many on one line as fit, ``gap`` spaces between them."""
    rows: list[Strip] = []
    for strip in strips:
        if rows and width(rows[-1]) + gap + width(strip) <= columns:
            rows[-1] = (*rows[-1], Part(" " * gap), *strip)
        else:
            rows.append(strip)
    return rows


def joined(parts: Iterable[Part]) -> Strip:
    """Return parts with neighbours of one look made one."""
    found: list[Part] = []
    for part in parts:
        if found and found[-1].style is part.style and found[-1].address == part.address:
            found[-1] = replace(found[-1], text=found[-1].text + part.text)
        elif part.text:
            found.append(part)
    return tuple(found)


def written(strips: Iterable[Strip], screen: Screen) -> str:
    """Return lines as text: with escape sequences where the screen has colours, without any where it has none."""
    return "".join("".join(_written(part, screen) for part in _without_end(strip)) + "\n" for strip in strips)


def _written(part: Part, screen: Screen) -> str:
    if screen.colours is None:
        return part.text
    text = part.style.render(part.text, color_system=screen.colours)
    if part.address is None or not screen.links:
        return text
    return f"\x1b]8;;{part.address}\x1b\\{text}\x1b]8;;\x1b\\"
