"""Text broken into lines of a given width, where a Chinese character takes two columns and needs no space to break at.

Must not know: what the text says.
"""

import unicodedata
from collections.abc import Iterator

from rich.cells import cell_len

# Marks that must not begin a line, and marks that must not end one.
_CLOSING = "，。、；：？！）》」』”’…,.;:?!)]}"
_OPENING = "（《「『“‘([{"


def wrap(text: str, width: int) -> list[str]:
    """Return the lines of ``text``, each at most ``width`` columns wide unless one unbreakable word is wider.

    Line ends in ``text`` are kept; spaces at the ends of lines are dropped.
    """
    return [line for paragraph in text.split("\n") for line in _paragraph(paragraph, max(width, 1))]


def _paragraph(text: str, width: int) -> Iterator[str]:
    line = ""
    for piece in _pieces(text):
        if line.strip() and cell_len(line + piece.rstrip()) > width:
            yield line.rstrip()
            line = ""
        line += piece
    yield line.rstrip()


def _pieces(text: str) -> Iterator[str]:
    """The stretches of ``text`` that must stay on one line, in order; each carries the spaces that follow it."""
    piece = ""
    for letter in text:
        if piece and _may_break(piece[-1], letter):
            yield piece
            piece = ""
        piece += letter
    if piece:
        yield piece


def _may_break(before: str, after: str) -> bool:
    if after == " " or after in _CLOSING or before in _OPENING:
        return False
    return before == " " or _is_wide(before) or _is_wide(after)


def _is_wide(letter: str) -> bool:
    return unicodedata.east_asian_width(letter) in "WF"
