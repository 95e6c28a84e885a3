"""Loose values of a trace (what fills a sentence, a kernel's arguments, rope settings) as JSON, and back, exactly.

JSON has no tuples and no infinities; these, mappings and sentences become objects with one key that says which. Must
not know: where the values stand.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from tracer.saved.nodes import Node
from tracer.texts import LANGUAGES, Message, MissingText, message

_DEEPEST = 20
# The names of a sentence's blanks; "id" is the sentence's own.
_BLANK = re.compile(r"(?!id$)[a-z][a-z0-9_]*")
_NONFINITE = ("nan", "inf", "-inf")


def encode(value: object) -> Any:
    """Return ``value`` as JSON. What JSON and the tags here cannot hold stands as the text a reader would see."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, list):
        return [encode(item) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [encode(item) for item in value]}
    if isinstance(value, Message):
        return {"message": encode_message(value)}
    if isinstance(value, Mapping):
        return {"mapping": {str(name): encode(item) for name, item in value.items()}}
    return str(value)


def decode(node: Node, depth: int = 0) -> Any:
    """Return the value that ``encode`` made ``node`` of; raises InputError where it made no such thing."""
    if depth > _DEEPEST:
        raise node.wrong("saved.expected_flat")
    value = node.value
    if isinstance(value, list):
        return [decode(item, depth + 1) for item in node.items()]
    if not isinstance(value, dict):
        return node.text(free=True) if isinstance(value, str) else value
    if len(value) != 1:
        raise node.wrong("saved.expected_tag")
    ((tag, inner),) = node.entries()
    if tag == "float":
        return float(inner.word(*_NONFINITE))
    if tag == "tuple":
        return tuple(decode(item, depth + 1) for item in inner.items())
    if tag == "mapping":
        return {name: decode(item, depth + 1) for name, item in inner.entries()}
    if tag == "message":
        return decode_message(inner, depth + 1)
    raise node.wrong("saved.expected_tag")


@dataclass(frozen=True)
class Kept(Message):
    """A sentence of another version of this tool, as that version wrote it: its id means nothing here."""

    texts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def text(self, language: str = LANGUAGES[0]) -> str:
        """Return the sentence as it was saved in ``language``."""
        return self.texts[language]

    def __str__(self) -> str:
        return self.text()


def encode_message(source: Message) -> dict[str, Any]:
    """Return a sentence with its id, its values and its text in every language, so that the file speaks for itself."""
    values = {name: encode(value) for name, value in source.values.items()}
    return {"id": source.id, "values": values, **{language: source.text(language) for language in LANGUAGES}}


def decode_message(node: Node, depth: int = 0) -> Message:
    """Return the sentence; one that this version does not know, or fills otherwise, says what the file says."""
    fields = node.fields("id", "values", *LANGUAGES)
    id = fields["id"].text()
    values = {name: decode(item, depth + 1) for name, item in fields["values"].entries()}
    texts = {language: fields[language].text(free=True) for language in LANGUAGES}
    if not all(_BLANK.fullmatch(name) for name in values):
        raise fields["values"].wrong("saved.expected_blanks")
    known = message(id, **values)
    if _says(known, texts):
        return known
    return Kept(id, MappingProxyType(values), MappingProxyType(texts))


def _says(known: Message, texts: Mapping[str, str]) -> bool:
    try:
        return all(known.text(language) == texts[language] for language in LANGUAGES)
    except (MissingText, KeyError, ValueError, TypeError):
        return False
