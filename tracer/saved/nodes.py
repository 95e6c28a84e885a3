"""Strict reading of JSON that nobody vouches for: each value knows where it stands, and says what it should have been.

Must not know: what is read.
"""

import math
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from tracer.checkpoint.wording import shown
from tracer.errors import InputError
from tracer.texts import message

T = TypeVar("T")
LARGEST = 1 << 53  # beyond it, other readers of JSON lose whole numbers
# Text that could steer a terminal or reorder what is read: control and format characters, half surrogates.
_ACTIVE = ("Cc", "Cf", "Cs", "Zl", "Zp")


@dataclass(frozen=True)
class Node:
    """One JSON value, where it stands in the description of a saved trace, and in which file."""

    value: Any
    where: str
    file: str

    def wrong(self, expected: str, **values: object) -> InputError:
        """Return the error that this value is not what the text ``expected`` says."""
        return InputError(
            "saved.damaged",
            file=self.file,
            where=self.where,
            found=shown(self.value),
            expected=message(expected, **values),
        )

    def _child(self, value: object, step: str) -> "Node":
        return Node(value, f"{self.where}{step}", self.file)

    def fields(self, *names: str) -> dict[str, "Node"]:
        """Return the entries of an object that has exactly these names."""
        if not isinstance(self.value, dict) or self.value.keys() != set(names):
            raise self.wrong("saved.expected_fields", names=", ".join(names))
        return {name: self._child(self.value[name], f".{name}") for name in names}

    def entries(self) -> list[tuple[str, "Node"]]:
        """Return the entries of an object with any names."""
        if not isinstance(self.value, dict):
            raise self.wrong("saved.expected_object")
        return [(_inert(name, self), self._child(value, f".{shown(name)[1:-1]}")) for name, value in self.value.items()]

    def items(self) -> list["Node"]:
        """Return the members of a list."""
        if not isinstance(self.value, list):
            raise self.wrong("saved.expected_list")
        return [self._child(value, f"[{index}]") for index, value in enumerate(self.value)]

    def some(self, length: int) -> list["Node"]:
        """Return the members of a list that has exactly ``length`` of them."""
        items = self.items()
        if len(items) != length:
            raise self.wrong("saved.expected_length", length=length)
        return items

    def optional(self, read: Callable[["Node"], T]) -> T | None:
        """Return None for null, else what ``read`` makes of this value."""
        return None if self.value is None else read(self)

    def text(self, pattern: re.Pattern[str] | None = None, free: bool = False) -> str:
        """Return a text: one line without active characters; ``free`` text may be any that UTF-8 can hold."""
        if not isinstance(self.value, str):
            raise self.wrong("saved.expected_text")
        if pattern is not None and not pattern.fullmatch(self.value):
            raise self.wrong("saved.expected_form", form=pattern.pattern)
        return _encodable(self.value, self) if free else _inert(self.value, self)

    def code(self) -> str:
        """Return source text: any but control characters that lay out no line."""
        text = self.text(free=True)
        if any(unicodedata.category(c) == "Cc" and c not in "\n\r\t\f" for c in text):
            raise self.wrong("saved.expected_plain")
        return text

    def word(self, *known: str) -> str:
        """Return one of the words ``known``."""
        if self.value not in known:
            raise self.wrong("saved.expected_word", known=", ".join(known))
        return str(self.value)

    def whole(self, low: int = 0, high: int = LARGEST) -> int:
        """Return a whole number from ``low`` to ``high``, both included."""
        if type(self.value) is not int or not low <= self.value <= high:
            raise self.wrong("saved.expected_whole", low=low, high=high)
        return self.value

    def number(self) -> float:
        """Return a finite number as a float."""
        whole = type(self.value) is int and abs(self.value) <= LARGEST
        if not whole and not (type(self.value) is float and math.isfinite(self.value)):
            raise self.wrong("saved.expected_number")
        return float(self.value)

    def boolean(self) -> bool:
        """Return true or false."""
        if not isinstance(self.value, bool):
            raise self.wrong("saved.expected_boolean")
        return self.value


def _inert(text: str, node: Node) -> str:
    if not (text.isascii() and text.isprintable()) and any(unicodedata.category(c) in _ACTIVE for c in text):
        raise node.wrong("saved.expected_plain")
    return text


def _encodable(text: str, node: Node) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise node.wrong("saved.expected_text") from None
    return text
