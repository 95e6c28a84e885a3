"""The addresses that the places of a page link to, to be read where a link cannot be clicked: in a pipe, in a file.

Must not know: output formats.
"""

from collections.abc import Iterator

from tracer.page.record import Excerpt, Facts, Line, Page, Prose, Table


def addresses(page: Page) -> tuple[tuple[str, str], ...]:
    """Return every place of ``page`` that has an upstream address, with it, in the order of the page, each once."""
    found: dict[str, str] = {}
    for text in _lines(page):
        for piece in text:
            if piece.link is not None and piece.link.url is not None:
                found.setdefault(piece.link.url, piece.text)
    return tuple((place, url) for url, place in found.items())


def _lines(page: Page) -> Iterator[Line]:
    for section in page.sections:
        yield section.heading
        for block in section.blocks:
            if isinstance(block, Excerpt):
                yield block.place
            elif isinstance(block, Prose):
                yield block.text
            elif isinstance(block, Facts):
                yield from (cell for row in block.rows for cell in row)
            elif isinstance(block, Table):
                yield from (cell for row in block.rows for cell in (row.heading, *row.cells))
