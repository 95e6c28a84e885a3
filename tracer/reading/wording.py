"""The words of the source pages, and entries that carry both languages themselves.

Must not know: what is said where.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tracer.texts import Message, message


@dataclass(frozen=True, slots=True)
class Words:
    """The texts of the source pages in one language."""

    language: str

    def __call__(self, name: str, /, **values: object) -> str:
        """Return the text ``source_pages.<name>`` filled with ``values``."""
        return message(f"source_pages.{name}", **values).text(self.language)

    def of(self, said: Message) -> str:
        """Return a message of another part in this language."""
        return said.text(self.language)

    def own(self, entry: Mapping[str, Any]) -> Any:
        """Return what an entry of the annotations holds for this language."""
        return entry[self.language]
