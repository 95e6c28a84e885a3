"""Letters an encoding lacks, spelt with those it has: formulas, boxes and arrows in ASCII by one table.

Must not know: layout, though spelling comes before it, since it changes widths.
"""

import re
import unicodedata
from functools import lru_cache

TABLE = {
    "→": "->", "←": "<-", "↗": "^", "…": "...", "⋮": ":", "·": ".", "×": "x", "⊙": "(*)", "√": "sqrt", "Σ": "sum",
    "∞": "inf", "−": "-", "–": "-", "—": "-", "±": "+-", "≤": "<=", "≥": ">=", "≠": "!=", "≈": "~", "Δ": "delta",
    "γ": "gamma", "θ": "theta", "ε": "eps", "∈": "in", "✓": "+", "✗": "x", "␣": "_", "⟨": "<", "⟩": ">", "‖": "||",
    "“": '"', "”": '"', "‘": "'", "’": "'", "，": ", ", "。": ". ", "：": ": ", "；": "; ", "（": " (", "）": ")",
    "─": "-", "━": "=", "│": "|", "╰": "\\", "╯": "/", "╵": "^", "▁": "_", "▂": "_", "▃": "-", "▄": "-", "▅": "=",
    "▆": "=", "▇": "#", "█": "#", "░": ".", "▒": "+", "▓": "*", "◌": "o",
    "\u0302": "^", "\u0303": "~", "ₜ": "_t", "ₖ": "_k",
}  # fmt: skip
_SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ᵀⁱᐟᴰ", "0123456789+-Ti/D", strict=True))
_SUBSCRIPTS = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋ₜᵢⱼₖ", "0123456789+-tijk", strict=True)) | {"ₕ": "h"}
_SCRIPTS = re.compile(f"[{''.join(_SUPERSCRIPTS)}]+|[{''.join(_SUBSCRIPTS)}]+")

_TIMES = re.compile(r"(?<=\S)·(?=\S)")  # between letters a product, alone a masked cell or a separator


@lru_cache(maxsize=4096)
def spelt(text: str, encoding: str) -> str:
    """Return ``text`` with every letter that ``encoding`` lacks spelt in ASCII; no letter is lost or becomes ``?``."""
    if text.isascii() or _carries(encoding, text):
        return text
    scripts = _SCRIPTS.sub(lambda found: _script(found[0], encoding), text)
    if not _carries(encoding, "·"):
        scripts = _TIMES.sub("*", scripts)
    return "".join(letter if _carries(encoding, letter) else _letter(letter) for letter in scripts)


def _carries(encoding: str, text: str) -> bool:
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _script(letters: str, encoding: str) -> str:
    """Return superscripts as ``^(2i/D)`` and subscripts as ``_t``, unless the encoding has them."""
    if _carries(encoding, letters):
        return letters
    above = letters[0] in _SUPERSCRIPTS
    inner = "".join((_SUPERSCRIPTS if above else _SUBSCRIPTS)[letter] for letter in letters)
    sign = "^" if above else "_"
    return f"{sign}{inner}" if len(inner) == 1 else f"{sign}({inner})"


def _letter(letter: str) -> str:
    if letter in TABLE:
        return TABLE[letter]
    base = unicodedata.normalize("NFD", letter)
    if len(base) > 1 and base[0].isascii() and base[1] in TABLE:  # a letter with its accent in one: q with a hat
        return base[0] + TABLE[base[1]]
    code = ord(letter)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
