"""Tokens show their text and their bytes; a character shared by several tokens is shown whole, never as U+FFFD."""

from tracer.page.tokens import groups, shown
from tracer.records import Token


def token(data: bytes, id: int = 7) -> Token:
    try:
        return Token(id, data, data.decode() or None)
    except UnicodeDecodeError:
        return Token(id, data, None)


SPLIT = (token(b" \xe8"), token(b"\xa5\xbf"), token(b"\xe5\x9b\xbd"))


def test_a_split_character_is_named_whole_with_its_parts_numbered() -> None:
    assert [each.text for each in shown(SPLIT)] == ["␣西 1/2", "␣西 2/2", "国"]
    assert [each.short for each in shown(SPLIT)] == ["␣西¹", "␣西²", ""]
    assert [each.bytes for each in shown(SPLIT)] == ["20 E8", "A5 BF", "E5 9B BD"]


def test_tokens_are_joined_to_whole_characters() -> None:
    assert [(each.first, each.last, each.text) for each in groups(SPLIT)] == [(0, 1, "␣西"), (2, 2, "国")]


def test_bytes_that_are_no_character_are_shown_as_bytes() -> None:
    assert [each.text for each in shown((token(b"\xff\xfe"), token(b"a")))] == ["⟨FF FE⟩", "a"]


def test_a_token_without_bytes_is_shown_by_its_id() -> None:
    assert [each.text for each in shown((Token(151_900, b"", None),))] == ["#151900"]


def test_the_label_has_position_and_text() -> None:
    label = shown(SPLIT)[1].label
    assert (label.position, label.text, label.short) == ("1", "␣西 2/2", "␣西²")


def test_no_replacement_character_ever_appears() -> None:
    every_byte = tuple(token(bytes([byte])) for byte in range(256))
    assert all("\ufffd" not in each.text for each in shown(every_byte))
