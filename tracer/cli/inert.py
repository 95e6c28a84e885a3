"""Sentences with values from outside made harmless to a terminal: nothing in them can move the cursor, change colours,
reorder letters or begin a line of its own.

Must not know: where values come from or sentences go to.
"""

from pathlib import PurePath

from tracer.page.visible import visible
from tracer.texts import Message, message

LONGEST = 200


def sentence(source: Message, language: str) -> str:
    """Return the text of ``source`` with its values visible and of a readable length; only its own line ends stay."""
    text = _inert(source).text(language)
    return "\n".join(visible(line) for line in text.split("\n"))


def _inert(source: Message) -> Message:
    return message(source.id, **{name: _value(value) for name, value in source.values.items()})


def _value(value: object) -> object:
    """Texts made visible and short; numbers stay numbers, for the text that rounds them."""
    if isinstance(value, Message):
        return _inert(value)
    if isinstance(value, str | PurePath):
        text = visible(str(value))
        return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
    return value
