"""The labs' language: looking up their texts by name.

Must not know: what is said where.
"""

from dataclasses import dataclass

from tracer.texts import Message, message


@dataclass(frozen=True, slots=True)
class Words:
    """The labs' texts in one language."""

    language: str

    def __call__(self, name: str, **values: object) -> str:
        """Return the text ``labs.<name>`` filled with ``values``."""
        return said(name, **values).text(self.language)


def said(name: str, **values: object) -> Message:
    """Return the Message of the text ``labs.<name>``."""
    return message(f"labs.{name}", **values)
