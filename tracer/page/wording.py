"""The page's language: looking up its texts by name, and its short pieces.

Must not know: what is said where.
"""

from tracer.page.record import Line, Link, Piece, Role, line
from tracer.records import Site
from tracer.texts import Spoken


class Words(Spoken):
    """The page's texts in one language."""

    __slots__ = ()
    file = "page"


def place(site: Site, whole: bool = True) -> Piece:
    """Return where ``site`` is: ``modeling_qwen3.py:213:23``, or ``213:23`` where the file is named above."""
    text = site.place if whole else f"{site.span.line}:{site.span.column}"
    here = site.file if site.file.is_absolute() else None
    return Piece(text, Role.PLACE, Link(here, site.span.line, site.permalink))


def file_name(site: Site) -> str:
    """Return the last part of a site's path."""
    return file_name_of(site.path)


def file_name_of(path: str) -> str:
    """Return the last part of a path with forward slashes."""
    return path.rsplit("/", 1)[-1]


def muted(text: str) -> Line:
    """Return a Line that stays in the background."""
    return line(Piece(text, Role.MUTED))


def shape(axes: tuple[str, ...], sizes: tuple[int, ...]) -> str:
    """Return named axes with their sizes: ``[T=16, H·D=256]``."""
    return f"[{', '.join(f'{axis}={size}' for axis, size in zip(axes, sizes, strict=True))}]"
