"""Search: in the names, formulas and explanations of places, on the ways followed so far, and in the source itself.

Must not know: screens.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from tracer.browse.books import Book, Spot
from tracer.browse.details import formula_names, shortened
from tracer.page.visible import visible
from tracer.reading import catalogue
from tracer.records import Span

MOST = 200


@dataclass(frozen=True)
class Hit:
    """Something found: where, and the line that says so. ``name`` is empty for a line of source."""

    spot: Spot
    name: str
    where: str
    text: str


def search(books: Iterable[Book], words: str) -> tuple[Hit, ...]:
    """Return what holds all of ``words``, upper or lower case, at most MOST: places of that name or code first, then
    places whose explanation has the words, then lines of source."""
    wanted = words.casefold().split()
    if not wanted:
        return ()
    known = tuple(books)
    places = [place for book in known for place in _places(book)]
    own = [hit for hit, _ in places if _all(wanted, f"{hit.name}\n{hit.spot.code}".casefold())]
    hits = [*own, *(hit for hit, said in places if hit not in own and _all(wanted, said))]
    lines = (hit for book in known for hit, said in _lines(book) if _all(wanted, said))
    return (*hits[:MOST], *islice(lines, max(MOST - len(hits), 0)))


def _all(words: list[str], said: str) -> bool:
    return all(word in said for word in words)


def _places(book: Book) -> Iterator[tuple[Hit, str]]:
    for file in book.files:
        for spot in book.spots(file):
            name = spot.place or spot.capture or ""
            if name:
                yield Hit(spot, name, _where(book, spot), visible(shortened(spot.code))), _said(spot, name)


def _said(spot: Spot, name: str) -> str:
    """Return all that is written about a place, in every language, for comparing."""
    known = catalogue.formulas()
    said = [name, spot.code, spot.framework]
    for each in formula_names(spot):
        said += [known[each]["formula"], known[each]["en"], known[each]["zh"]]
    for lesson in catalogue.lessons_at(spot.framework, spot.place) if spot.place else ():
        said += [*lesson.covers, *(text for texts in lesson.texts.values() for text in texts.values())]
    return "\n".join(said).casefold()


def _lines(book: Book) -> Iterator[tuple[Hit, str]]:
    for file, source in book.files.items():
        for number, content in enumerate(source.text.lines(1, len(source.text.starts)), 1):
            if content.strip():
                start, end = len(content) - len(content.lstrip()), len(content.rstrip())
                spot = Spot(book.framework, file, Span(number, start, number, end), "", content.strip())
                yield Hit(spot, "", _where(book, spot), visible(shortened(content, 90))), content.casefold()


def _where(book: Book, spot: Spot) -> str:
    return f"{book.framework}  {spot.file.rsplit('/', 1)[-1]}:{spot.span.line}"
