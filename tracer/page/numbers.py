"""Every rounding of the page: how a number becomes text.

Minus is U+2212, so that numbers line up with formulas. Must not know: what the numbers are.
"""

import math

import numpy as np
from numpy.typing import NDArray

MINUS = "−"
WALK_DECIMALS = 4


def fixed(value: float, decimals: int) -> str:
    """Return ``value`` with that many decimals: ``−0.31``; never a negative zero; ∞ and NaN by name."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    text = f"{value:.{decimals}f}"
    if float(text) == 0:
        text = text.removeprefix("-")
    return text.replace("-", MINUS)


def share(value: float) -> str:
    """Return a weight, 0 to 1, in four columns: ``0.37``; ``6e−4`` where two decimals would leave nothing of it."""
    return fixed(value, 2) if not 0 < value < 0.005 else f"{value:.0e}".replace("e-0", "e-").replace("-", MINUS)


def significant(value: float, digits: int = 3) -> str:
    """Return ``value`` with that many significant digits: ``0.0123``, ``1.2e−07``."""
    if not math.isfinite(value):
        return fixed(value, 0)
    if value == 0:
        return "0"
    if 1e-4 <= abs(value) < 1e5:
        decimals = max(digits - 1 - math.floor(math.log10(abs(value))), 0)
        return fixed(value, decimals)
    return f"{value:.{digits - 1}e}".replace("-", MINUS)


def exact(value: object) -> str:
    """Return a value as Python writes it, with all its digits."""
    return repr(value)


def matrix_decimals(values: NDArray[np.float64]) -> int:
    """Return how many decimals a matrix is shown with: two, fewer where its numbers are large."""
    finite = np.abs(values[np.isfinite(values)])
    top = float(finite.max()) if finite.size else 0.0
    return 2 if top < 99.995 else 1 if top < 999.95 else 0
