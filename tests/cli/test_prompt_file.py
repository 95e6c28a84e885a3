"""The prompt from a file or standard input: exact text, or an error that says what is wrong with it."""

import io
import sys
from pathlib import Path

import pytest

from tracer.cli import prompt
from tracer.errors import InputError


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"the cat", "the cat"),
        (b"the cat\n", "the cat"),
        (b"the cat\r\n", "the cat"),
        (b"the cat\n\n", "the cat\n"),
        (b"a\r\nb", "a\r\nb"),
        (b" \t ", " \t "),
        ("\ufeff猫".encode(), "猫"),
        (b"", ""),
    ],
)
def test_text_comes_as_it_is_but_for_one_last_line_end(tmp_path: Path, data: bytes, text: str) -> None:
    (tmp_path / "prompt.txt").write_bytes(data)
    assert prompt.read_prompt(tmp_path / "prompt.txt") == text


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("猫\n".encode()), encoding="ascii"))
    assert prompt.read_prompt(Path("-")) == "猫"


def test_closed_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="reads standard input, which is closed"):
        prompt.read_prompt(Path("-"))


def test_bytes_that_are_no_text_are_pointed_at(tmp_path: Path) -> None:
    (tmp_path / "prompt.txt").write_bytes(b"ab\xff")
    with pytest.raises(InputError, match=r"is not UTF-8: the byte at offset 2") as caught:
        prompt.read_prompt(tmp_path / "prompt.txt")
    assert "偏移 2 处的字节不合法" in caught.value.text("zh")


def test_a_file_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt, "LARGEST", 1024**2)
    with pytest.raises(InputError, match="is larger than 1 MiB"):
        prompt.read_prompt(Path("/dev/zero"))


@pytest.mark.parametrize(("name", "why"), [("missing", "no such file"), (".", "a folder, not a file"), ("a\0b", "NUL")])
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        prompt.read_prompt(tmp_path / name)
