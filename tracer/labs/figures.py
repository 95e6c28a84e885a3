"""Numbers as a lab shows them: rounded to the four decimals of a hand calculation, in tables, matrices and bars.

Must not know: what the numbers are.
"""

import math
from collections.abc import Callable, Sequence

from tracer.arrays import Floats
from tracer.maths.visibility import Bools
from tracer.page.numbers import MINUS, fixed, significant
from tracer.page.record import Label, Line, Matrix, Piece, Role, line

DECIMALS = 4
_SMALLEST = 0.5 * 10**-DECIMALS  # what four decimals would show as zero
_LARGEST = 1e6
HIDDEN = Piece("·", Role.MASKED)
BAR = 16
MOST_SHOWN = 16
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def figure(value: float) -> str:
    """Return a computed number: ``0.7071``; what four decimals cannot show has three significant digits."""
    if value == 0 or not math.isfinite(value) or _SMALLEST <= abs(value) < _LARGEST:
        return fixed(value, DECIMALS)
    return significant(value)


def short(value: float) -> str:
    """Return a given number as a reader would write it: ``1``, ``0.5``, ``−2``."""
    return fixed(value, 0) if not math.isfinite(value) else f"{value + 0.0:.6g}".replace("-", MINUS)


def factor(value: float) -> str:
    """Return a given number as it stands in a product: negative ones in brackets."""
    text = short(value)
    return f"({text})" if text.startswith(MINUS) else text


def computed_factor(value: float) -> str:
    """Return a computed number as it stands in a product: negative ones in brackets."""
    text = figure(value)
    return f"({text})" if text.startswith(MINUS) else text


def vector(values: Sequence[float] | Floats, write: Callable[[float], str] = figure) -> str:
    """Return numbers as a list: ``[0.6698, 0.3302]``."""
    return f"[{', '.join(write(float(value)) for value in values)}]"


def named(letter: str, place: int) -> str:
    """Return the name of one row: ``k₀``."""
    return f"{letter}{str(place).translate(_SUBSCRIPTS)}"


def cell(value: float, level: float | None = None) -> Line:
    """Return a computed number as a table cell; ``level`` colours it from little (0) to much (1)."""
    return line(Piece(figure(value), Role.NUMBER, level=within(level)))


def strong(text: str) -> Line:
    """Return a Line that stands out."""
    return line(Piece(text, Role.STRONG))


def formula(text: str, note: str = "") -> Line:
    """Return a formula, and what it means."""
    return line(Piece(text, Role.FORMULA), *([Piece(f"  {note}", Role.MUTED)] if note else []))


def within(level: float | None) -> float | None:
    """Return a colour level cut to 0 … 1; None where it is no number."""
    return None if level is None or not math.isfinite(level) else min(max(level, 0.0), 1.0)


def bar(share: float, longest: int = BAR) -> Line:
    """Return a bar for a share from 0 to 1; nothing for what is no number."""
    known = within(share)
    filled = 0 if known is None else round(known * longest)
    return line(Piece("█" * filled, Role.TOKEN), Piece("░" * (longest - filled), Role.MUTED))


def is_cut(*values: Floats) -> bool:
    """Return whether ``grid`` leaves out a part of any of these matrices."""
    return any(max(each.shape) > MOST_SHOWN for each in values)


def grid(
    title: Line,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Floats,
    *,
    write: Callable[[float], str] = figure,
    levels: Floats | None = None,
    visible: Bools | None = None,
    legend: Line = (),
) -> Matrix:
    """Return ``values`` [rows, columns] under their names; what is not ``visible`` is drawn as a dot.

    Of a large matrix only the first MOST_SHOWN rows and columns: whoever shows one says so (``is_cut``).
    """
    rows, columns = rows[:MOST_SHOWN], columns[:MOST_SHOWN]
    cells = tuple(
        tuple(
            HIDDEN
            if visible is not None and not visible[i, j]
            else Piece(
                write(float(values[i, j])),
                Role.NUMBER,
                level=None if levels is None else within(float(levels[i, j])),
            )
            for j in range(len(columns))
        )
        for i in range(len(rows))
    )
    down, across = tuple(Label(name, "") for name in rows), tuple(Label("", name) for name in columns)
    return Matrix(title, down, across, cells, legend)
