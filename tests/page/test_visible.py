"""Text from outside cannot act on what it is shown in."""

import sys
import unicodedata

import pytest

from tracer.page.record import Link, Piece
from tracer.page.visible import hexadecimal, token_text, visible


def test_every_character_there_is_prints_or_is_spelt_out() -> None:
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    assert visible(everything).isprintable()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text", "plain text"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\x1b]8;;https://example.org\x07link", r"\x1b]8;;https://example.org\x07link"),
        ("\x9b2J", r"\x9b2J"),
        ("a\nb\tc\r", r"a\nb\tc\r"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\u2066hidden\u2069", r"\u2066hidden\u2069"),
        ("zero\u200bwidth\ufeff", r"zero\u200bwidth\ufeff"),
        ("no\u00a0break", r"no\xa0break"),
        ("\ud800", r"\ud800"),
        ("\U000e0041", r"\U000e0041"),
        ("中文 é ✓", "中文 é ✓"),
        ("[bold]not markup[/bold]", "[bold]not markup[/bold]"),
    ],
)
def test_what_acts_is_written_as_python_writes_it(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_piece_cannot_be_made_with_active_text() -> None:
    assert Piece("\x1b[2J").text == r"\x1b[2J"


def test_spaces_of_a_token_are_drawn() -> None:
    assert token_text("  the ") == "␣␣the␣"


def test_a_mark_that_would_join_what_stands_before_it_gets_a_circle() -> None:
    token = token_text("\u0301a")
    assert token == "◌\u0301a"
    assert not unicodedata.combining(token[0])


def test_bytes_are_written_in_pairs() -> None:
    assert hexadecimal(b"\xe8\xa5\xbf") == "E8 A5 BF"


@pytest.mark.parametrize("url", ["javascript:alert(1)", "http://example.org", "file:///etc/passwd", ""])
def test_only_secure_addresses_are_links(url: str) -> None:
    assert Link(None, 1, url).url is None


def test_nothing_in_an_address_can_end_what_it_is_put_in() -> None:
    link = Link(None, 1, 'https://example.org/\x1b\\\x07"><script> \u202e')
    assert link.url is not None
    assert link.url.isascii()
    assert link.url.isprintable()
    assert not set(link.url) & set('\x1b\\"<> ')
