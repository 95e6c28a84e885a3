"""Offsets count code points and lines as Python does; a splice moves no line."""

import ast

import pytest

from tracer.records import Span
from tracer.source.text import Text, splice


def test_only_python_line_ends_split_a_text() -> None:
    text = Text.of("a\x0cb\u2028c\x85d\ne\r\nf\rg")
    assert text.lines(1, 9) == ("a\x0cb\u2028c\x85d", "e", "f", "g")


def test_columns_count_code_points_and_positions_round_trip() -> None:
    text = Text.of("x = '猫🐈'\ny = x\n")
    span = Span(1, 4, 1, 8)
    assert text.code(span) == "'猫🐈'"
    assert text.position(text.offset(2, 4)) == (2, 4)


def test_a_splice_keeps_every_line_and_nests() -> None:
    source = "def f(a):\n    return g(a +\n        1) * 2\n"
    text = Text.of(source)
    outer, inner = Span(2, 11, 3, 14), Span(2, 13, 3, 9)
    spliced = splice(text, [(inner, "P(1, (", "))"), (outer, "P(0, (", "))")])
    assert spliced.count("\n") == source.count("\n")
    assert "return P(0, (g(P(1, (a +\n        1))) * 2))" in spliced
    ast.parse(spliced)


def test_spans_that_share_an_end_close_in_the_right_order() -> None:
    text = Text.of("f(g(x))")
    spliced = splice(
        text, [(Span(1, 0, 1, 7), "A(", ")"), (Span(1, 2, 1, 6), "B(", ")"), (Span(1, 4, 1, 5), "C(", ")")]
    )
    assert spliced == "A(f(B(g(C(x)))))"


@pytest.mark.parametrize(
    ("spans", "words"),
    [
        ([Span(1, 1, 1, 1)], "not empty"),
        ([Span(1, 0, 1, 3), Span(1, 0, 1, 3)], "of its own"),
        ([Span(1, 0, 1, 3), Span(1, 2, 1, 5)], "cross"),
    ],
)
def test_spans_that_cannot_be_spliced_are_refused(spans: list[Span], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        splice(Text.of("abcdef"), [(span, "(", ")") for span in spans])
