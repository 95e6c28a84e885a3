"""Tokens as a reader sees them: text with drawn spaces, bytes, and characters that several tokens share.

Must not know: tokenizers, layout.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tracer.checkpoint.characters import joined
from tracer.page.record import Label
from tracer.page.visible import hexadecimal, token_text
from tracer.records import Token

_RAISED = "¹²³⁴"  # a character has at most four bytes


@dataclass(frozen=True, slots=True)
class Shown:
    """One token: ``text`` is its own text, or what it shares with its neighbours and which part of it this is
    (``西 1/2``, ``short`` ``西¹``), or its bytes, or its id. ``bytes`` in hexadecimal."""

    position: int
    id: int
    text: str
    bytes: str
    short: str = ""

    @property
    def label(self) -> Label:
        """The token as the name of a matrix row or column."""
        return Label(str(self.position), self.text, self.short)


@dataclass(frozen=True, slots=True)
class Group:
    """Tokens ``first`` to ``last`` that are whole characters together, and their common text (bytes where none)."""

    first: int
    last: int
    text: str


def shown(tokens: Sequence[Token]) -> tuple[Shown, ...]:
    """Return every token as it is shown."""
    found = []
    for first, last, text in joined(tokens):
        for place in range(first, last + 1):
            token = tokens[place]
            part, parts = place - first, last - first + 1
            short = f"{token_text(text)}{_RAISED[part]}" if text is not None and 1 < parts <= len(_RAISED) else ""
            found.append(Shown(place, token.id, _text(token, text, part, parts), hexadecimal(token.bytes), short))
    return tuple(found)


def groups(tokens: Sequence[Token]) -> tuple[Group, ...]:
    """Return the tokens joined to whole characters."""
    return tuple(Group(a, b, _text(tokens[a], text, 0, 1)) for a, b, text in joined(tokens))


def _text(token: Token, common: str | None, part: int, parts: int) -> str:
    if common is not None:
        return token_text(common) if parts == 1 else f"{token_text(common)} {part + 1}/{parts}"
    return f"⟨{hexadecimal(token.bytes)}⟩" if token.bytes else f"#{token.id}"
