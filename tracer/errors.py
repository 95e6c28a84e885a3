"""The errors a user may meet, each with its exit code.

    TracerError
    ├── InputError      exit 2   bad usage or bad input
    └── Unsupported     exit 3   not supported here, or nothing could be tested

An error names a text (``checkpoint.truncated`` is the entry ``truncated`` of ``annotations/texts/checkpoint.toml``)
that says what was expected, what was found, where, and what to do. Must not know: how errors are shown.
"""

from tracer.texts import DEFAULT_LANGUAGE, Message, message


class TracerError(Exception):
    """An error with a text in every language. ``str(error)`` is the English one."""

    exit_code = 2

    def __init__(self, id: str, **values: object) -> None:
        self.message: Message = message(id, **values)
        super().__init__(id)

    @property
    def id(self) -> str:
        """The id of this error's text, ``file.entry``."""
        return self.message.id

    def text(self, language: str = DEFAULT_LANGUAGE) -> str:
        """Return what is wrong and what to do about it, in ``language``."""
        return self.message.text(language)

    def __str__(self) -> str:
        return self.text()


class InputError(TracerError):
    """Bad usage or bad input: what was asked for cannot be done as asked."""

    exit_code = 2


class Unsupported(TracerError):
    """Well-formed, but beyond what this tool can do or test here."""

    exit_code = 3
