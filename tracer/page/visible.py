"""Text from outside made visible: nothing in it can move a cursor, colour, reorder or hide what is shown around it.

A token may be an escape sequence, a file name may hold a right-to-left override. Each such character is shown in place
of being obeyed, written as Python writes it. Must not know: where text comes from or goes to, any output's markup.
"""

import unicodedata

# Control, format (bidirectional marks, joiners), lone surrogates, private use, unassigned, separators but the space.
_ACTIVE = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"))
_SPACE = "␣"


def visible(text: str) -> str:
    """Return ``text`` with every character that acts or hides spelt out: ``\\n``, ``\\x1b``, ``\\u202e``.

    What is left are characters that print, and the plain space.
    """
    if text.isprintable():
        return text
    return "".join(letter if letter == " " else _shown(letter) for letter in text)


def token_text(text: str) -> str:
    """Return the text of a token, visible to its ends: spaces are drawn, a leading combining mark gets a circle."""
    shown = visible(text).replace(" ", _SPACE)
    return f"◌{shown}" if shown and unicodedata.combining(shown[0]) else shown


def hexadecimal(data: bytes) -> str:
    """Return bytes as ``E8 A5 BF``."""
    return data.hex(" ").upper()


def _shown(letter: str) -> str:
    if unicodedata.category(letter) not in _ACTIVE:
        return letter
    return letter.encode("unicode_escape").decode("ascii")
