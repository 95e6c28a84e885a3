"""Every page is right on every screen: no line too wide, nothing but text in a pipe, no letter the encoding lacks."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.color import ColorSystem

from tests.invented_trace import invented, site
from tracer.page.head import head_page
from tracer.page.overview import overview_page
from tracer.page.record import Page
from tracer.render.terminal.render import render
from tracer.render.terminal.screen import Screen, screen
from tracer.result import look_at

SGR = r"\x1b\[[0-9;]*m"
LINK = r"\x1b\]8;;[!-~]*\x1b\\"


@cache
def pages(language: str) -> tuple[Page, ...]:
    """Return a head, a query, an overview and a page of a failed run."""
    layer = invented(20)
    failed = replace(layer, effects=replace(layer.effects, untraced_same=False))
    return (
        head_page(look_at(layer, 2), language, size=12),
        head_page(look_at(layer, 2), language, query=15, size=9),
        overview_page([layer], language),
        head_page(look_at(failed, 1), language),
    )


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("width", [20, 33, 40, 60, 80, 100, 132, 200, 300])
def test_no_line_is_wider_than_the_screen(width: int, language: str) -> None:
    for page in pages(language):
        for line in render(page, Screen(width)).splitlines():
            assert cell_len(line) <= width, line


@pytest.mark.parametrize("language", ["en", "zh"])
def test_without_colours_there_is_text_and_nothing_else(language: str) -> None:
    for page in pages(language):
        text = render(page, Screen())
        assert all(letter.isprintable() or letter == "\n" for letter in text)
        assert not any(line.endswith(" ") for line in text.splitlines())
        assert text.endswith("\n")


def test_a_narrow_screen_says_all_that_a_wide_one_says_of_the_checks_and_the_call() -> None:
    (page, *_) = pages("en")
    narrow, wide = ("".join(render(page, Screen(width)).split()) for width in (40, 80))
    for said in ("softmax_scale", "0.3535533905932738", "self.head_dim**-0.5", "sameobject", "expectedthesamebits"):
        assert said in narrow
        assert said in wide


@pytest.mark.parametrize("language", ["en", "zh"])
def test_with_colours_only_colours_and_links_are_added(language: str) -> None:
    for page in pages(language):
        coloured = render(page, Screen(80, ColorSystem.EIGHT_BIT))
        assert "\x1b[" in coloured
        plain = re.sub(SGR, "", coloured)
        assert "\x1b" not in plain
        assert [line.rstrip() for line in plain.splitlines()] == render(page, Screen(80)).splitlines()
        linked = render(page, Screen(80, ColorSystem.EIGHT_BIT, links=True))
        assert "\x1b" not in re.sub(f"{SGR}|{LINK}", "", linked)


def test_colours_never_run_over_the_end_of_a_line() -> None:
    for line in render(pages("en")[0], Screen(80, ColorSystem.EIGHT_BIT)).splitlines():
        codes = re.findall(SGR, line)
        assert not codes or codes[-1] == "\x1b[0m"


def test_places_lead_to_the_file_here_and_to_the_lines_upstream() -> None:
    text = render(pages("en")[0], Screen(80, ColorSystem.EIGHT_BIT, links=True))
    path = site(1, "").file.as_uri()
    upstream = site(245, "").permalink
    assert f"\x1b]8;;{path}#L245\x1b\\" in text
    assert f"\x1b]8;;{upstream}\x1b\\" in text


def test_a_hostile_address_or_token_cannot_break_out() -> None:
    layer = invented(3)
    evil = replace(layer.kernel.site, permalink="https://example.org/\x1b]0;pwned\x07", file=Path("/tmp/\x1b[2J.py"))
    tokens = tuple(replace(token, text="\x1b[2J\u202e", bytes=b"\x1b[2J\xe2\x80\xae") for token in layer.tokens)
    hostile = replace(layer, tokens=tokens, kernel=replace(layer.kernel, site=evil))
    text = render(head_page(look_at(hostile, 0), "en"), Screen(80, ColorSystem.EIGHT_BIT, links=True))
    assert "\x1b" not in re.sub(f"{SGR}|{LINK}", "", text)
    assert "\u202e" not in text
    assert "\x07" not in text


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437", "gbk", "cp1252", "utf-8"])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_letter_fits_the_encoding_and_none_is_lost(encoding: str, language: str) -> None:
    for page in pages(language):
        text = render(page, Screen(80, encoding=encoding))
        text.encode(encoding)
        assert "?" not in text.replace("? ", "")
        assert all(cell_len(line) <= 80 for line in text.splitlines())


def test_formulas_read_well_in_ascii() -> None:
    text = render(pages("en")[0], Screen(80, encoding="ascii"))
    for formula in ("Q = x*W_q^T", "S = Q*K^T*scale + M", "A = exp(S - m) / sum", "layer 1 . head 2 -> KV head 1"):
        assert formula in text


@pytest.mark.parametrize(
    ("colour", "environ", "expected"),
    [
        (False, {"TERM": "xterm-256color"}, Screen(80)),
        (True, {"TERM": "xterm-256color"}, Screen(80, ColorSystem.EIGHT_BIT, links=True)),
        (True, {"TERM": "xterm", "COLORTERM": "truecolor"}, Screen(80, ColorSystem.EIGHT_BIT, links=True)),
        (True, {"TERM": "xterm"}, Screen(80, ColorSystem.STANDARD, links=True)),
        (True, {"TERM": "linux"}, Screen(80, ColorSystem.STANDARD, links=False)),
    ],
)
def test_the_terminal_says_what_it_can(colour: bool, environ: dict[str, str], expected: Screen) -> None:
    assert screen(80, colour, "utf-8", environ) == expected


@pytest.mark.parametrize("count", [1, 2])
def test_the_shortest_prompts_have_pages_too(count: int) -> None:
    layer = invented(count)
    for page in (
        head_page(look_at(layer, 0), "en"),
        head_page(look_at(layer, 0), "en", query=0),
        overview_page([layer], "zh"),
    ):
        assert render(page, Screen(80))


def test_a_screen_is_never_narrower_than_can_be_drawn() -> None:
    assert screen(3, False, "utf-8", {}).width == 20


@pytest.mark.parametrize("make", [lambda: pages("en")[0], lambda: pages("zh")[1]])
def test_the_same_page_is_the_same_text(make: Callable[[], Page]) -> None:
    shown = Screen(80, ColorSystem.EIGHT_BIT, links=True)
    assert render(make(), shown) == render(make(), shown)
