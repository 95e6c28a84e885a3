"""The pane that shows the same place in another framework.

Must not know: how a reader came there.
"""

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

from tracer.browse.books import Book, Spot
from tracer.browse.details import correspondence
from tracer.browse.elsewhere import counterpart
from tracer.browse.source_view import SourceView
from tracer.texts import message


class Beside(Vertical):
    """A title and a file."""

    def compose(self) -> ComposeResult:
        """Lay the pane out."""
        yield Static(id="beside-title", classes="title", markup=False)
        yield SourceView("beside")

    def show(self, own: Book | None, spot: Spot | None, book: Book | None, language: str) -> None:
        """Show in ``book`` what ``spot`` of ``own`` is there, or that nothing is; without a book, nothing at all."""
        title, view = self.query_one("#beside-title", Static), self.query_one("#beside", SourceView)
        same = counterpart(own, spot, book) if own is not None and spot is not None and book is not None else None
        found = same.spot if same is not None else None
        self.display, view.display = book is not None, found is not None
        if book is None:
            return
        name = book.library.release.name
        if same is None or found is None:
            title.update(f" {message('browse.no_such_place', framework=name).text(language)} ")
            return
        how = correspondence(book, same, language)
        title.update(f" {name}  {how}  {message('browse.go_there').text(language)} ")
        view.show(book.files[found.file], book.spots(found.file))
        view.point(found)
        view.place(found.span.line, found.span.column)
        view.call_after_refresh(view.place, found.span.line, found.span.column)  # once it knows its size
