"""The report: what the HTML file shows beyond the pages of a terminal, worded in both languages at once.

Like tracer/page/record.py, these records hold only what is already worded, rounded and made harmless. Must not know:
traces, HTML.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tracer.page.record import Block, Line, Piece, Role, line
from tracer.page.visible import visible
from tracer.texts import message


@dataclass(frozen=True, slots=True)
class Both:
    """The same thing said in English and in Chinese; equal where it needs no translation."""

    en: Line
    zh: Line


def both(id: str, **values: object) -> Both:
    """Return the text ``report.<id>`` in both languages. What stands between backticks in it is code."""
    said = message(f"report.{id}" if "." not in id else id, **values)
    return Both(marked_up(said.text("en")), marked_up(said.text("zh")))


def joined(*said: Both) -> Both:
    """Return sentences one after another: with a blank between them in English, and none in Chinese."""
    return Both(_one_after_another([each.en for each in said], " "), _one_after_another([each.zh for each in said], ""))


def _one_after_another(lines: Sequence[Line], between: str) -> Line:
    found: list[str | Piece] = []
    for each in lines:
        found += [between, *each] if found and between and each else each
    return line(*found)


def one_line(text: str) -> str:
    """Return code as one line, inert."""
    return visible(" ".join(text.split()))


def alike(*parts: str | Piece) -> Both:
    """Return pieces that are the same in every language."""
    same = line(*parts)
    return Both(same, same)


def marked_up(text: str) -> Line:
    """Return ``text`` as pieces; every second stretch between backticks is code."""
    parts = text.split("`")
    return line(*(Piece(part, Role.CODE if index % 2 else Role.TEXT) for index, part in enumerate(parts) if part))


# ---------------------------------------------------------------------------------------------- numbers of a head


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a row or column: its position (may be empty) and its token or word."""

    position: str
    text: Both
    token: bool = False


@dataclass(frozen=True, slots=True)
class Grid:
    """A matrix of one head with its axes. ``shades`` from −4 to 4 colour a cell; None: nothing is visible there.

    ``formula`` and ``sums`` say how a cell is made and over which axis; ``expression`` is the id of the card of the
    source expression it comes from, ``cite`` what to quote when asking about it.
    """

    id: str
    symbol: str
    title: Both
    axes: Both
    sums: Both
    note: Both
    rows: tuple[Name, ...]
    columns: tuple[Name, ...]
    texts: tuple[tuple[str, ...], ...]
    shades: tuple[tuple[int | None, ...], ...]
    expression: str
    cite: str


@dataclass(frozen=True, slots=True)
class Numbers:
    """All grids of a head, what of a long prompt they show (None: all), and the exact numbers for clicks."""

    formulas: tuple[str, ...]
    links: Mapping[str, str]  # symbol of a formula → id of the element that shows where it is written
    grids: tuple[Grid, ...]
    stated: Both | None
    warnings: tuple[Both, ...]
    checked: Both
    data: Mapping[str, object]


# -------------------------------------------------------------------------------------------------------- source


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of a code line: its text, its kind for highlighting, the card it leads to (empty: none), and how many
    marked expressions it lies in."""

    text: str
    kind: str
    card: str
    depth: int


@dataclass(frozen=True, slots=True)
class ListedLine:
    """A line of source with its true number (0: lines left out) and the cards of expressions that begin on it."""

    number: int
    code: str
    marks: tuple[tuple[int, int, str], ...]  # start, end, card; an inner one comes after the one around it
    begins: tuple[tuple[str, str], ...]  # card, and what it is called


@dataclass(frozen=True, slots=True)
class Listing:
    """An excerpt of a source file, each captured expression leading to its card."""

    place: Line
    lines: tuple[ListedLine, ...]


@dataclass(frozen=True, slots=True)
class Card:
    """What one expression produced: formula, shape, statistics, and the slice of the asked head."""

    id: str
    name: str
    formula: str
    place: Line
    facts: tuple[tuple[Both, Both], ...]
    slice_title: Both | None
    rows: tuple[Name, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    cite: str


@dataclass(frozen=True, slots=True)
class Source:
    """Excerpts, and the cards of their expressions."""

    listings: tuple[Listing, ...]
    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    """One place on a value's path: the file where it changes, the expression, the name it gets, and what proves it."""

    id: str
    file: str  # empty where it is the file of the stop before
    place: Line
    code: str
    binds: str
    proof: Both
    sure: bool
    cite: str


@dataclass(frozen=True, slots=True)
class Path:
    """A value followed from its definition to the kernel."""

    id: str
    lead: Both
    stops: tuple[Stop, ...]
    arrives: Both


# ---------------------------------------------------------------------------------------------- counterexamples


@dataclass(frozen=True, slots=True)
class Bars:
    """Numbers to compare: a name a row, a value before and after, each as text and as a share from 0 to 1."""

    rows: tuple[tuple[Name, str, float, str, float], ...]
    totals: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Map:
    """Weights as a small picture: values from 0 to 1, None where nothing is visible, NaN as −1."""

    title: Both
    values: tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True, slots=True)
class Wrong:
    """One counterexample: what is done wrong, what becomes of the numbers, and which checks notice."""

    id: str
    title: Both
    change: Both
    instead: str  # the wrong formula
    found: Both
    maps: tuple[Map, ...]
    bars: Bars | None
    bars_title: Both | None
    outputs: tuple[tuple[Both, tuple[str, ...]], ...]
    verdict: Both
    caught: Both | None  # by how many checks
    checks: tuple[Block, Block]  # Verdicts, English and Chinese
    cite: str


# ------------------------------------------------------------------------------------------------ other parts


@dataclass(frozen=True, slots=True)
class Figure:
    """A small table of numbers under a caption."""

    id: str
    caption: Both
    columns: tuple[Both, ...]
    rows: tuple[tuple[Both, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Curve:
    """Points of a plot, both coordinates above 0; ``joined`` by a line or not."""

    id: str
    name: Both
    points: tuple[tuple[float, float], ...]
    joined: bool


@dataclass(frozen=True, slots=True)
class Plot:
    """Curves over two logarithmic axes; ``ticks`` are the places on the horizontal one. A table says the same."""

    id: str
    caption: Both
    ticks: tuple[float, ...]
    curves: tuple[Curve, ...]


@dataclass(frozen=True, slots=True)
class Task:
    """Something to calculate: what is given, and the answer, hidden until asked for."""

    id: str
    title: Both
    given: tuple[Both, ...]
    figures: tuple[Figure, ...]
    answer: tuple[Both, ...]
    cite: str


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer of a question, whether it is right, and why or why not."""

    text: Both
    right: bool
    why: Both


@dataclass(frozen=True, slots=True)
class Question:
    """A closed-book question; ``reopen`` is the id of the section that explains it."""

    id: str
    text: Both
    choices: tuple[Choice, ...]
    reopen: str
    cite: str


@dataclass(frozen=True, slots=True)
class Skill:
    """Something a reader can judge about themselves."""

    id: str
    text: Both


@dataclass(frozen=True, slots=True)
class Practice:
    """Tasks, questions and skills."""

    tasks: tuple[Task, ...]
    questions: tuple[Question, ...]
    skills: tuple[Skill, ...]


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph in both languages."""

    text: Both


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading inside a chapter."""

    text: Both
    id: str


@dataclass(frozen=True, slots=True)
class Pair:
    """A block of the ordinary page, in English and in Chinese."""

    en: Block
    zh: Block


@dataclass(frozen=True, slots=True)
class Slider:
    """Where the temperature can be moved over one query's scores; the figure says it without moving."""

    figure: Figure


Part = Paragraph | Heading | Pair | Numbers | Source | Path | Wrong | Figure | Plot | Slider | Practice


@dataclass(frozen=True, slots=True)
class Chapter:
    """A part of the report with an entry in its table of contents."""

    id: str
    heading: Both
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """The whole report: ``language`` is the one shown first."""

    language: str
    title: Both
    verdict: Both
    cite: str
    chapters: tuple[Chapter, ...]
