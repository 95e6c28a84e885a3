"""The prompt from a file or from standard input.

Must not know: what becomes of it.
"""

import sys
from pathlib import Path

from tracer.errors import InputError
from tracer.files import reason

STANDARD_INPUT = Path("-")
LARGEST = 64 * 1024 * 1024  # bytes; far beyond any context, far below what fills a memory


def read_prompt(source: Path, option: str = "--prompt-file") -> str:
    """Return the text of ``source`` ("-" is standard input), which ``option`` names, without a byte order mark and
    without one last line end.

    Raises InputError where it cannot be read, is too large, or is not UTF-8.
    """
    data = _read(source, option)
    if len(data) > LARGEST:
        raise InputError("cli.prompt_too_large", path=str(source), limit=LARGEST // 1024**2)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError("cli.prompt_not_utf8", path=str(source), byte=error.start) from error
    return text.removesuffix("\n").removesuffix("\r")


def from_keyboard() -> bool:
    """Return whether standard input is a person at a keyboard, who would wonder why nothing happens."""
    return sys.stdin is not None and sys.stdin.isatty()


def _read(source: Path, option: str) -> bytes:
    if source == STANDARD_INPUT:
        if sys.stdin is None:
            raise InputError("cli.no_standard_input")
        return sys.stdin.buffer.read(LARGEST + 1)
    try:
        with source.open("rb") as file:
            return file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        why = reason(error, reading=True)
        raise InputError("cli.prompt_unreadable", path=str(source), reason=why, option=option) from error
