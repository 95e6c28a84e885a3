"""Sentences that may leave this machine: no absolute path in them, only the last name of it.

What is written to a file or printed as JSON is passed on to others, whom a home folder's name does not concern. Must
not know: which sentences there are, where they go.
"""

import re
from pathlib import PurePath, PurePosixPath, PureWindowsPath

from tracer.texts import Message, message

# A path inside a longer text, for example a linker's complaint: two names or more, not part of a URL or of "and/or".
_INSIDE = re.compile(r"(?<![\w.:/\\~-])(?:~|[A-Za-z]:)?(?:[/\\][^\s/\\:*?\"'<>|()\[\],;]+){2,}[/\\]?")


def portable(source: Message) -> Message:
    """Return ``source`` with every absolute path in its values cut down to its last name."""
    values = {name: _value(value) for name, value in source.values.items()}
    return source if values == dict(source.values) else message(source.id, **values)


def _value(value: object) -> object:
    if isinstance(value, Message):
        return portable(value)
    if isinstance(value, PurePath):
        return value.name if value.is_absolute() else value.as_posix()
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list | tuple):
        return type(value)(_value(item) for item in value)
    return value


def _text(text: str) -> str:
    if "\n" not in text:
        for path in (PurePosixPath(text), PureWindowsPath(text)):
            if path.is_absolute() and len(path.parts) > 2:
                return path.name
    return _INSIDE.sub(lambda found: PureWindowsPath(found[0]).name, text)
