"""Text from outside made harmless to a terminal: nothing in it can move the cursor, change colours or reorder letters.

Must not know: where the text comes from or goes to.
"""

import unicodedata
from pathlib import PurePath

from tracer.texts import Message, message

LONGEST = 200
# Control, format (bidirectional marks, zero-width ones), lone surrogates, line and paragraph separators.
_ACTIVE = ("Cc", "Cf", "Cs", "Zl", "Zp")


def inert(text: str, keep: str = "") -> str:
    """Return ``text`` with every active character but those in ``keep`` spelt out, as in ``\\x1b``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        letter if letter in keep or unicodedata.category(letter) not in _ACTIVE else _spelt(letter) for letter in text
    )


def inert_message(source: Message) -> Message:
    """Return ``source`` with its text values inert and of a readable length; numbers stay numbers."""
    return message(source.id, **{name: _inert_value(value) for name, value in source.values.items()})


def _inert_value(value: object) -> object:
    if isinstance(value, Message):
        return inert_message(value)
    if isinstance(value, str | PurePath):
        text = inert(str(value))
        return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
    return value


def _spelt(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")
