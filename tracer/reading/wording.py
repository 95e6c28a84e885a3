"""The words of the source pages, and entries that carry both languages themselves.

Must not know: what is said where.
"""

from collections.abc import Mapping
from typing import Any

from tracer.texts import Spoken


class Words(Spoken):
    """The texts of the source pages in one language."""

    __slots__ = ()
    file = "source_pages"

    def own(self, entry: Mapping[str, Any]) -> Any:
        """Return what an entry of the annotations holds for this language."""
        return entry[self.language]
