"""The terminal pages as they are, kept in ``golden/`` to be read and to be compared.

The pages come from saved traces of the shipped checkpoint (``golden/*.safetensors``), so that the last bits of one
machine's arithmetic never turn a digit on another. After a change that is meant to change pages, look at them and renew
them; after one that is meant to change what a trace holds, renew the traces too, which runs the model:

    TRACER_RENEW=pages  pytest tests/render/terminal/test_golden.py
    TRACER_RENEW=traces pytest tests/render/terminal/test_golden.py
"""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tracer.page.head import head_page
from tracer.page.overview import overview_page
from tracer.page.record import Page
from tracer.records import LayerTrace
from tracer.render.terminal.render import render
from tracer.render.terminal.screen import Screen
from tracer.render.text import default_window
from tracer.result import look_at
from tracer.saved.read import load
from tracer.saved.write import save

GOLDEN = Path(__file__).parent / "golden"
RENEW = os.environ.get("TRACER_RENEW")
WIDTHS, LANGUAGES = (40, 80, 200), ("en", "zh")


@cache
def layer(number: int) -> LayerTrace:
    """Return the saved trace of a layer of the shipped checkpoint, made anew where asked for."""
    file = GOLDEN / f"layer-{number}.safetensors"
    if RENEW == "traces":
        import tracer

        save(tracer.trace(layer=number), file)
    found = load(file)
    if any(not capture.site.file.is_absolute() for capture in found.captures.values()):
        pytest.skip(f"the pages quote transformers {found.versions['transformers']}, which is not installed here")
    return found


def head(language: str, width: int) -> Page:
    return head_page(look_at(layer(0), 2), language, size=default_window(width))


def query(language: str, width: int) -> Page:
    return head_page(look_at(layer(1), 5), language, query=14, size=default_window(width))


def overview(language: str, width: int) -> Page:
    return overview_page([layer(0), layer(1)], language)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("page", [head, query, overview])
def test_the_page_is_the_golden_one(page: Callable[[str, int], Page], language: str, width: int) -> None:
    text = render(page(language, width), Screen(width))
    file = GOLDEN / f"{page.__name__}-{language}-{width}.txt"
    if RENEW:
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


def test_the_readme_shows_how_the_page_of_a_head_begins() -> None:
    """Line by line, and where something is left out of the page an ellipsis says so."""
    readme = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    shown = readme.partition("## What you see\n\n```text\n")[2].partition("\n```\n")[0]
    page = (GOLDEN / "head-en-80.txt").read_text(encoding="utf-8")
    first, *parts = shown.split("\n …")
    assert page.startswith(first)
    assert len(first) > 1000
    assert all(part in page for part in parts)
