"""What leaves this machine names files, not folders."""

from pathlib import Path

import pytest

from tracer.portable import portable
from tracer.texts import message


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("/home/someone/qwen/config.json", "config.json"),
        ("/home/someone/my qwen/config.json", "config.json"),
        ("C:\\Users\\someone\\qwen\\config.json", "config.json"),
        (Path("/home/someone/config.json"), "config.json"),
        (Path("qwen/config.json"), "qwen/config.json"),
        (
            "cannot load /home/someone/lib/flash.so: undefined symbol (in /opt/x/libc.so.6)",
            "cannot load flash.so: undefined symbol (in libc.so.6)",
        ),
        ("~/qwen/model/config.json is missing", "config.json is missing"),
        ("https://github.com/owner/name/blob/main/x.py", "https://github.com/owner/name/blob/main/x.py"),
        ("and/or, 1/2, Qwen/Qwen3-0.6B, src/a/b.py", "and/or, 1/2, Qwen/Qwen3-0.6B, src/a/b.py"),
        ("a / b", "a / b"),
        ("", ""),
        (3, 3),
        (None, None),
        (("/home/someone/a.py", 1), ("a.py", 1)),
    ],
)
def test_an_absolute_path_is_cut_to_its_last_name_and_nothing_else_is_touched(value: object, expected: object) -> None:
    assert portable(message("arrays.dtype", dtype=value)).values["dtype"] == expected


def test_a_sentence_inside_a_sentence_too() -> None:
    inner = message("arrays.dtype", dtype="/home/someone/a.py")
    outer = portable(message("kernels.cpu_instead", why=inner))
    assert outer.values["why"] == message("arrays.dtype", dtype="a.py")


def test_a_sentence_without_paths_is_the_same_one() -> None:
    said = message("arrays.dtype", dtype="F8", held="x", known="y")
    assert portable(said) is said
