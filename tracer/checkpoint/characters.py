"""Tokens back to characters: the bytes of byte-level tokens, and the characters that several tokens share.

Byte-level BPE writes each byte as one printable character (the table of GPT-2's encoder). Must not know: tokenizers.
"""

import codecs
from collections.abc import Sequence
from functools import cache

from tracer.records import Token


@cache
def byte_of_character() -> dict[str, int]:
    """Return the byte that each character of a byte-level token stands for.

    Bytes that print in Latin-1 stand for themselves; the other 68 are the characters from U+0100 on, in order.
    """
    printing = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    table = {chr(byte): byte for byte in printing}
    others = [byte for byte in range(256) if byte not in set(printing)]
    return table | {chr(0x100 + index): byte for index, byte in enumerate(others)}


def token_bytes(written: str) -> bytes | None:
    """Return the bytes of a token written in byte-level characters, or None where it is not written so."""
    table = byte_of_character()
    if not all(character in table for character in written):
        return None
    return bytes(table[character] for character in written)


def text_of(data: bytes) -> str | None:
    """Return ``data`` as text where it is valid UTF-8 by itself and not empty, else None."""
    try:
        return data.decode("utf-8") or None
    except UnicodeDecodeError:
        return None


def bare_token(id: int) -> Token:
    """Return the token ``id`` where nothing is known about its text."""
    return Token(id, b"", None)


def joined(tokens: Sequence[Token]) -> list[tuple[int, int, str | None]]:
    """Return (first, last, text) of the smallest groups of tokens whose bytes together are whole characters.

    Most groups are one token; where a character is split, its tokens are one group and ``text`` is their common text.
    ``text`` is None for a token whose bytes belong to no character; nothing is ever shown as U+FFFD.
    """
    groups: list[tuple[int, int, str | None]] = []
    first = 0
    while first < len(tokens):
        last, text = _group(tokens, first)
        groups.append((first, last, text))
        first = last + 1
    return groups


def _group(tokens: Sequence[Token], first: int) -> tuple[int, str | None]:
    """Return the last token and the text of the group that begins at ``first``."""
    decoder = codecs.getincrementaldecoder("utf-8")("strict")
    text = ""
    for last in range(first, len(tokens)):
        if not tokens[last].bytes:
            break
        try:
            text += decoder.decode(tokens[last].bytes)
        except UnicodeDecodeError:
            break
        if not decoder.getstate()[0]:
            return last, text
    return first, None
