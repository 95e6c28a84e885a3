"""A conversation with whoever sits at standard input, or with a file of answers put in its place.

Must not know: what is asked.
"""

import sys
from collections.abc import Callable

from tracer.cli import streams
from tracer.cli.wrap import wrap
from tracer.page.visible import visible

_LONGEST_LINE = 1 << 16
_ECHOED = 200


class Conversation:
    """Questions on standard output (standard error where that is kept for JSON), answers from standard input."""

    def __init__(self, quiet: bool) -> None:
        self._write: Callable[[str], None] = _to_stderr if quiet else streams.answer
        self._echo = sys.stdin is None or not sys.stdin.isatty()

    def tell(self, text: str) -> None:
        """Say ``text`` in lines of the terminal's width."""
        wide = max(min(streams.width(), 100) - 1, 20)
        lines = [piece for part in text.split("\n") for piece in wrap(visible(part), wide)]
        self._write("".join(f"{line}\n" for line in lines) + "\n")

    def ask(self, prompt: str) -> str | None:
        """Return the next line of standard input, None at its end."""
        self._write(prompt)
        data = b"" if sys.stdin is None else sys.stdin.buffer.readline(_LONGEST_LINE)
        if not data:
            self._write("\n")
            return None
        answer = data.decode("utf-8", errors="replace").rstrip("\r\n")
        if self._echo:  # nobody typed it, so nobody has seen it
            self._write(f"{visible(answer[:_ECHOED])}\n")
        return answer


def _to_stderr(text: str) -> None:
    streams.say(text.removesuffix("\n"))
