"""All heads side by side: figures of each, and which are worth opening."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

import tracer
from tests.invented_trace import array, invented, with_array
from tests.page.recount import section, table, text_of
from tracer.maths.attention import Head, head
from tracer.maths.patterns import pattern
from tracer.maths.visibility import Visibility
from tracer.page import overview
from tracer.page.overview import measure, overview_page
from tracer.page.record import Facts, Pictures, Prose, Row, Section, Table, plain
from tracer.render.terminal.render import render
from tracer.render.terminal.screen import Screen
from tracer.result import look_at
from tracer.texts import message

LOUD = 200.0


def looking(targets: list[int]) -> Head:
    """Return a head in which query i puts all its weight on key targets[i]."""
    count = len(targets)
    q = np.zeros((count, count))
    q[np.arange(count), targets] = LOUD
    return head(q, np.eye(count), np.eye(count), 1.0, Visibility(tq=count, tk=count))


def table_rows(part: Section) -> tuple[Row, ...]:
    return next(block for block in part.blocks if isinstance(block, Table)).rows


def test_a_head_that_looks_back_by_one() -> None:
    figures = pattern(looking([0, 0, 1, 2, 3]), [5, 6, 7, 8, 9])
    assert (figures.previous, figures.own, figures.first) == pytest.approx((1, 0, 0.25))
    assert figures.entropy == pytest.approx(0)
    assert figures.distances[:3] == pytest.approx((0, 1, 0))


def test_a_head_that_looks_at_itself() -> None:
    figures = pattern(looking([0, 1, 2]), [5, 6, 7])
    assert (figures.previous, figures.own) == pytest.approx((0, 1))


def test_a_head_that_spreads_its_weight_has_the_entropy_of_equal_weights() -> None:
    even = head(np.zeros((4, 2)), np.zeros((4, 2)), np.zeros((4, 2)), 1.0, Visibility(tq=4, tk=4))
    figures = pattern(even, [5, 6, 7, 8])
    assert figures.entropy == pytest.approx(np.mean([np.log(2), np.log(3), np.log(4)]))
    assert figures.relative == pytest.approx(1)


def test_induction_is_the_weight_after_an_earlier_occurrence_over_the_rows_that_have_one() -> None:
    ids = [1, 2, 3, 1, 2, 3]  # from the fourth on, each looks at what followed its token before: 1, 2, and 3 (itself 1)
    figures = pattern(looking([0, 0, 1, 1, 2, 3]), ids)
    assert figures.repeats == 3
    assert figures.after_earlier == pytest.approx(1)


def test_a_token_right_after_itself_is_no_induction_since_that_is_its_own_place() -> None:
    figures = pattern(looking([0, 1]), [4, 4])
    assert (figures.after_earlier, figures.repeats) == (None, 0)


def test_the_first_row_has_no_choice_and_is_left_out_of_the_means() -> None:
    assert pattern(looking([0, 1]), [4, 5]).own == pytest.approx(1)
    assert pattern(looking([0, 0]), [4, 5]).own == pytest.approx(0)


def test_the_weights_by_distance_sum_to_one() -> None:
    layer = invented(40)
    q, k, v = (layer.captures[name].array.float64()[:, 0] for name in ("q", "k", "v"))
    figures = pattern(head(q, k, v, 0.3, Visibility(tq=40, tk=40)), range(40), distances=8)
    assert figures.distances.sum() == pytest.approx(1)


def test_the_picture_keeps_the_largest_weight_of_what_it_stands_for_and_the_mask() -> None:
    figures = pattern(looking([0, 0, 0, 3]), [1, 2, 3, 4], picture=2)
    assert figures.picture[1] == pytest.approx((1, 1))
    assert figures.picture[0, 0] == pytest.approx(1)
    assert np.isnan(figures.picture[0, 1])


def test_the_picture_has_the_rows_there_are_where_a_prefix_was_cached() -> None:
    whole = looking([0, 0, 1, 2, 3, 4, 5, 6, 7, 8])
    few = head(whole.q[6:], whole.k, whole.v, 1.0, Visibility(tq=4, tk=10))
    assert (pattern(few, range(10)).queries, pattern(whole, range(10)).queries) == (4, 10)
    np.testing.assert_array_equal(pattern(few, range(10)).picture, pattern(whole, range(10)).picture[6:])
    pooled = pattern(few, range(10), picture=2).picture
    assert pooled == pytest.approx(np.array([[0, 1], [0, 1]]))  # queries 6 and 7, then 8 and 9: keys 5 to 8


def test_blocks_of_rows_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = invented(30)
    q, k, v = (layer.captures[name].array.float64()[:, 0] for name in ("q", "k", "v"))
    whole = head(q, k, v, 0.3, Visibility(tq=30, tk=30))
    expected = pattern(whole, [i % 7 for i in range(30)])
    monkeypatch.setattr("tracer.maths.patterns._ROWS", 7)
    found = pattern(whole, [i % 7 for i in range(30)])
    assert found.previous == pytest.approx(expected.previous)
    assert found.after_earlier == pytest.approx(expected.after_earlier)
    np.testing.assert_allclose(found.picture, expected.picture)


def test_every_head_has_a_row_and_the_sharpest_is_named_where_none_stands_out() -> None:
    page = overview_page([invented(12)], "en")
    rows = table(section(page, "heads"))
    assert [row["head"] for row in rows] == ["0", "1", "2", "3"]
    assert "no head favours one kind of place" in text_of(page)


def test_heads_worth_opening_are_named_with_why_and_pictured() -> None:
    layer = invented(9)
    count = 9
    strong = np.zeros((count, 4, 8))
    keys = np.zeros((count, 2, 8))
    keys[np.arange(count), :, np.arange(count) % 8] = 1
    strong[np.arange(1, count), 2, (np.arange(1, count) - 1) % 8] = LOUD  # head 2 looks at the key before
    page = overview_page([with_array(with_array(layer, "q", array(strong)), "k", array(keys))], "en")
    facts = next(block for block in section(page, "worth").blocks if isinstance(block, Facts))
    assert (plain(facts.rows[0][0]), plain(facts.rows[0][1])[:14]) == ("layer 1 head 2", "previous token")
    (pictures,) = section(page, "pictures").blocks
    assert isinstance(pictures, Pictures)
    assert len(pictures.items) == len(facts.rows)
    assert "--layer 1 --head 2" in text_of(page)


def test_a_row_that_is_no_number_leaves_no_mean_of_its_head() -> None:
    numbers = np.random.default_rng(0).standard_normal((3, 8, 4))
    numbers[1, 6] = np.nan  # key 6: rows 6 and 7 see it
    figures = pattern(head(*numbers, 0.5, Visibility(tq=8, tk=8)), range(8))
    assert not figures.defined
    assert all(np.isnan([figures.entropy, figures.relative, figures.previous, figures.own, figures.first]))
    numbers[1, 6] = 0.0
    assert pattern(head(*numbers, 0.5, Visibility(tq=8, tk=8)), range(8)).defined


@pytest.mark.parametrize(("language", "told"), [("en", "its means are undefined"), ("zh", "平均值因此没有意义")])
def test_a_head_with_rows_that_are_no_numbers_is_undefined_and_not_recommended(language: str, told: str) -> None:
    layer = invented(9)
    k = layer.captures["k"].array.float64()
    k[4:, 0] = np.nan  # heads 0 and 1 read KV head 0
    spoilt = with_array(layer, "k", array(k))
    page = overview_page([spoilt], language)
    cells = [[plain(cell) for cell in row.cells] for row in table_rows(section(page, "heads"))]
    assert [row[2] for row in cells][:2] == ["NaN", "NaN"]
    assert all(np.isfinite(float(row[2])) for row in cells[2:])
    facts = next(block for block in section(page, "worth").blocks if isinstance(block, Facts))
    assert not [name for name, _ in facts.rows if plain(name).rstrip("头 ").endswith(("head 0", "head 1"))]
    assert all(each.measured.head in (2, 3) for each in overview._worth(measure([spoilt])))
    assert told in text_of(page)
    assert told not in text_of(overview_page([layer], language))


def test_where_every_head_has_such_rows_none_is_recommended() -> None:
    layer = invented(9)
    page = overview_page([with_array(layer, "k", array(np.full(layer.captures["k"].array.shape, np.nan)))], "en")
    assert "worth" not in {each.id for each in page.sections}
    assert "--layer 1 --head 0" in text_of(page)


def test_what_is_no_number_is_drawn_as_such_and_not_as_hidden() -> None:
    """Token 3's keys are NaN: every query from there on sees one, so all of its weights are NaN."""
    layer = invented(6)
    keys = np.ones((6, 2, 8))
    keys[3] = np.nan
    page = overview_page([with_array(layer, "k", array(keys))], "en")
    (pictures,) = section(page, "pictures").blocks
    assert isinstance(pictures, Pictures)
    for picture in pictures.items:
        assert [[value is None for value in row] for row in picture.values] == [
            [key > query for key in range(6)] for query in range(6)
        ]
        assert all(value == -1 for row in picture.values[3:] for value in row if value is not None)
        assert all(value >= 0 for row in picture.values[:3] for value in row if value is not None)
    assert "× is no number (NaN)." in text_of(page)
    drawn = render(page, Screen(80))
    assert "××××··" in drawn
    assert "xxxx.." in render(page, Screen(80, encoding="ascii"))
    assert "× is no number" not in text_of(overview_page([layer], "en"))


@pytest.mark.parametrize(
    ("tokens", "cached", "window"), [(6, 0, None), (40, 0, None), (40, 13, None), (40, 0, 7), (40, 30, 7), (40, 39, 7)]
)
def test_what_the_picture_counts_as_visible_is_what_some_query_sees(
    tokens: int, cached: int, window: int | None
) -> None:
    seen = Visibility(tq=tokens - cached, tk=tokens, left=None if window is None else window - 1)
    right = head(np.zeros((tokens - cached, 4)), np.zeros((tokens, 4)), np.zeros((tokens, 4)), 1.0, seen)
    figures = pattern(right, range(tokens))
    np.testing.assert_array_equal(overview._seen(figures, window), ~np.isnan(figures.picture))


def test_a_head_whose_check_failed_is_named_at_the_top() -> None:
    layer = invented(8)
    broken = replace(layer, effects=replace(layer.effects, untraced_same=False))
    page = overview_page([broken], "en", [look_at(broken, head) for head in range(2)])
    assert page.sections[0].id == "failures"
    assert "✗ layer 1 head 1 Tracing changed nothing" in text_of(page)
    assert plain(page.verdict).startswith("✗ 2 failed")


def test_several_layers_stand_in_one_table() -> None:
    first, other = invented(8), invented(8, seed=1)
    second = replace(other, request=replace(other.request, layer=2))
    page = overview_page([first, second], "en")
    assert [(row["layer"], row["head"]) for row in table(section(page, "heads"))][3:5] == [("1", "3"), ("2", "0")]
    assert plain(page.title) == "trace qwen3  layers 1–2 · all 8 heads"


def test_each_kind_of_layer_is_told_of_once_with_its_layers() -> None:
    layers = []
    for number, window in enumerate([None, None, 4, None, 4]):
        made = invented(8)
        kind = "full_attention" if window is None else "sliding_attention"
        model = replace(made.model, layer_type=kind, window=window)
        layers.append(replace(made, request=replace(made.request, layer=number), model=model))
    ran = section(overview_page(layers, "en"), "ran")
    facts = next(block for block in ran.blocks if isinstance(block, Facts))
    told = [plain(value) for name, value in facts.rows if plain(name) == "layer"]
    assert told == [
        "layers 0–1, 3: full_attention  by config: a query sees itself and all before it",
        "layers 2, 4: sliding_attention  by config: a query sees the last 4 tokens, itself included",
    ]


def test_a_kind_of_one_layer_alone_is_told_in_the_singular() -> None:
    one, made = invented(8), invented(8, seed=1)
    model = replace(made.model, layer_type="sliding_attention", window=4)
    other = replace(made, request=replace(made.request, layer=3), model=model)
    ran = section(overview_page([one, other], "en"), "ran")
    facts = next(block for block in ran.blocks if isinstance(block, Facts))
    told = [plain(value).split("  ")[0] for name, value in facts.rows if plain(name) == "layer"]
    assert told == ["layer 1: full_attention", "layer 3: sliding_attention"]


def test_warnings_of_all_layers_are_shown_each_once() -> None:
    both, second = (message("verify.window_unused", window=window) for window in (4, 5))
    layers = [replace(invented(8), warnings=warnings) for warnings in ((both,), (both, second))]
    warned = section(overview_page(layers, "en"), "warnings").blocks
    assert [plain(block.text) for block in warned if isinstance(block, Prose)] == [f"! {both}", f"! {second}"]


def test_heads_that_are_recomputed_already_are_not_recomputed(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = invented(8)
    traces = [look_at(layer, head) for head in range(layer.model.heads)]
    expected = measure([layer])
    monkeypatch.setattr("tracer.page.overview.reference", None)
    for found, wanted in zip(measure([layer], traces), expected, strict=True):
        assert (found.head, found.pattern.entropy) == (wanted.head, wanted.pattern.entropy)


def test_followers_of_a_token_that_is_repeated_throughout_take_no_square_of_memory() -> None:
    count = 1500
    even = head(np.zeros((count, 2)), np.zeros((count, 2)), np.zeros((count, 2)), 1.0, Visibility(tq=count, tk=count))
    peaks = []
    for ids in (range(count), [7] * count):
        tracemalloc.start()
        figures = pattern(even, ids)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert figures.repeats == count - 2
    assert figures.after_earlier == pytest.approx(np.mean([(i - 1) / (i + 1) for i in range(2, count)]))
    assert peaks[1] < 1.1 * peaks[0]  # lists of them all would add 9 MB to 10


def test_where_no_row_sees_two_keys_there_are_dashes_and_no_head_is_worth_more_than_another() -> None:
    figures = pattern(looking([0]), [5])
    assert figures.rows == 0
    layer = tracer.trace(layer=1, tokens=[5]).layer
    page = overview_page([layer], "en")
    figures_shown = {
        text for row in table(section(page, "heads")) for name, text in row.items() if name not in ("head", "KV")
    }
    assert figures_shown == {"–"}
    assert {"worth", "pictures"}.isdisjoint(each.id for each in page.sections)


def test_a_picture_smaller_than_the_prompt_says_what_a_block_stands_for() -> None:
    layer = tracer.trace(layer=1, tokens=[5, 9, 7] * 6).layer
    assert "The 18 tokens are drawn as 16 × 16 blocks" in text_of(overview_page([layer], "en"))


def test_a_picture_smaller_than_a_prompt_with_a_cached_prefix_says_both_sides() -> None:
    layer = tracer.trace(layer=1, tokens=[5, 9, 7] * 8).layer
    few = with_array(layer, "q", layer.captures["q"].array[6:])
    shown = text_of(overview_page([few], "en"))
    assert "The queries are those of positions 6 to 23" in shown
    assert "The 18 queries and 24 keys are drawn as 16 × 16 blocks" in shown
    assert "18 个 query 和 24 个 key 合成 16 × 16 块" in text_of(overview_page([few], "zh"))
