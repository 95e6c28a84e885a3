"""The search window: a line to type in, what is found below it.

Must not know: how things are found.
"""

from collections.abc import Callable
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from tracer.browse.search import MOST, Hit
from tracer.texts import message


class SearchScreen(ModalScreen[Hit | None]):
    """Ends with the hit that was picked, or None. ``find`` looks things up; it is called in a thread of its own."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", show=False),
        Binding("down", "step(1)", show=False, priority=True),
        Binding("up", "step(-1)", show=False, priority=True),
    ]

    def __init__(self, find: Callable[[str], tuple[Hit, ...]], language: str) -> None:
        super().__init__()
        self._find = find
        self._language = language
        self._hits: tuple[Hit, ...] = ()

    def compose(self) -> ComposeResult:
        """Lay the window out."""
        with Vertical(id="search"):
            yield Input(placeholder=self._say("search_hint"), id="words")
            yield Static(self._say("search_keys"), id="count")
            yield OptionList(id="hits", markup=False)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        self._look_up(event.value)

    @work(thread=True, exclusive=True)
    def _look_up(self, words: str) -> None:
        hits = self._find(words)
        self.app.call_from_thread(self._found, words, hits)

    def _found(self, words: str, hits: tuple[Hit, ...]) -> None:
        if not self.is_attached or self.query_one(Input).value != words:
            return  # the reader has typed on
        self._hits = hits
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options([Option(_row(hit)) for hit in hits])
        options.highlighted = 0 if hits else None
        name = "search_keys" if not words.strip() else "search_most" if len(hits) == MOST else "search_count"
        self.query_one("#count", Static).update(self._say(name, count=len(hits)))

    def action_step(self, by: int) -> None:
        """Move in the list while typing goes on."""
        options = self.query_one(OptionList)
        if self._hits:
            options.highlighted = min(max((options.highlighted or 0) + by, 0), len(self._hits) - 1)

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self._pick(self.query_one(OptionList).highlighted)

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self._pick(event.option_index)

    def _pick(self, index: int | None) -> None:
        if index is not None and index < len(self._hits):
            self.dismiss(self._hits[index])

    def action_leave(self) -> None:
        """Close without a choice."""
        self.dismiss(None)

    def _say(self, name: str, **values: object) -> str:
        return message(f"browse.{name}", **values).text(self._language)


def _row(hit: Hit) -> Content:
    name = (f"{hit.name}  ", "bold") if hit.name else ("", "")
    return Content.assemble(name, (f"{hit.where}  ", "#8fb8ff"), (hit.text, "#e6c07b"))
