"""The application: a tree, the source, what is said about the expression under the cursor, another framework beside.

Must not know: how places and ways are found, what is said.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar

from textual import on
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Static, Tree

from tracer.browse.beside import Beside
from tracer.browse.books import Book, Shelf, Spot
from tracer.browse.citation import citation
from tracer.browse.contents import ContentsTree, Entry
from tracer.browse.details import details
from tracer.browse.elsewhere import neighbour, on_way, values_to_follow
from tracer.browse.keys import KeysBar, bindings, every_key
from tracer.browse.lowering import lowered
from tracer.browse.search import Hit, search
from tracer.browse.search_screen import SearchScreen
from tracer.browse.source_view import SourceView
from tracer.errors import TracerError
from tracer.texts import LANGUAGES, message

_FIRST_PLACE = "project"
_INTERRUPTED = 130


class BrowseApp(App[None]):
    """``trace browse``: what stands on ``shelf``, in ``language``."""

    CSS_PATH = "browse.tcss"
    ENABLE_COMMAND_PALETTE = False  # its texts are in one language only
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (150, "-wide"), (200, "-broad")]  # noqa: RUF012 (an instance variable to mypy)
    BINDINGS: ClassVar[list[BindingType]] = bindings()

    def __init__(self, shelf: Shelf, language: str = "en") -> None:
        super().__init__()
        self.language = language
        self.shelf = shelf
        self.spot: Spot | None = None
        self.book: Book | None = None
        self.fault: BaseException | None = None  # what ended it, where that was no wish of its reader
        self._beside: str | None = None
        self._value: str | None = None  # which way is being walked
        self._visited: list[Spot] = []

    def compose(self) -> ComposeResult:
        """Lay the panes out."""
        with Horizontal(id="body"):
            yield ContentsTree(self.shelf, self.language)
            with Vertical(id="work"):
                with Vertical(id="sources"):
                    with Vertical(classes="pane"):
                        yield Static(id="title", classes="title", markup=False)
                        yield SourceView("source")
                    yield Beside(id="other", classes="pane")
                with VerticalScroll(id="details"):
                    yield Static(id="said", markup=False)
        yield KeysBar(id="keys", markup=False)

    def on_mount(self) -> None:
        """Show the first file at once; its places follow when they are found."""
        self.title = "trace browse"
        self.query_one(KeysBar).speak(self.language)
        tree = self.query_one(ContentsTree)
        tree.fill()
        self._show_beside()
        error = self.shelf.missing(self.shelf.first)
        if error is not None:
            self._trouble(error)
            tree.focus()
            return
        book = self.shelf.book(self.shelf.first)
        self._open_file(book, next(iter(book.files)))
        self.query_one("#source").focus()
        self._say_status("waiting")
        self._find(book, lambda: self._begin(book))

    def _begin(self, book: Book) -> None:
        self.query_one(ContentsTree).open(book.framework)
        first = book.place(_FIRST_PLACE)
        if first is not None:
            self._go(first)

    def _fatal_error(self) -> None:
        """End without the traceback that Textual would print: whoever ran the application tells of ``fault``."""
        self.fault = self._exception
        self._close_messages_no_wait()

    # --------------------------------------------------------------------------------------- work in threads

    def _find(self, book: Book, then: Callable[[], None]) -> None:
        """Find the places of ``book`` unless they are known, then go on with ``then``."""
        if self.query_one(ContentsTree).has(book.framework):
            then()
            return

        def work() -> None:
            try:
                book.find_places()
            except TracerError as error:
                self.call_from_thread(self._unplaced, book, error)
            else:
                self.call_from_thread(self._placed, book, then)

        self.run_worker(work, thread=True, group=f"places-{book.framework}", exclusive=True)

    def _placed(self, book: Book, then: Callable[[], None]) -> None:
        self.query_one(ContentsTree).put(book)
        self._marks(book)
        then()

    def _unplaced(self, book: Book, error: TracerError) -> None:
        self.query_one(ContentsTree).put(book)
        self._trouble(error)

    def _follow(
        self, book: Book, values: tuple[str, ...], done: Callable[[], bool], otherwise: Callable[[], None]
    ) -> None:
        """Follow ``values`` one by one until ``done`` says that it is enough, ``otherwise`` if it never does."""

        def work() -> None:
            for value in values:
                self.call_from_thread(self._say_status, "following", value=value)
                try:
                    book.follow(value)
                except TracerError as error:
                    self.call_from_thread(self._trouble, error)
                    return
                if self.call_from_thread(self._followed, book, value, done):
                    return
            self.call_from_thread(otherwise)

        self.run_worker(work, thread=True, group="ways", exclusive=True)

    def _followed(self, book: Book, value: str, done: Callable[[], bool]) -> bool:
        self.query_one(ContentsTree).put_way(book, value)
        self._marks(book)
        return done()

    # ------------------------------------------------------------------------------------------------ showing

    def _open_file(self, book: Book, file: str) -> None:
        self.book = book
        self.query_one("#source", SourceView).show(book.files[file], book.spots(file))
        title = f" {book.library.release.name}  {file} "
        self.query_one("#title", Static).update(title)

    def _marks(self, book: Book) -> None:
        """Show what has been found in the file that is on the screen."""
        view = self.query_one("#source", SourceView)
        if book is self.book and view.source is not None:
            view.show(view.source, book.spots(view.source.member))
            known = book.at(view.source.member, self.spot.span) if self.spot is not None else None
            if known is not None:
                self._choose(known)
            else:
                self._under_cursor(view)

    def _go(self, spot: Spot, keep: bool = True) -> None:
        """Go to ``spot``, remembering where the reader was."""
        if keep and self.spot is not None and self.spot != spot:
            self._visited.append(self.spot)
        view = self.query_one("#source", SourceView)
        self._open_file(self.shelf.book(spot.framework), spot.file)
        view.place(spot.span.line, spot.span.column)
        view.call_after_refresh(view.place, spot.span.line, spot.span.column)  # once it knows its size
        self._choose(spot)
        self.call_after_refresh(self.query_one(ContentsTree).follow, spot)  # once the tree has its lines

    def _choose(self, spot: Spot | None) -> None:
        self.spot = spot
        self.query_one("#source", SourceView).point(spot)
        self._refresh()

    def _refresh(self) -> None:
        """Say what there is to say about the expression that is chosen."""
        said, spot, book = self.query_one("#said", Static), self.spot, self.book
        if spot is None or book is None:
            said.update(message("browse.nothing").text(self.language))
        else:
            others = [other for other in self.shelf.books() if other is not book and other.placed]
            said.update(lowered(details(book, spot, self.language, others)))
        self.query_one("#details").scroll_home(animate=False)
        self._show_beside()

    def _show_beside(self) -> None:
        book = self.shelf.book(self._beside) if self._beside is not None else None
        self.query_one(Beside).show(self.book, self.spot, book, self.language)
        if book is not None and self.book is not None and self.spot is not None:
            left = values_to_follow(self.book, self.spot, book)
            if left:  # the step of the same value's way is known once that way has been followed there, too
                self._follow_beside(book, left, self.spot)

    def _follow_beside(self, book: Book, values: tuple[str, ...], spot: Spot) -> None:
        def work() -> None:
            for value in values:
                with suppress(TracerError):  # without a way, the place that holds it is shown
                    book.follow(value)
                self.call_from_thread(self._followed_beside, book, value, spot)

        self.run_worker(work, thread=True, group="beside", exclusive=True)

    def _followed_beside(self, book: Book, value: str, spot: Spot) -> None:
        self.query_one(ContentsTree).put_way(book, value)
        if self.spot == spot and value in book.ways:
            self._refresh()

    def _say_status(self, name: str, **values: object) -> None:
        self.query_one("#said", Static).update(self._text(name, **values))

    def _trouble(self, error: TracerError) -> None:
        self.query_one("#said", Static).update(error.text(self.language))

    def _text(self, name: str, **values: object) -> str:
        return message(f"browse.{name}", **values).text(self.language)

    # ------------------------------------------------------------------------------------------ what readers do

    @on(SourceView.Moved, "#source")
    def _moved(self, event: SourceView.Moved) -> None:
        self._under_cursor(event.view)

    @on(SourceView.Entered, "#beside")
    def _entered(self, event: SourceView.Entered) -> None:
        """Go over to the framework beside, to where its cursor stands."""
        view = event.view
        book = self.shelf.book(self._beside) if self._beside is not None else None
        spot = book.under(view.source.member, view.line, view.column) if book is not None and view.source else None
        if spot is not None:
            self._beside = self.book.framework if self.book is not None else None  # the two change places
            self._go(spot)
            self.query_one("#source").focus()

    def _under_cursor(self, view: SourceView) -> None:
        if self.book is not None and view.source is not None:
            self._choose(self.book.under(view.source.member, view.line, view.column))

    @on(Tree.NodeSelected)
    def _selected(self, event: Tree.NodeSelected[Entry]) -> None:
        entry = event.node.data
        if entry is None:
            return
        error = self.shelf.missing(entry.framework)
        if error is not None:
            self._trouble(error)
        elif entry.spot is not None:
            self._value = entry.value or self._value
            self._go(entry.spot)
        elif entry.kind == "file":
            self._open_file(self.shelf.book(entry.framework), entry.file)
            self._under_cursor(self.query_one("#source", SourceView))

    @on(Tree.NodeExpanded)
    def _expanded(self, event: Tree.NodeExpanded[Entry]) -> None:
        entry = event.node.data
        if entry is None or self.shelf.missing(entry.framework) is not None:
            return
        book = self.shelf.book(entry.framework)
        if entry.kind == "framework":
            self._find(book, self._refresh)
        elif entry.kind == "way" and entry.value not in book.ways:
            self._follow(book, (entry.value,), lambda: False, self._refresh)

    def action_help_quit(self) -> None:
        """End, as Ctrl-C does everywhere (Textual would only say so, in English)."""
        self.exit(return_code=_INTERRUPTED)

    def action_keys(self) -> None:
        """Say what every key does, also those that have no room in the bar."""
        self.notify(every_key(self.language), title=self._text("keys_title"), timeout=30, markup=False)

    def action_hop(self, forward: bool) -> None:
        """Go to the next expression on a value's way, towards the kernel or its definition."""
        book, spot = self.book, self.spot
        if book is None or spot is None or self._hop(book, spot, forward):
            return
        left = tuple(value for value in book.values if value not in book.ways)
        if left:
            self._follow(book, left, lambda: self._moved_on(spot) or self._hop(book, spot, forward), self._on_no_way)
        else:
            self._on_no_way()

    def _moved_on(self, spot: Spot) -> bool:
        """Whether the reader has gone elsewhere meanwhile: no jump then."""
        return self.spot is None or (self.spot.file, self.spot.span) != (spot.file, spot.span)

    def _on_no_way(self) -> None:
        self._refresh()
        self.notify(self._text("on_no_way"))

    def _hop(self, book: Book, spot: Spot, forward: bool) -> bool:
        value = on_way(book, spot, self._value)
        if value is None:
            return False
        self._value = value
        following = neighbour(book, spot, value, forward)
        if following is None:
            self.notify(self._text("way_ends" if forward else "way_begins", value=value))
            self._refresh()
        else:
            self._go(following)
        return True

    def action_mark(self, forward: bool) -> None:
        """Go to the next or previous marked expression of the file."""
        self.query_one("#source", SourceView).action_mark(forward)

    def action_beside(self) -> None:
        """Show the same place in the next of the other frameworks that are here; after the last, none."""
        names = [book.framework for book in self.shelf.books() if book is not self.book]
        if not names:
            self.notify(self._text("no_others"))
            return
        at = names.index(self._beside) + 1 if self._beside in names else 0
        self._beside = names[at] if at < len(names) else None
        if self._beside is None:
            self._show_beside()
        else:
            self._find(self.shelf.book(self._beside), self._refresh)

    def action_search(self) -> None:
        """Open the search window."""

        def find(words: str) -> tuple[Hit, ...]:
            books = self.shelf.books()
            for book in books:
                with suppress(TracerError):  # a framework whose places cannot be found still has its lines
                    book.find_places()
            return search(books, words)

        self.push_screen(SearchScreen(find, self.language), self._picked)

    def _picked(self, hit: Hit | None) -> None:
        if hit is None:
            return
        book = self.shelf.book(hit.spot.framework)
        self._find(book, self._refresh)
        self._go(hit.spot)
        if not hit.name:  # a line of source: what stands there, and not the whole line
            self._under_cursor(self.query_one("#source", SourceView))
        self.query_one("#source").focus()

    def action_cite(self) -> None:
        """Copy the exact place of the chosen expression, and show what was copied."""
        if self.book is not None and self.spot is not None:
            text = citation(self.book, self.spot, self.language)
            self.copy_to_clipboard(text)
            self.notify(text, title=self._text("copied"), timeout=12, markup=False)

    def action_undo(self) -> None:
        """Go back to where the reader was before the last jump."""
        if self._visited:
            self._go(self._visited.pop(), keep=False)

    def action_tree(self) -> None:
        """Hide or show the tree."""
        tree = self.query_one(ContentsTree)
        tree.display = not tree.display
        if not tree.display:
            self.query_one("#source").focus()

    def action_language(self) -> None:
        """Speak the other language."""
        self.language = LANGUAGES[(LANGUAGES.index(self.language) + 1) % len(LANGUAGES)]
        self.query_one(ContentsTree).speak(self.language)
        self.query_one(KeysBar).speak(self.language)
        self._refresh()
