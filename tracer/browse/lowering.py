"""Sections of a page as Textual content: each role its own look, nothing by colour alone.

Must not know: what is said.
"""

from collections.abc import Iterable

from textual.content import Content
from textual.style import Style

from tracer.page.record import Block, CodeLine, Excerpt, Facts, Line, Prose, Role, Row, Section, Table

LOOKS = {
    Role.STRONG: "bold",
    Role.MUTED: "#9a9a9a",
    Role.LABEL: "#9a9a9a",
    Role.NUMBER: "#7fd1e8",
    Role.CODE: "#e6c07b",
    Role.FORMULA: "bold #d7a3f0",
    Role.PLACE: "underline #8fb8ff",
    Role.PASS: "bold #7ec97e",
    Role.FAIL: "bold #ff7b72",
    Role.UNTESTED: "bold #e0b050",
    Role.WARNING: "bold #e0b050",
}
_HEADING = "bold #ffffff on #303a4a"


def lowered(sections: Iterable[Section]) -> Content:
    """Return the sections below each other."""
    parts: list[Content] = []
    for section in sections:
        if section.heading:
            parts.append(Content.assemble(" ", _line(section.heading), " ").stylize_before(Style.parse(_HEADING)))
        for block in section.blocks:
            parts += _block(block)
        parts.append(Content(""))
    return Content("\n").join(parts[:-1])


def _line(text: Line) -> Content:
    return Content.assemble(*((piece.text, LOOKS.get(piece.role, "")) for piece in text))


def _block(block: Block) -> list[Content]:
    if isinstance(block, Prose):
        return [_line(block.text)]
    if isinstance(block, Facts):
        return [part for name, text in block.rows for part in _fact(name, text)]
    if isinstance(block, Table):
        return [row for each in block.rows for row in _row(block, each)]
    if isinstance(block, Excerpt):
        return [_line(block.place), *(_code(each) for each in block.lines)]
    raise TypeError(f"a browsed page has no {type(block).__name__}")


def _fact(name: Line, text: Line) -> list[Content]:
    if any(piece.role is Role.FORMULA for piece in name):  # a formula stands on a line of its own
        return [_line(name), _line(text)]
    return [Content.assemble(_line(name), "  ", _line(text))]


def _row(table: Table, row: Row) -> list[Content]:
    """Return a row of a table, a line for each cell behind its column's title: a pane is too narrow for columns."""
    if row.heading:
        return [_line(row.heading)]
    return [
        Content.assemble((f"{column.title}  ", LOOKS[Role.LABEL]), _line(cell))
        for column, cell in zip(table.columns, row.cells, strict=True)
        if cell
    ]


def _code(line: CodeLine) -> Content:
    return Content.assemble((f"{line.number:>5} ", LOOKS[Role.MUTED]), (line.text, LOOKS[Role.CODE]))
