"""The look of each role, readable on light and on dark backgrounds alike.

The background is not known, so every colour set on it has a luminance near the middle: at least 4:1 against black and
against white. Cells of a heat map bring their own background and with it their own letters. Must not know: layout.
"""

from functools import cache

from rich.color import Color
from rich.style import Style

from tracer.page.record import Piece, Role

_GREY, _TEAL, _BLUE, _GREEN, _RED, _AMBER, _PURPLE = 243, 30, 63, 28, 160, 130, 133

ROLES: dict[Role, Style] = {
    Role.TEXT: Style(),
    Role.STRONG: Style(bold=True),
    Role.MUTED: Style(color=Color.from_ansi(_GREY)),
    Role.LABEL: Style(color=Color.from_ansi(_GREY)),
    Role.NUMBER: Style(),
    Role.CODE: Style(color=Color.from_ansi(_TEAL)),
    Role.FORMULA: Style(color=Color.from_ansi(_PURPLE)),
    Role.PLACE: Style(color=Color.from_ansi(_BLUE)),
    Role.TOKEN: Style(color=Color.from_ansi(_TEAL)),
    Role.MASKED: Style(color=Color.from_ansi(_GREY)),
    Role.PASS: Style(color=Color.from_ansi(_GREEN), bold=True),
    Role.FAIL: Style(color=Color.from_ansi(_RED), bold=True),
    Role.UNTESTED: Style(color=Color.from_ansi(_AMBER), bold=True),
    Role.WARNING: Style(color=Color.from_ansi(_AMBER), bold=True),
}
RULE = Style(color=Color.from_ansi(_GREY))

# From little to much: (from which level on, background, letters). Below the first: no background.
HEAT = (
    (0.05, 24, 231),
    (0.20, 31, 231),
    (0.40, 67, 231),
    (0.60, 179, 16),
    (0.80, 208, 16),
)


@cache
def heat(level: float) -> Style:
    """Return the colours of a cell of that level (0 to 1)."""
    chosen = ROLES[Role.MUTED]
    for start, background, letters in HEAT:
        if level >= start:
            chosen = Style(color=Color.from_ansi(letters), bgcolor=Color.from_ansi(background), bold=level >= 0.8)
    return chosen


def style(piece: Piece) -> Style:
    """Return the look of a piece."""
    return heat(round(piece.level, 2)) if piece.level is not None else ROLES[piece.role]
