"""Both expressions of each step of two traces, A above B: places and code in one column, and nothing of them cut.

Must not know: what else is compared, any output format.
"""

from collections.abc import Iterable, Sequence
from unicodedata import east_asian_width

from tracer.page.record import Line, Piece, Role, line
from tracer.page.wording import place
from tracer.records import Site

Named = tuple[str, Site | None, Site | None]
Rows = list[tuple[Line, Line]]


def together(named: Iterable[Named], between: str) -> list[Named]:
    """Return the steps with those that one pair of expressions makes, as a call's output and logsumexp, in one;
    ``between`` stands between their names."""
    groups: dict[tuple[object, object], list[str]] = {}
    sites: dict[tuple[object, object], tuple[Site | None, Site | None]] = {}
    for name, a, b in named:
        key = (_spot(a), _spot(b))
        groups.setdefault(key, []).append(name)
        sites[key] = (a, b)
    return [(between.join(names), *sites[key]) for key, names in groups.items()]


def named_sides(named: Sequence[Named], absent: Line) -> Rows:
    """Return rows for all of ``named``, whose names keep a column of their own before A and B."""
    size = max((_columns(name) for name, _, _ in named), default=0)
    return [row for name, a, b in named for row in sides(a, b, absent, name + " " * (size - _columns(name) + 2))]


def sides(a: Site | None, b: Site | None, absent: Line, name: str = "") -> Rows:
    """Return a row for each side, or one for both where it is the same expression; ``absent`` stands for none."""
    if a is not None and b is not None and _spot(a) == _spot(b):
        return [(_label(name, "AB"), _written(a, absent))]
    return [(_label(name, "A"), _written(a, absent)), (_label(" " * _columns(name), "B"), _written(b, absent))]


def one_line(code: str) -> str:
    """Return code with its layout left out."""
    return " ".join(code.split())


def _label(name: str, side: str) -> Line:
    return line(Piece(name, Role.CODE), Piece(side, Role.LABEL))


def _written(site: Site | None, absent: Line) -> Line:
    return absent if site is None else line(place(site), "  ", Piece(one_line(site.code), Role.CODE))


def _spot(site: Site | None) -> object:
    return None if site is None else (site.sha256, site.span)


def _columns(text: str) -> int:
    """Return how many columns ``text`` takes: an East Asian character takes two."""
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)
