"""Standard output and standard error: the answer on the one, everything else on the other, and neither ever crashes.

Must not know: commands, options, what is said.
"""

import codecs
import contextlib
import io
import os
import shutil
import sys
from typing import NoReturn, TextIO

import click
from rich.cells import chop_cells

from tracer.cli import interrupt
from tracer.cli.inert import sentence
from tracer.errors import InputError
from tracer.files import reason
from tracer.render.terminal.spelling import spelt
from tracer.texts import Message, message

DEFAULT_WIDTH = 80
_ERASE_LINE = "\r\x1b[2K"
_SHOW_CURSOR = "\x1b[?25h"
_PLAIN = "tracer.plain"


def prepare() -> None:
    """Let both streams write any text: what their encoding lacks is spelt in ASCII."""
    codecs.register_error(_PLAIN, _spell)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_PLAIN)


def _spell(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return spelt(error.object[error.start : error.end], "ascii"), error.end


def encoding() -> str:
    """Return the encoding of standard output."""
    return getattr(sys.stdout, "encoding", None) or "utf-8"


def width(stream: TextIO | None = None) -> int:
    """Return how many columns a reader sees: those of the terminal or of COLUMNS, 80 in a pipe or file."""
    if not _is_terminal(stream or sys.stdout) and not os.environ.get("COLUMNS"):
        return DEFAULT_WIDTH
    return shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns


def colour(stream: TextIO) -> bool:
    """Return whether ``stream`` takes colours: a terminal that is not a dumb one, and nobody set NO_COLOR."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return _is_terminal(stream) and os.environ.get("TERM") != "dumb"


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty()


def answer(text: str | bytes) -> None:
    """Write the answer to standard output, at once and whole; bytes go out as they are.

    A reader who left early (``| head``) is no error. Raises InputError where the output cannot take it, for example
    on a full disk, or where there is none.
    """
    if sys.stdout is None:  # closed by whoever started us
        raise InputError("cli.stdout_closed")
    try:
        if isinstance(text, bytes):
            sys.stdout.buffer.write(text)
        else:
            click.echo(text, file=sys.stdout, nl=False, color=colour(sys.stdout))
        sys.stdout.flush()
    except BrokenPipeError:
        silence(sys.stdout)
    except OSError as error:
        silence(sys.stdout)
        raise InputError("cli.stdout_failed", reason=reason(error)) from error


def complain(trouble: Message, language: str) -> None:
    """Say on standard error what went wrong. Nothing in the values of ``trouble`` acts on the terminal."""
    heading = click.style(message("cli.error").text(language), fg="red", bold=True)
    say(f"{heading}{sentence(trouble, language)}")


def say(text: str) -> None:
    """Write one line to standard error, if anybody is there to read it."""
    if sys.stderr is None:
        return
    try:
        click.echo(text, file=sys.stderr, color=colour(sys.stderr))
    except OSError:
        silence(sys.stderr)


def restore_terminal() -> None:
    """Bring back what an interrupted progress display may have hidden: the cursor, and a clean line."""
    if _is_terminal(sys.stderr):
        say(_SHOW_CURSOR)


def leave(code: int) -> NoReturn:
    """End the process now with ``code``; what was written to the streams goes out, nothing else is done."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # closed, or nobody reads it
            stream.flush()
    os._exit(code)


def silence(stream: TextIO) -> None:
    """Send everything ``stream`` still holds, and all to come, nowhere: Python flushes at exit and would complain."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


class Silence:
    """Shows nothing, for a process among several of which another one speaks."""

    def __call__(self, step: Message) -> None:
        """Show nothing."""

    def done(self) -> None:
        """Leave nothing behind."""


class Progress:
    """What is going on, on standard error: one line rewritten again and again on a terminal; lines of their own with
    ``verbose``; else nothing."""

    def __init__(self, language: str, verbose: bool) -> None:
        self._language = language
        self._verbose = verbose
        self._rewrites = not verbose and sys.stderr is not None and colour(sys.stderr) and sys.stderr.isatty()

    def __call__(self, step: Message) -> None:
        """Show ``step`` as what is being done now; raises KeyboardInterrupt where a Ctrl-C before it got lost."""
        interrupt.check()
        text = sentence(step, self._language)
        if self._verbose:
            say(text)
        elif self._rewrites:
            self._write(_ERASE_LINE + chop_cells(text, width(sys.stderr) - 1)[0])

    def done(self) -> None:
        """Leave a clean line behind."""
        if self._rewrites:
            self._write(_ERASE_LINE)

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            silence(sys.stderr)
