"""What a Python user sees of a trace."""

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from tests.invented_trace import invented
from tracer.records import Token
from tracer.render.terminal.screen import Screen
from tracer.render.text import default_window, head_text, html_of, repr_of
from tracer.result import look_at


class Reader(HTMLParser):
    """Collects text and the addresses of links, and what is still open."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.links, self.open = "", [], []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.links += [value for name, value in attrs if name == "href"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_repr_is_one_line_that_says_what_and_how_it_ended() -> None:
    shown = repr_of(look_at(invented(), 2))
    assert shown.startswith("<Trace 'qwen3-tiny' layer=1 head=2 tokens=5 kernel='cpu-flash' checks: ")
    assert "\n" not in shown


def test_a_notebook_gets_the_same_page() -> None:
    trace = look_at(invented(), 2)
    reader = Reader()
    reader.feed(html_of(trace))
    assert reader.open == []
    drawn = [row.replace("↗", "").rstrip() for row in reader.text.splitlines()]
    assert [row for row in drawn if "softmax_scale" in row]
    assert "From hidden state to output" in reader.text


def test_links_of_a_notebook_lead_upstream_only() -> None:
    reader = Reader()
    reader.feed(html_of(look_at(invented(), 2)))
    assert reader.links
    assert all(link.startswith("https://") for link in reader.links)


def test_a_token_that_looks_like_markup_is_text() -> None:
    layer = invented()
    evil = '"><script>alert(1)</script>'
    tokens = (Token(1, evil.encode(), evil), *layer.tokens[1:])
    shown = html_of(look_at(replace(layer, tokens=tokens), 2))
    assert "<script" not in shown
    assert "&quot;&gt;&lt;script&gt;" in shown


def test_wider_screens_show_more_of_a_long_prompt() -> None:
    assert [default_window(width) for width in (40, 80, 200)] == [8, 16, 24]
    trace = look_at(invented(30), 0)
    assert "queries 14–29 of 30" in head_text(trace, "en", Screen(80))
    assert "queries 27–29 of 30" in head_text(trace, "en", Screen(80), window=3)


def test_a_notebook_is_spoken_to_in_the_language_of_the_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = look_at(invented(), 2)
    for name in ("LC_ALL", "LC_MESSAGES", "LANG", "LANGUAGE"):
        monkeypatch.delenv(name, raising=False)
    assert trace._repr_html_() == html_of(trace, "en")
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    assert trace._repr_html_() == html_of(trace, "zh")
