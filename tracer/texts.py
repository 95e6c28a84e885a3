"""Every sentence a reader may see, in English and Chinese, looked up by its id.

The texts are data (``annotations/texts/*.toml``): one table an entry, one key a language. Must not know: who shows
them.
"""

import string
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import ClassVar

from tracer import data

LANGUAGES = ("en", "zh")
DEFAULT_LANGUAGE = "en"


class MissingText(LookupError):
    """A text id is unknown, or lacks the language asked for: a fault of this project, never of its user."""


@dataclass(frozen=True)
class Message:
    """A sentence before its language is chosen: the id of a text and the values that fill it."""

    id: str
    values: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))

    def text(self, language: str = DEFAULT_LANGUAGE) -> str:
        """Return the sentence in ``language``; raises MissingText where there is none."""
        return render(self.id, self.values, language)

    def __str__(self) -> str:
        return self.text()

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled, as when processes hand each other a record: a mapping proxy cannot be by itself."""
        return _unpickled, (self.id, dict(self.values))


def message(id: str, **values: object) -> Message:
    """Return a Message for the text ``id`` filled with ``values``."""
    return Message(id, MappingProxyType(values))


class Listing(tuple[str, ...]):
    """Things named one after another, which each language sets apart in its own way: a value of a text."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Spoken:
    """The texts of one file in one language: ``say("title")``. A subclass names the file."""

    file: ClassVar[str]
    language: str

    def __call__(self, name: str, /, **values: object) -> str:
        """Return the text ``<file>.<name>`` filled with ``values``."""
        return message(f"{self.file}.{name}", **values).text(self.language)

    def count(self, name: str, count: int, **values: object) -> str:
        """Return the text for a number of things, ``<file>.<name>_one`` where there is one."""
        return self(f"{name}_one" if count == 1 else name, count=count, **values)

    def of(self, said: Message) -> str:
        """Return a message of another part in this language."""
        return said.text(self.language)


def _unpickled(id: str, values: Mapping[str, object]) -> Message:
    return message(id, **values)


@cache
def catalogue() -> Mapping[str, Mapping[str, str]]:
    """Return all texts: id (``file.entry``) → language → template. Read once for each process."""
    stems = sorted(path.stem for path in (data.annotations() / "texts").glob("*.toml"))
    return MappingProxyType({f"{stem}.{name}": entry for stem in stems for name, entry in _of_file(stem).items()})


@cache
def _of_file(stem: str) -> Mapping[str, Mapping[str, str]]:
    """Return the texts of one file by entry, none where there is no such file. A run shows texts of few of them."""
    try:
        content = (data.annotations() / "texts" / f"{stem}.toml").read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    return tomllib.loads(content)


def render(id: str, values: Mapping[str, object], language: str) -> str:
    """Return the text ``id`` in ``language`` with ``values`` put in (``{name}`` and format specs as in str.format)."""
    try:
        file, _, name = id.partition(".")
        template = _of_file(file)[name][language]
    except KeyError:
        raise MissingText(f"no text {id!r} in language {language!r} under {data.annotations() / 'texts'}") from None
    return _Filler(language).vformat(template, (), values)


class _Filler(string.Formatter):
    """str.format without attribute or item access, so that a value from a checkpoint can reach nothing but itself."""

    def __init__(self, language: str) -> None:
        self._language = language

    def get_field(self, field_name: str, args: object, kwargs: Mapping[str, object]) -> tuple[object, str]:
        value = kwargs[field_name]
        if isinstance(value, Listing):
            return render("words.between", {}, self._language).join(value), field_name
        return (value.text(self._language) if isinstance(value, Message) else value), field_name
