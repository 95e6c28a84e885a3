"""One query followed: what is printed can be recomputed from what is printed."""

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.page.lesson import layer, lesson, shaped_kernel
from tests.page.recount import Interval, matrices, products, section, table, total
from tracer.maths.attention import Head, Row
from tracer.page.head import head_page
from tracer.page.record import Page, Prose, plain
from tracer.result import look_at

RANDOM = np.random.default_rng(7)
WIDE = {name: RANDOM.standard_normal((20, 32)) * size for name, size in (("q", 2), ("k", 2), ("v", 1))}


def walked(name: str) -> Page:
    if name == "by hand":
        return head_page(lesson(), "en", query=1)
    if name == "eight dimensions":
        return head_page(lesson(*(values[:6, :8] for values in WIDE.values())), "en", query=5)
    if name == "32 dimensions":
        return head_page(lesson(**WIDE), "en", query=13)
    return head_page(lesson(**WIDE), "en", query=19, size=5)


CASES = ("by hand", "eight dimensions", "32 dimensions", "more keys than are shown")


def test_the_lesson_comes_out_as_computed_by_hand() -> None:
    page = walked("by hand")
    assert [row["products"] for row in table(section(page, "walk_dots"))] == [
        "1.0000×1.0000 + 0.0000×0.0000",
        "1.0000×0.0000 + 0.0000×1.0000",
    ]
    first, second, whole = table(section(page, "walk_softmax"))
    assert (first["S"], first["S − m"], first["exp(S − m)"], first["A"]) == ("0.7071", "0.0000", "1.0000", "0.6698")
    assert (second["S"], second["S − m"], second["exp(S − m)"], second["A"]) == (
        "0.0000",
        "−0.7071",
        "0.4931",
        "0.3302",
    )
    assert (whole["exp(S − m)"], whole["A"]) == ("1.4931", "1.0000")
    (sums,) = matrices(section(page, "walk_sum"))
    assert [piece.text for piece in sums.cells[2]] == ["", "0.6698", "0.6605"]


def test_equal_scores_share_the_weight_equally() -> None:
    page = head_page(lesson(q=((0.0, 0.0), (0.0, 0.0))), "en", query=1)
    assert [row["A"] for row in table(section(page, "walk_softmax"))] == ["0.5000", "0.5000", "1.0000"]
    (sums,) = matrices(section(page, "walk_sum"))
    assert [piece.text for piece in sums.cells[2]] == ["", "0.5000", "1.0000"]


@pytest.mark.parametrize("case", CASES)
def test_each_dot_product_is_the_sum_of_its_products(case: str) -> None:
    for row in table(section(walked(case), "walk_dots")):
        assert products(row["products"]).meets(Interval.printed(row["q·k"])), row


@pytest.mark.parametrize("case", CASES)
def test_each_weight_follows_from_its_dot_product(case: str) -> None:
    part = section(walked(case), "walk_softmax")
    *keys, whole = table(part)
    lead, facts = (plain(block.text) for block in part.blocks if isinstance(block, Prose))
    scale = float(re.search(r"scale (\d\.\d+)", lead)[1])  # type: ignore[index]
    top = Interval.printed(re.search(r"m = (−?[\d.]+)", facts)[1])  # type: ignore[index]
    sum_of_all = Interval.printed(whole["exp(S − m)"])
    for row in keys:
        if row["q·k"]:  # the row of the keys that are not shown has only its sums
            score = Interval.printed(row["S"])
            assert (Interval.printed(row["q·k"]) * Interval(scale, scale)).meets(score)
            assert (score - top).meets(Interval.printed(row["S − m"]))
            assert Interval.printed(row["S − m"]).exp().meets(Interval.printed(row["exp(S − m)"]))
        assert (Interval.printed(row["exp(S − m)"]) / sum_of_all).meets(Interval.printed(row["A"]))
    assert total([Interval.printed(row["exp(S − m)"]) for row in keys]).meets(sum_of_all)
    assert total([Interval.printed(row["A"]) for row in keys]).meets(Interval.printed(whole["A"]))
    logsumexp = Interval.printed(re.search(r"= (−?[\d.]+)$", facts)[1])  # type: ignore[index]
    assert (top + sum_of_all.log()).meets(logsumexp)


@pytest.mark.parametrize("case", CASES)
def test_each_component_of_the_output_is_the_weighted_sum_of_its_column(case: str) -> None:
    part = section(walked(case), "walk_sum")
    (sums,) = matrices(part)
    *keys, output, _kernel = sums.cells
    for column in range(1, len(output)):
        expected = total([Interval.printed(row[0].text) * Interval.printed(row[column].text) for row in keys])
        assert expected.meets(Interval.printed(output[column].text))
    spelled = plain(part.blocks[-1].text)  # type: ignore[union-attr]
    left, _, right = spelled.removeprefix("O[0] = ").rpartition(" = ")
    assert products(left).meets(Interval.printed(right))
    assert right == output[1].text


def test_keys_that_are_not_shown_are_counted_and_taken_together() -> None:
    page = walked("more keys than are shown")
    dots = table(section(page, "walk_dots"))
    assert len(dots) == 5
    assert [int(row["key"]) for row in dots] == sorted(int(row["key"]) for row in dots)
    assert "Of 20 visible keys the 5 with the largest weights are shown" in plain(
        section(page, "walk_dots").blocks[1].text
    )  # type: ignore[union-attr]
    assert table(section(page, "walk_softmax"))[5]["token"] == "15 other keys"


def test_hidden_keys_are_counted_not_shown() -> None:
    page = walked("32 dimensions")
    assert len(table(section(page, "walk_dots"))) == 14
    assert "Keys hidden from this query: 6." in plain(section(page, "walk_dots").blocks[-1].text)  # type: ignore[union-attr]


def test_the_kernels_own_row_is_the_kernels_even_where_it_differs_from_the_recomputed_one() -> None:
    wrong = look_at(shaped_kernel(layer(), np.array([[[1.0, 0.0]], [[0.25, -3.5]]])), 0)
    (sums,) = matrices(section(head_page(wrong, "en", query=1), "walk_sum"))
    assert [piece.text for piece in sums.cells[-2]] == ["", "0.6698", "0.6605"]
    assert [piece.text for piece in sums.cells[-1]] == ["", "0.2500", "−3.5000"]


def test_the_total_of_the_weights_is_summed_not_taken_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Head.row

    def halved(reference: Head, query: int) -> Row:
        found = right(reference, query)
        return replace(found, weights=found.weights / 2)

    monkeypatch.setattr(Head, "row", halved)
    *_, whole = table(section(walked("by hand"), "walk_softmax"))
    assert whole["A"] == "0.5000"


def test_the_kernels_own_row_stands_under_the_recomputed_one() -> None:
    (sums,) = matrices(section(walked("by hand"), "walk_sum"))
    assert sums.rows[-1].text == "kernel's O"
    assert [piece.text for piece in sums.cells[-1]] == ["", "0.6698", "0.6605"]
