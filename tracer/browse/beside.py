"""The pane that shows the same place in another framework.

Must not know: how a reader came there.
"""

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

from tracer.browse.books import Book, Spot
from tracer.browse.elsewhere import same_place
from tracer.browse.source_view import SourceView
from tracer.texts import message


class Beside(Vertical):
    """A title and a file."""

    def compose(self) -> ComposeResult:
        """Lay the pane out."""
        yield Static(id="beside-title", classes="title", markup=False)
        yield SourceView("beside")

    def show(self, book: Book | None, spot: Spot | None, language: str) -> None:
        """Show in ``book`` what ``spot`` is there, or that there is no such place; without a book, nothing at all."""
        title, view = self.query_one("#beside-title", Static), self.query_one("#beside", SourceView)
        found = same_place(spot, book) if spot is not None and book is not None else None
        self.display, view.display = book is not None, found is not None
        if book is None:
            return
        name = book.library.release.name
        if found is None:
            title.update(f" {message('browse.no_such_place', framework=name).text(language)} ")
            return
        title.update(f" {name}  {found.place}  {message('browse.go_there').text(language)} ")
        view.show(book.files[found.file], book.spots(found.file))
        view.point(found)
        view.place(found.span.line, found.span.column)
        view.call_after_refresh(view.place, found.span.line, found.span.column)  # once it knows its size
