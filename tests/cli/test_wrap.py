"""Lines of a given width, in English, in Chinese, and mixed."""

import pytest
from rich.cells import cell_len

from tracer.cli.wrap import wrap


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("one two three", 7, ["one two", "three"]),
        ("one two", 20, ["one two"]),
        ("a\nb", 20, ["a", "b"]),
        ("a\n\nb", 20, ["a", "", "b"]),
        ("", 20, [""]),
        ("unbreakable", 4, ["unbreakable"]),
        ("注意力头", 4, ["注意", "力头"]),
        ("注意，力", 5, ["注", "意，", "力"]),
        ("看（注意）", 5, ["看", "（注", "意）"]),
        ("用 --layer 选择", 10, ["用 --layer", "选择"]),
        ("用--layer选", 9, ["用--layer", "选"]),
        ("two  spaces", 20, ["two  spaces"]),
    ],
)
def test_where_lines_end(text: str, width: int, lines: list[str]) -> None:
    assert wrap(text, width) == lines


def test_no_line_is_too_wide_and_nothing_is_lost() -> None:
    text = "把每个数字对应到算出它的那一处源码表达式（例如 modeling_qwen3.py:213），并验证。" * 5
    for width in range(20, 60):
        lines = wrap(text, width)
        assert max(map(cell_len, lines)) <= max(width, cell_len("modeling_qwen3.py:213），"))
        assert "".join(lines).replace(" ", "") == text.replace(" ", "")
