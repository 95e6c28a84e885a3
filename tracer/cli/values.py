"""The kinds of value an option takes: whole numbers, words of a list, token ids, text, files. A value of the wrong kind
is an InputError that names the option, says what was expected and what was found, and suggests a near word.

Must not know: any particular option.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from tracer.cli.prompt import read_prompt
from tracer.cli.words import hint
from tracer.errors import InputError
from tracer.texts import Message, message

_WHOLE = re.compile(r"[0-9]{1,15}")
_DIGITS = re.compile(r"[0-9]+")
_RANGE = re.compile(r"([0-9]{1,6})\.\.([0-9]{1,6})")
_ENGINE_VERSION = re.compile(r"transformers@[0-9][A-Za-z0-9.!+_-]{0,40}")
# What stands in a sentence without quotes; anything else might run into the words or the full stop around it.
_PLAIN = re.compile(r"[\w+@:/=,.-]*\w")
_LONGEST_NUMBER = 20  # digits that are shown
_DEVICE_NUMBER = re.compile(r"cuda:[0-9]{1,3}")


class Whole(click.ParamType[int]):
    """A whole number from ``lowest``."""

    name = "whole"

    def __init__(self, lowest: int = 0) -> None:
        self._lowest = lowest

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number; raises InputError."""
        if isinstance(value, int):
            return value
        if _too_large(value):
            raise InputError("cli.number_large", option=_name(param), found=_digits(value))
        if not _WHOLE.fullmatch(value) or int(value) < self._lowest:
            raise InputError("cli.not_a_whole_number", option=_name(param), lowest=self._lowest, found=_found(value))
        return int(value)


class Word(click.ParamType[str]):
    """One word of a short list, or of one that is only looked up when it is needed."""

    name = "word"

    def __init__(self, known: Sequence[str] | Callable[[], Sequence[str]]) -> None:
        self._known = known

    @property
    def known(self) -> Sequence[str]:
        """The words."""
        return self._known() if callable(self._known) else self._known

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the word; raises InputError with a suggestion."""
        if value in self.known:
            return str(value)
        raise InputError(
            "cli.not_one_of",
            option=_name(param),
            found=_found(value),
            known=", ".join(self.known),
            hint=hint(value, self.known, message("cli.choose_one")),
        )

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        """Return the words that begin with ``incomplete``."""
        return [CompletionItem(word) for word in self.known if word.startswith(incomplete)]


class Layers(click.ParamType[range]):
    """A range of layers, both ends included: ``0..3``."""

    name = "layers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> range:
        """Return the layers; raises InputError."""
        if isinstance(value, range):
            return value
        found = _RANGE.fullmatch(value)
        if found is None:
            raise InputError("cli.not_a_range", option=_name(param), found=_found(value))
        if int(found[1]) > int(found[2]):
            raise InputError("cli.range_backwards", option=_name(param), first=found[1], last=found[2])
        return range(int(found[1]), int(found[2]) + 1)


class Engine(Word):
    """One word of a list, or a version of transformers by its number: ``transformers@5.16.1``."""

    name = "engine"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the engine; raises InputError with a suggestion."""
        return str(value) if _ENGINE_VERSION.fullmatch(value) else super().convert(value, param, ctx)


class Device(Word):
    """One word of a list, or one CUDA device by its number."""

    name = "device"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the device; raises InputError with a suggestion."""
        return str(value) if _DEVICE_NUMBER.fullmatch(value) else super().convert(value, param, ctx)


class TokenIds(click.ParamType[tuple[int, ...]]):
    """Token ids, separated by commas; ``@FILE`` has them in a file and ``-`` on standard input, where white space
    separates them, too: a command line holds some 20,000 at most."""

    name = "ids"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Return the ids; raises InputError that names the first part which is none."""
        if isinstance(value, tuple):
            return value
        if value == "-" or value.startswith("@"):
            text = read_prompt(Path(value.removeprefix("@")), _name(param))
            value = ",".join(re.sub(r"\s*,\s*", ",", text).split())
        parts = [part.strip() for part in value.split(",")]
        for place, part in enumerate(parts, start=1):
            if _too_large(part):
                raise InputError("cli.token_id_large", option=_name(param), place=place, found=_digits(part))
            if not _WHOLE.fullmatch(part):
                raise InputError("cli.not_token_ids", option=_name(param), place=place, found=_found(part))
        return tuple(int(part) for part in parts)


class Text(click.ParamType[str]):
    """Text that is valid Unicode, as a command line in another encoding need not be."""

    name = "text"
    not_unicode = "cli.not_unicode"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text; raises InputError."""
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError(self.not_unicode, option=_name(param), place=error.start + 1) from error
        return str(value)


class Suggested(Text):
    """Text of which some words are known beforehand, which ``known`` looks up where it is needed."""

    def __init__(self, known: Callable[[click.Context], Iterable[str]]) -> None:
        self._known = known

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        """Return the known words that begin with ``incomplete``."""
        return [CompletionItem(word) for word in self._known(ctx) if word.startswith(incomplete)]


class File(click.ParamType[Path]):
    """The path of a file."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path; raises InputError where it is empty."""
        if not str(value):
            raise InputError("cli.empty_path", option=_name(param))
        return Path(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        """Leave the completion to the shell, which knows the files."""
        return [CompletionItem(incomplete, type="file")]


class Place(Text):
    """A folder on this machine, or the id of a repository on the hub."""

    name = "place"
    not_unicode = "cli.place_not_unicode"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        """Leave the completion to the shell, which knows the folders."""
        return [CompletionItem(incomplete, type="dir")]


def _found(value: str) -> str | Message:
    """Return what was given: in words where nothing of it would be seen, in quotes where it would not stand out."""
    if not value.strip():
        return message("cli.empty_value")
    return value if _PLAIN.fullmatch(value) else message("cli.quoted", value=value)


def _too_large(value: str) -> bool:
    """Return whether this is a whole number, and larger than anything that is counted here."""
    return _DIGITS.fullmatch(value) is not None and not _WHOLE.fullmatch(value)


def _digits(number: str) -> str:
    return number if len(number) <= _LONGEST_NUMBER else f"{number[:_LONGEST_NUMBER]}…"


def _name(param: click.Parameter | None) -> str:
    """The name a reader knows the parameter by: an option's long one, an argument's metavar."""
    if isinstance(param, click.Option):
        return max(param.opts, key=len)
    return "" if param is None else str(param.metavar or param.name)
