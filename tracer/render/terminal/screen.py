"""What a page is drawn on: its width, its colours, the letters its encoding has, whether it takes links.

Must not know: pages.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from rich.color import ColorSystem

DEFAULT_WIDTH = 80
NARROWEST = 20
_NO_LINKS = ("dumb", "linux")


@dataclass(frozen=True, slots=True)
class Screen:
    """A terminal, or what stands for one. ``colours`` None: no escape sequence of any kind is written."""

    width: int = DEFAULT_WIDTH
    colours: ColorSystem | None = None
    encoding: str = "utf-8"
    links: bool = False
    local_links: bool = True  # whether whoever reads it can open files of this machine


def screen(width: int, colour: bool, encoding: str, environ: Mapping[str, str]) -> Screen:
    """Return the screen for a stream of that width and encoding; ``colour`` says whether it takes escape sequences."""
    term = environ.get("TERM", "")
    if not colour:
        return Screen(max(width, NARROWEST), None, encoding)
    return Screen(max(width, NARROWEST), _colours(term, environ), encoding, term not in _NO_LINKS)


def _colours(term: str, environ: Mapping[str, str]) -> ColorSystem:
    if environ.get("COLORTERM") in ("truecolor", "24bit") or "256color" in term:
        return ColorSystem.EIGHT_BIT
    return ColorSystem.STANDARD
