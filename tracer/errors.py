"""The errors a user may meet, each with its exit code.

    TracerError
    ├── InputError      exit 2   bad usage or bad input
    └── Unsupported     exit 3   not supported here, or nothing could be tested

An error names a text (``checkpoint.truncated`` is the entry ``truncated`` of ``annotations/texts/checkpoint.toml``)
that says what was expected, what was found, where, and what to do. Must not know: how errors are shown.
"""

import re
from collections.abc import Mapping

from tracer.texts import DEFAULT_LANGUAGE, Message, message

# An option, and a value after it: a text in quotes, a number, numbers, or the name of a kernel, engine or device.
_OPTION = re.compile(
    r"--(?P<option>[a-z]+)(?![\w-])(?: (?P<value>\d+(?:,\d+)*(?!\w)|\"[^\"]*\""
    r"|auto|eager|sdpa|cpu-flash|flash-attn(?:-[34])?|transformers|nano-vllm|cpu|(?:cuda|mps|xpu)(?::\d+)?)(?![\w-]))?"
)


class TracerError(Exception):
    """An error with a text in every language. ``str(error)`` is the English one."""

    exit_code = 2

    def __init__(self, id: str, **values: object) -> None:
        self.message: Message = message(id, **values)
        self.arguments: Mapping[str, str] = {}  # options that the caller gave as arguments: --layer as layer=
        super().__init__(id)

    @property
    def id(self) -> str:
        """The id of this error's text, ``file.entry``."""
        return self.message.id

    def text(self, language: str = DEFAULT_LANGUAGE) -> str:
        """Return what is wrong and what to do about it, in ``language``."""
        return in_python(self.message.text(language), self.arguments)

    def __str__(self) -> str:
        return self.text()


def in_python(text: str, arguments: Mapping[str, str]) -> str:
    """Return ``text`` with the options that ``arguments`` names as a Python caller writes them: ``--layer 0`` as
    ``layer=0``, ``--kernel eager`` as ``kernel="eager"``, ``--query`` as ``query=``."""

    def written(found: re.Match[str]) -> str:
        argument, value = arguments.get(found["option"]), found["value"] or ""
        if argument is None:
            return found[0]
        number = f"[{value}]" if argument == "tokens" else value
        return (
            f"{argument}={number}"
            if value[:1].isdigit() or value[:1] == '"'
            else f'{argument}="{value}"'
            if value
            else f"{argument}="
        )

    return _OPTION.sub(written, text) if arguments else text


class InputError(TracerError):
    """Bad usage or bad input: what was asked for cannot be done as asked."""

    exit_code = 2


class Unsupported(TracerError):
    """Well-formed, but beyond what this tool can do or test here."""

    exit_code = 3
