"""What a reader types as an answer, read as numbers the way people write them: ``0.7071, 0`` or ``[1/√2 0]``.

Must not know: questions.
"""

import math
import re
from collections.abc import Sequence

LONGEST = 2000
# A person rounds to two or three places; what is further off is another number.
WITHIN = 0.005
_ROUGHLY = 0.06
_BRACKETS = re.compile(r"[\[\]()（）【】{}]")
_BETWEEN = re.compile(r"[,，;；、\s]+")
_NUMBER = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_ROOT = re.compile(r"(?:√|sqrt)\s*\(?\s*([0-9.]+)\s*\)?", re.IGNORECASE)


def numbers(text: str) -> list[float] | None:
    """Return the numbers in ``text``: decimals, fractions, roots, percents, infinities; None where a part is none."""
    tidy = text[:LONGEST].replace("−", "-").replace("．", ".")
    tidy = _ROOT.sub(lambda found: f"√{found[1]}", tidy)
    tidy = re.sub(r"\s*/\s*", "/", _BRACKETS.sub(" ", tidy)).strip()
    parts = [part for part in _BETWEEN.split(tidy) if part]
    values = [_value(part) for part in parts]
    known = [value for value in values if value is not None]
    return known if known and len(known) == len(values) else None


def _value(text: str) -> float | None:
    sign = -1.0 if text.startswith("-") else 1.0
    bare = text.lstrip("+-")
    if len(text) - len(bare) > 1:
        return None
    if bare.lower() in ("inf", "infinity", "∞"):
        return sign * math.inf
    percent = bare.endswith("%")
    above, slash, below = bare.removesuffix("%").partition("/")
    top, bottom = _atom(above), _atom(below) if slash else 1.0
    if top is None or bottom is None or bottom == 0:
        return None
    return sign * top / bottom * (0.01 if percent else 1.0)


def _atom(text: str) -> float | None:
    root = text.startswith("√")
    digits = text.removeprefix("√")
    if not _NUMBER.fullmatch(digits):
        return None
    return math.sqrt(float(digits)) if root else float(digits)


def same(answer: Sequence[float], expected: Sequence[float], within: float = WITHIN) -> bool:
    """Return whether each number is the expected one, but for rounding."""
    return len(answer) == len(expected) and all(_same(a, b, within) for a, b in zip(answer, expected, strict=True))


def roughly(answer: Sequence[float], expected: Sequence[float]) -> bool:
    """Return whether the answer may be the expected one, rounded too far to tell."""
    return same(answer, expected, _ROUGHLY)


def first_wrong(answer: Sequence[float], expected: Sequence[float]) -> int:
    """Return the place of the first number that is not the expected one; raises ValueError where all are."""
    wrong = [place for place, (a, b) in enumerate(zip(answer, expected, strict=True)) if not _same(a, b, WITHIN)]
    if not wrong:
        raise ValueError("every number is the expected one")
    return wrong[0]


def _same(a: float, b: float, within: float) -> bool:
    if math.isinf(a) or math.isinf(b):
        return a == b
    return abs(a - b) <= within * max(1.0, abs(b))
