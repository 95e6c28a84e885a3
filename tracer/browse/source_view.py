"""A file of source on the screen: true line numbers, known expressions marked, a cursor that keys and mouse move.

Must not know: what is known of an expression.
"""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text as Drawn
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tracer.browse.books import Spot
from tracer.browse.colours import Coloured, coloured
from tracer.source.files import SourceFile

_GUTTER = 8  # mark, number, line
_NUMBER = Style(color="#7a7a7a")
_HERE = Style(color="#ffffff", bold=True)
_LINE = Style(bgcolor="#232a35")
_KNOWN = Style(underline=True)
_CURRENT = Style(underline=True, bold=True, bgcolor="#4a3f16")
_CURSOR = Style(reverse=True)


class SourceView(ScrollView, can_focus=True):
    """One file. Posts ``Moved`` whenever the cursor has been moved by its reader."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1,0)", show=False),
        Binding("down", "move(1,0)", show=False),
        Binding("left", "move(0,-1)", show=False),
        Binding("right", "move(0,1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "edge(False)", show=False),
        Binding("end", "edge(True)", show=False),
        Binding("enter", "enter", show=False),
    ]

    class Told(Message):
        """Something happened in ``view``."""

        def __init__(self, view: "SourceView") -> None:
            super().__init__()
            self.view = view

        @property
        def control(self) -> "SourceView":
            """The view, for handlers that name it."""
            return self.view

    class Moved(Told):
        """The cursor stands elsewhere now."""

    class Entered(Told):
        """The reader wants to go on from where the cursor stands."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self.line, self.column = 1, 0
        self.source: SourceFile | None = None
        self.current: Spot | None = None
        self._spots: Sequence[Spot] = ()
        self._lines: tuple[str, ...] = ()
        self._colours: tuple[Coloured, ...] = ()

    # ---------------------------------------------------------------------------------------------- showing

    def show(self, source: SourceFile, spots: Sequence[Spot]) -> None:
        """Show ``source`` with ``spots`` marked; the cursor stays where it is if the file does."""
        if self.source is not source:
            self.source, self.line, self.column = source, 1, 0
            self._lines = tuple(map(_inert, source.text.lines(1, len(source.text.starts))))
            widest = max(map(cell_len, self._lines), default=0)
            self.virtual_size = Size(_GUTTER + widest + 1, len(self._lines))
            self._colours = ()
            self.run_worker(partial(self._colour, source), thread=True, exclusive=True)
        self._spots = spots
        self.refresh()

    def _colour(self, source: SourceFile) -> None:
        """Colour the lines: a long file takes a second, and is readable before."""
        found = coloured(source.source)
        self.app.call_from_thread(self._coloured, source, found)

    def _coloured(self, source: SourceFile, found: tuple[Coloured, ...]) -> None:
        if source is self.source:
            self._colours = found
            self.refresh()

    def point(self, current: Spot | None) -> None:
        """Mark ``current`` as the expression that is spoken of."""
        self.current = current
        self.refresh()

    def place(self, line: int, column: int) -> None:
        """Put the cursor on a line (from 1) and column (from 0) and bring it into sight, without posting ``Moved``."""
        if self._lines:
            self.line = min(max(line, 1), len(self._lines))
            self.column = min(max(column, 0), max(len(self._lines[self.line - 1]) - 1, 0))
            self._reveal()
            self.refresh()

    def _reveal(self) -> None:
        before = cell_len(self._lines[self.line - 1][: self.column])
        room = min(3, max(self.size.height // 4, 0))
        region = Region(max(before - 4, 0), max(self.line - 1 - room, 0), _GUTTER + 12, 2 * room + 1)
        if before + _GUTTER + 12 <= self.size.width:
            region = Region(0, region.y, _GUTTER + 12, region.height)
        self.scroll_to_region(region, animate=False, force=True)

    def render_line(self, y: int) -> Strip:
        """Return line ``y`` of the screen."""
        number = y + self.scroll_offset.y + 1
        width = self.size.width
        if number > len(self._lines):
            return Strip.blank(width, self.rich_style)
        here = number == self.line
        drawn = Drawn(end="", no_wrap=True)
        drawn.append(self._gutter(number), _HERE if here else _NUMBER)
        drawn.append_text(self._code(number, here))
        strip = Strip(drawn.render(self.app.console))
        first = self.scroll_offset.x
        gutter = strip.crop(0, _GUTTER)
        if first and self._lines[number - 1].strip():  # what begins further left is out of sight
            gutter = Strip.join([strip.crop(0, _GUTTER - 1), Strip([Segment("‹", _HERE)])])
        code = strip.crop(_GUTTER + first, first + width).extend_cell_length(max(width - _GUTTER, 0))
        return Strip.join([gutter, code]).apply_style(self.rich_style + _LINE if here else self.rich_style)

    def _gutter(self, number: int) -> str:
        starting = [spot for spot in self._spots if spot.span.line == number]
        mark = "●" if any(spot.named for spot in starting) else "·" if starting else " "
        return f"{mark}{number:>5} │"[:_GUTTER].ljust(_GUTTER)

    def _code(self, number: int, here: bool) -> Drawn:
        content = self._lines[number - 1]
        drawn = Drawn(f"{content} ", end="", no_wrap=True)
        for start, end, colour in self._colours[number - 1] if self._colours else ():
            drawn.stylize(colour, start, end)
        current = self.current
        for spot in self._spots:
            self._mark(drawn, number, content, spot, _KNOWN)
        if current is not None:
            self._mark(drawn, number, content, current, _CURRENT)
        if here and self.has_focus:
            drawn.stylize(_CURSOR, self.column, self.column + 1)
        return drawn

    @staticmethod
    def _mark(drawn: Drawn, number: int, content: str, spot: Spot, look: Style) -> None:
        span = spot.span
        if span.line <= number <= span.end_line:
            start = span.column if number == span.line else len(content) - len(content.lstrip())
            end = span.end_column if number == span.end_line else len(content.rstrip())
            drawn.stylize(look, start, end)

    # ----------------------------------------------------------------------------------------------- moving

    def _go(self, line: int, column: int) -> None:
        self.place(line, column)
        self.post_message(self.Moved(self))

    def action_move(self, lines: int, columns: int) -> None:
        """Move the cursor."""
        self._go(self.line + lines, self.column + columns)

    def action_page(self, pages: int) -> None:
        """Move the cursor by screens."""
        self._go(self.line + pages * max(self.size.height - 2, 1), self.column)

    def action_edge(self, last: bool) -> None:
        """Move the cursor to the first or last line."""
        self._go(len(self._lines) if last else 1, 0)

    def action_enter(self) -> None:
        """Tell that the reader wants to go on from here."""
        self.post_message(self.Entered(self))

    def action_mark(self, forward: bool) -> None:
        """Move the cursor to the next or previous marked expression."""
        here = (self.line, self.column)
        starts = sorted({(spot.span.line, spot.span.column) for spot in self._spots})
        after = [start for start in starts if start > here] if forward else [s for s in starts if s < here][::-1]
        if after:
            self._go(*after[0])

    def on_click(self, event: events.Click) -> None:
        """Put the cursor where the mouse was pressed."""
        offset = event.get_content_offset(self)
        if offset is None or not self._lines:
            return
        line = offset.y + self.scroll_offset.y + 1
        if line <= len(self._lines):
            self._go(line, _character(self._lines[line - 1], offset.x - _GUTTER + self.scroll_offset.x))


def _inert(line: str) -> str:
    """Return a line with every character that would act on the terminal replaced, one for one: columns stay true."""
    return line if line.isprintable() else "".join(c if c.isprintable() else " " if c == "\t" else "�" for c in line)


def _character(line: str, cell: int) -> int:
    """Return which character of ``line`` covers a cell."""
    passed = 0
    for index, character in enumerate(line):
        passed += cell_len(character)
        if cell < passed:
            return index
    return max(len(line) - 1, 0)
