"""The page: what a reader is shown, already worded, rounded and made harmless, before any output format is chosen.

A renderer lowers these records and decides nothing but layout. Must not know: traces, terminals, HTML.

A Line is a sequence of Pieces. Sections hold blocks; each block says what a thing *is* (a table, an excerpt, a matrix),
never where on the screen it goes.
"""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import quote

from tracer.page.visible import visible


class Role(StrEnum):
    """What a piece of text is. A renderer gives each its own look; none carries meaning by its look alone."""

    TEXT = "text"
    STRONG = "strong"
    MUTED = "muted"
    LABEL = "label"
    NUMBER = "number"
    CODE = "code"
    FORMULA = "formula"
    PLACE = "place"
    TOKEN = "token"
    MASKED = "masked"
    PASS = "pass"
    FAIL = "fail"
    UNTESTED = "untested"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Link:
    """Where a place leads: a file of this machine with a line (None where it is not here), and an address upstream.

    Only a secure address is kept, and nothing in it can end the escape sequence or attribute it is put in.
    """

    file: Path | None
    line: int
    url: str | None

    def __post_init__(self) -> None:
        url = self.url if self.url is not None and self.url.startswith("https://") else None
        object.__setattr__(self, "url", None if url is None else quote(url, safe=":/?#[]@!$&()*+,;=%~"))


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text of one role. Its text cannot act: active characters are spelt out on construction.

    ``level`` from 0 to 1 asks for a colour on a scale from little to much. ``spark`` asks for a tiny bar chart of
    values from 0 to 1; ``text`` then says the same in words or is empty.
    """

    text: str
    role: Role = Role.TEXT
    link: Link | None = None
    level: float | None = None
    spark: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", visible(self.text))


Line = tuple[Piece, ...]


def line(*parts: str | Piece) -> Line:
    """Return a Line of plain texts and pieces."""
    return tuple(part if isinstance(part, Piece) else Piece(part) for part in parts if part != "")


def plain(text: Line) -> str:
    """Return the text of a Line."""
    return "".join(piece.text for piece in text)


# ------------------------------------------------------------------------------------------------------ blocks


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph."""

    text: Line


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and what they are, one a row."""

    rows: tuple[tuple[Line, Line], ...]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. ``spare`` > 0: may be left out where room is short, the highest first, because the page
    says the same elsewhere. ``names``: it says which row this is, and is repeated where a table is shown in parts."""

    title: str = ""
    numeric: bool = False
    spare: int = 0
    names: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: its cells, or (``cells`` empty) a heading over the rows that follow."""

    cells: tuple[Line, ...] = ()
    heading: Line = ()


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under columns. ``flow``: many short rows, which may stand in
    several columns of rows, as in a newspaper."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    flow: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """A stretch of a code line that is pointed at: columns from 0 in code points, end exclusive."""

    start: int
    end: int
    label: str


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A line of source with its true number; number 0 where lines have been left out."""

    number: int
    text: str
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of a source file under its place. Indentation that all lines share has been taken away."""

    place: Line
    lines: tuple[CodeLine, ...]
    note: Line = ()


@dataclass(frozen=True, slots=True)
class Label:
    """The name of a matrix row or column: its position and its token (either may be empty). ``short`` is the text where
    room is short and its beginning would not do, empty where it does."""

    position: str
    text: str
    short: str = ""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Numbers under a formula. Cells are pieces: ``level`` for their colour, role MASKED where nothing is visible.

    A matrix that is too wide is shown in parts, some columns each; ``parted`` is what to add where rows that are all
    masked in such a part are left out of it.
    """

    title: Line
    rows: tuple[Label, ...]
    columns: tuple[Label, ...]
    cells: tuple[tuple[Piece, ...], ...]
    legend: Line = ()
    parted: Line = ()


@dataclass(frozen=True, slots=True)
class Beside:
    """Blocks that belong side by side where there is room, else below each other."""

    blocks: tuple[Matrix, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """A tiny heat map: values from 0 to 1, None where nothing is visible, −1 where the value is NaN."""

    title: Line
    values: tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True, slots=True)
class Pictures:
    """Heat maps to be compared, side by side."""

    items: tuple[Picture, ...]
    legend: Line = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """One check: how it ended, what it claims, what was found. ``details`` are names and values."""

    status: Role  # PASS | FAIL | UNTESTED
    mark: str
    claim: Line
    details: tuple[tuple[str, Line], ...]
    reason: Line


@dataclass(frozen=True, slots=True)
class Verdicts:
    """All checks, failing ones first."""

    items: tuple[Verdict, ...]


Block = Prose | Facts | Table | Excerpt | Matrix | Beside | Pictures | Verdicts


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page. ``id`` is stable across languages; ``number`` names the steps it covers ("1–3")."""

    id: str
    number: str
    heading: Line
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """A whole page: what it shows, how its checks ended, and its sections in reading order."""

    id: str
    language: str
    title: Line
    verdict: Line
    sections: tuple[Section, ...]
