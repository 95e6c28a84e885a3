"""How single blocks are laid out."""

import re
from dataclasses import replace

import pytest

from tracer.page.record import (
    Beside,
    CodeLine,
    Column,
    Excerpt,
    Facts,
    Label,
    Mark,
    Matrix,
    Picture,
    Pictures,
    Piece,
    Role,
    Row,
    Table,
    line,
)
from tracer.render.terminal.excerpts import excerpt
from tracer.render.terminal.matrices import beside, matrix, pictures
from tracer.render.terminal.screen import Screen
from tracer.render.terminal.spelling import spelt
from tracer.render.terminal.strips import Strip, cut, strip_of, wrapped
from tracer.render.terminal.tables import facts, table

SCREEN = Screen()


def text(lines: list[Strip]) -> list[str]:
    return ["".join(part.text for part in strip).rstrip() for strip in lines]


# ---------------------------------------------------------------------------------------------------- wrapping


def wrap(what: str, columns: int, hanging: int = 0) -> list[str]:
    return text(wrapped(strip_of(line(what), SCREEN), columns, hanging))


def test_words_stay_whole() -> None:
    assert wrap("one two three", 8) == ["one two", "three"]


def test_lines_after_the_first_hang() -> None:
    assert wrap("one two three", 8, hanging=2) == ["one two", "  three"]


def test_chinese_breaks_between_characters_but_never_before_a_full_stop() -> None:
    assert wrap("注意力权重。", 10) == ["注意力权", "重。"]


def test_a_name_that_is_too_long_breaks_at_a_joint() -> None:
    assert wrap("modeling_flash_attention_utils.py:850", 30) == ["modeling_flash_attention_", "utils.py:850"]


def test_an_index_stays_with_what_it_counts() -> None:
    assert wrap("[3] 1.5×2.5 + [12] 0.5×0.5", 17) == ["[3] 1.5×2.5 +", "[12] 0.5×0.5"]


@pytest.mark.parametrize("columns", range(6, 40))
def test_a_letter_spelt_as_an_escape_is_never_cut(columns: int) -> None:
    what = "tokens│ab所有\U0001f431é所所cd所所所所所所"
    ascii_only = replace(SCREEN, encoding="ascii")
    lines = text(wrapped(strip_of(line(what), ascii_only), columns))
    assert "".join(lines) == spelt(what, "ascii")
    assert all(len(each) <= columns for each in lines)
    whole = re.compile(r"(\\x[0-9a-f]{2}|\\u[0-9a-f]{4}|\\U[0-9a-f]{8}|[^\\])*")
    # on six columns, the widest escape has to be broken
    assert columns < 10 or all(whole.fullmatch(each) for each in lines), lines


def test_a_name_cut_short_ends_with_a_whole_escape() -> None:
    name = spelt("所所所", "ascii")
    one, two = (f"{spelt(letters, 'ascii')}..." for letters in ("所", "所所"))
    assert [cut(name, columns, "...") for columns in (14, 15, 17)] == [one, two, two]


# ------------------------------------------------------------------------------------------- facts and tables


def test_facts_stand_in_two_columns_or_below_each_other() -> None:
    block = Facts(((line("name"), line("a value of many words")),))
    assert text(facts(block, SCREEN, 24)) == ["name  a value of many", "      words"]
    assert text(facts(block, SCREEN, 15)) == ["name", "  a value of", "  many words"]


FIGURES = Table(
    (
        Column("head", numeric=True, names=True),
        Column("entropy", numeric=True),
        Column("previous", numeric=True),
        Column("self", numeric=True),
    ),
    (
        Row((line("0"), line("1.25"), line("0.50"), line("0.25"))),
        Row((line("10"), line("0.75"), line("0.10"), line("0.9"))),
    ),
)


def test_figures_line_up() -> None:
    assert text(table(FIGURES, SCREEN, 80)) == [
        "head  entropy  previous  self",
        "   0     1.25      0.50  0.25",
        "  10     0.75      0.10   0.9",
    ]


def test_a_table_of_figures_that_is_too_wide_is_shown_in_parts_that_each_name_the_rows() -> None:
    assert text(table(FIGURES, SCREEN, 24)) == [
        "head  entropy  previous",
        "   0     1.25      0.50",
        "  10     0.75      0.10",
        "",
        "head  self",
        "   0  0.25",
        "  10   0.9",
    ]


def test_spare_columns_go_first_and_rows_become_paragraphs_last() -> None:
    block = Table(
        (Column("name"), Column("of little need", spare=1), Column("what it is")),
        (Row((line("q"), line("repeated"), line("the queries of every head, rotated"))), Row(heading=line("file.py"))),
    )
    assert text(table(block, SCREEN, 70))[0] == "name  of little need  what it is"
    assert text(table(block, SCREEN, 45))[0] == "name  what it is"
    assert text(table(block, SCREEN, 20)) == ["q", "   the queries of", "   every head,", "   rotated", "file.py"]


def test_many_short_rows_flow_into_columns_read_downwards() -> None:
    rows = tuple(Row((line(str(number)), line("token"))) for number in range(5))
    block = Table((Column("at", numeric=True), Column("is")), rows, flow=True)
    assert text(table(block, SCREEN, 24)) == [
        "at  is       at  is",
        " 0  token     3  token",
        " 1  token     4  token",
        " 2  token",
    ]


# ---------------------------------------------------------------------------------------------------- excerpts

CODE = Excerpt(
    line("model.py:245"),
    (CodeLine(245, "q = self.norm(self.q(x).view(-1))", (Mark(14, 23, "1 map"), Mark(4, 33, "2 normalise"))),),
)


def test_marks_stand_under_what_they_mark_inner_ones_nearest() -> None:
    assert text(excerpt(CODE, SCREEN, 80)) == [
        "model.py:245",
        "245 │ q = self.norm(self.q(x).view(-1))",
        "    │               ╰─ 1 ───╯",
        "    │     ╰─ 2 normalise ─────────────╯",
    ]


def test_a_folded_line_carries_its_marks_along_and_the_label_where_there_is_most_room() -> None:
    assert text(excerpt(CODE, SCREEN, 26))[1:] == [
        "245 │ q = self.norm(",
        "    │     ╰─────────",
        "    │ self.q(x).view(-1))",
        "    │ ╰─ 1 ───╯",
        "    │ ─ 2 normalise ────╯",
    ]


def test_marks_are_drawn_in_ascii_too() -> None:
    assert text(excerpt(CODE, Screen(encoding="ascii"), 80))[2] == r"    |               \- 1 ---/"


# ---------------------------------------------------------------------------------------------------- matrices


def weights(count: int) -> Matrix:
    labels = tuple(Label(str(place), f"␣word{place}") for place in range(count))
    cells = tuple(
        tuple(Piece("0.50", Role.NUMBER, level=0.5) if key <= row else Piece("·", Role.MASKED) for key in range(count))
        for row in range(count)
    )
    return Matrix(line("A"), labels, labels, cells, line("Legend."), line(" Some rows are left out."))


def test_a_matrix_has_positions_and_tokens_over_its_columns() -> None:
    assert text(matrix(weights(3), SCREEN, 80)) == [
        "A",
        "             0    1    2",
        "          ␣wo… ␣wo… ␣wo…",
        "0 ␣word0  0.50    ·    ·",
        "1 ␣word1  0.50 0.50    ·",
        "2 ␣word2  0.50 0.50 0.50",
        "Legend.",
    ]


def test_a_hidden_key_is_no_number_in_ascii_either() -> None:
    assert text(matrix(weights(3), Screen(encoding="ascii"), 80))[3] == "0 _word0  0.50    .    ."


def test_a_matrix_that_is_too_wide_is_shown_in_parts_without_rows_that_are_all_masked_there() -> None:
    lines = text(matrix(weights(4), SCREEN, 20))
    assert lines[7:] == [
        "",
        "             2    3",
        "          ␣wo… ␣wo…",
        "2 ␣word2  0.50    ·",
        "3 ␣word3  0.50 0.50",
        "Legend. Some rows",
        "are left out.",
    ]


def test_matrices_stand_side_by_side_where_both_fit() -> None:
    both = Beside((weights(2), weights(2)))
    assert text(beside(both, SCREEN, 80))[3] == "0 ␣word0  0.50    ·    0   0.50    ·"
    assert len(beside(both, SCREEN, 30)) == 2 * len(matrix(weights(2), SCREEN, 30)) + 1


def test_pictures_are_shaded_and_tell_hidden_from_empty() -> None:
    picture = Picture(line("head 1"), ((1.0, None), (0.0, 0.5)))
    assert text(pictures(Pictures((picture, picture)), SCREEN, 80))[-2:] == [
        "█·       █·",
        " ▒        ▒",
    ]
