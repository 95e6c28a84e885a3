"""The report: the same in both languages, every figure of it computed, every number recomputable."""

import hashlib
import re
import tomllib
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest

from tests.invented_trace import array, invented, with_array
from tests.render.html.test_file import held
from tracer import data
from tracer.counterexamples.spread import spread
from tracer.labs import scale
from tracer.labs.scale_page import SAMPLES
from tracer.maths.attention import Head
from tracer.maths.patterns import Pattern, pattern
from tracer.page import overview
from tracer.page.numbers import significant
from tracer.page.part import LENS, part_of
from tracer.page.practice import worked
from tracer.page.record import plain
from tracer.page.report import report
from tracer.page.sheet import Both, Figure, Numbers, Paragraph, Plot, Practice, Report, Source, Wrong, both, joined
from tracer.page.sheet import Path as ValuePath
from tracer.page.window import window
from tracer.result import Trace, look_at


@pytest.fixture(scope="module")
def trace() -> Trace:
    return look_at(invented(24), 2)


@pytest.fixture(scope="module")
def made(trace: Trace) -> Report:
    return report(trace, "en")


def parts(made: Report, kind: type) -> list[Any]:
    return [part for chapter in made.chapters for part in chapter.parts if isinstance(part, kind)]


def everything(record: object) -> list[object]:
    """All records inside ``record``."""
    if is_dataclass(record) and not isinstance(record, type):
        return [record, *(inner for field in fields(record) for inner in everything(getattr(record, field.name)))]
    if isinstance(record, tuple):
        return [inner for item in record for inner in everything(item)]
    return []


# ------------------------------------------------------------------------------------------------- two languages


def test_every_sentence_has_two_languages(made: Report) -> None:
    said = [each for each in everything(made) if isinstance(each, Both)]
    assert len(said) > 300
    for each in said:
        assert bool(each.en) == bool(each.zh)
        if plain(each.en) != plain(each.zh):
            assert not re.search(r"[一-鿿]", re.sub(r"西|喵", "", plain(each.en))), plain(each.en)


def test_the_first_language_changes_nothing_but_the_order(trace: Trace, made: Report) -> None:
    other = report(trace, "zh")
    assert (made.language, other.language) == ("en", "zh")
    assert made.title == other.title


def test_every_practice_text_is_used(made: Report) -> None:
    texts = tomllib.loads((data.annotations() / "texts" / "practice.toml").read_text(encoding="utf-8"))
    (practice,) = parts(made, Practice)
    assert len(practice.questions) == 10
    said = {plain(each.en) for each in everything(made) if isinstance(each, Both)}
    plainly = {name: entry["en"] for name, entry in texts.items() if "{" not in entry["en"] and "`" not in entry["en"]}
    assert [name for name, text in plainly.items() if text not in said and not name.endswith("_untold")] == []


# -------------------------------------------------------------------------------------------------- the numbers


def test_the_head_is_shown_element_by_element(made: Report) -> None:
    (numbers,) = parts(made, Numbers)
    assert [grid.id for grid in numbers.grids] == ["q", "kt", "s", "m", "r", "e", "a", "v", "o"]
    for grid in numbers.grids:
        assert len(grid.texts) == len(grid.shades) == len(grid.rows)
        assert {len(row) for row in (*grid.texts, *grid.shades)} == {len(grid.columns)}


def test_visibility_is_no_number_and_hidden_scores_are_none(made: Report, trace: Trace) -> None:
    (numbers,) = parts(made, Numbers)
    by_id = {grid.id: grid for grid in numbers.grids}
    seen = trace.reference.visibility.rows(0, 24)
    assert np.array_equal(np.array(by_id["m"].texts) == "✓", seen)
    for id in ("m", "s", "e", "a"):
        assert np.array_equal(np.array(by_id[id].texts) != "·", seen)


def test_every_table_follows_from_the_rounded_ones_before_it(made: Report, trace: Trace) -> None:
    (numbers,) = parts(made, Numbers)
    by_id = {
        grid.id: np.array([[0.0 if text in "·✓" else number(text) for text in row] for row in grid.texts])
        for grid in numbers.grids
    }
    seen = trace.reference.visibility.rows(0, 24)
    stated = _stated(numbers)
    again = {
        "s": np.where(seen, by_id["q"] @ by_id["kt"] * trace.reference.scale, 0.0),
        "e": np.where(seen, np.exp(by_id["s"] - by_id["r"][:, :1]), 0.0),
        "a": by_id["e"] / by_id["r"][:, 1:2],
        "o": by_id["a"] @ by_id["v"],
    }
    for id, values in again.items():
        assert np.abs(values - by_id[id]).max() <= stated[id]
        assert stated[id] < 0.005


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def _stated(numbers: Numbers) -> dict[str, float]:
    found = re.findall(r"([SEAO]) within ([\d.e−]+)", plain(numbers.checked.en))
    return {symbol.lower(): number(text.rstrip(".")) for symbol, text in found}


def test_the_data_for_clicks_give_the_very_numbers_back(made: Report, trace: Trace) -> None:
    (numbers,) = parts(made, Numbers)
    for name, values in (("q", trace.reference.q), ("k", trace.reference.k), ("v", trace.reference.v)):
        assert np.array_equal(held(numbers.data[name]), values)
    assert [float(text) for text in numbers.data["row_max"]] == trace.reference.row_max.tolist()  # type: ignore[attr-defined]


def test_a_long_prompt_shows_a_stated_window_and_what_is_left_out_of_it() -> None:
    trace = look_at(invented(40), 2)
    (numbers,) = parts(report(trace, "en", size=8), Numbers)
    assert numbers.stated is not None
    assert "queries 32–39 of 40 and keys 32–39 of 40" in plain(numbers.stated.en)
    weights = next(grid for grid in numbers.grids if grid.id == "a")
    assert plain(weights.columns[-1].text.en) == "elsewhere"
    for row in weights.texts:
        assert sum(number(text) for text in row if text != "·") == pytest.approx(1, abs=1e-3)
    rest = held(numbers.data["rest"])
    inside = trace.reference.weights(slice(32, 40), slice(32, 40)) @ trace.reference.v[32:40]
    np.testing.assert_allclose(inside + rest, trace.reference.output[32:40], atol=1e-10)
    assert numbers.data["others"] == [32] * 8  # keys 0 to 31; later ones are none that a row sees


@pytest.mark.parametrize("dtype", ["F64", "F32", "BF16", "F16"])
def test_captured_numbers_go_into_the_page_with_every_bit(dtype: str) -> None:
    trace = look_at(invented(6, dtype), 2)
    (numbers,) = parts(report(trace, "en"), Numbers)
    for name, values in (("q", trace.reference.q), ("k", trace.reference.k), ("v", trace.reference.v)):
        assert np.array_equal(held(numbers.data[name]), values)
    assert np.array_equal(held(numbers.data["kernel"]), trace.layer.kernel.output.float64()[:, 2])


def test_the_lens_knows_the_keys_outside_the_window_at_every_temperature() -> None:
    trace = look_at(invented(40), 2)
    (numbers,) = parts(report(trace, "en", size=8), Numbers)
    sums, means = map(held, numbers.data["lens"])
    for row, query in enumerate(range(32, 40)):
        for step, position in enumerate(LENS):
            x = (trace.reference.scores(slice(query, query + 1))[0] - trace.reference.row_max[query]) / 10 ** (
                position / 2
            )
            assert sums[row, step] == pytest.approx(np.exp(x[:32]).sum(), rel=1e-6)
            assert means[row, step] == pytest.approx((x[:32] * np.exp(x[:32])).sum(), rel=1e-6)


def test_a_long_prompt_in_float32_is_shown_in_float64_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a click recomputes would otherwise differ from m, Σ and O in the seventh place."""
    monkeypatch.setattr("tracer.maths.attention._MANY", 1)
    monkeypatch.setattr("tracer.maths.attention._VERY_MANY", 1)
    trace = look_at(invented(40, "BF16"), 2)
    assert trace.reference.computed.number == "float32"
    part = part_of(trace, window(40, 40, 8))
    scores = trace.reference.scores(slice(32, 40))
    assert np.array_equal(part.row_max, scores.max(axis=1))
    np.testing.assert_allclose(part.total, np.exp(scores - part.row_max[:, None]).sum(axis=1), rtol=1e-14)


# --------------------------------------------------------------------------------------------- source and paths


def test_every_captured_expression_has_a_card_and_a_place_to_click(made: Report, trace: Trace) -> None:
    (source,) = parts(made, Source)
    names = {card.name for card in source.cards}
    assert names == {*trace.layer.captures, "output", "lse"}
    marked = {card for listing in source.listings for line in listing.lines for card, _ in line.begins}
    assert {card.id for card in source.cards} <= marked


def test_the_paths_of_scale_and_causality_go_file_by_file(made: Report, trace: Trace) -> None:
    scale, causal = parts(made, ValuePath)
    assert [stop.code for stop in scale.stops] == [hop.site.code for hop in trace.layer.scale.hops]
    assert scale.stops[0].file == "modeling_qwen3.py"
    assert all(stop.file == "" for stop in scale.stops[1:])
    assert "same object" in plain(scale.stops[0].proof.en)
    assert causal.id == "causal"


# ------------------------------------------------------------------------------------------- counterexamples


def test_every_counterexample_says_which_checks_noticed(made: Report) -> None:
    wrongs = parts(made, Wrong)
    assert [wrong.id for wrong in wrongs] == [
        "no_scale",
        "scale_twice",
        "no_mask",
        "mask_after_softmax",
        "wrong_axis",
        "no_max",
        "tiled_heads",
        "empty_row",
    ]
    for wrong in wrongs:
        assert wrong.caught is not None
        assert "Caught by" in plain(wrong.verdict.en)


def test_a_counterexample_that_this_head_cannot_show_says_so() -> None:
    tiled = parts(report(look_at(invented(24), 0), "en"), Wrong)[6]
    assert tiled.caught is None
    assert "reads KV head 0 either way" in plain(tiled.found.en)
    assert "nothing to catch" in plain(tiled.verdict.en)


# ------------------------------------------------------------------------------------------ why the root of d


def test_the_variance_is_shown_against_d_with_the_figures_of_the_lab(made: Report, trace: Trace) -> None:
    (plot,) = parts(made, Plot)
    (table,) = (figure for figure in parts(made, Figure) if figure.id == "growth")
    unscaled, scaled, head = plot.curves
    widths = [4, 8, 16, 64, 256]
    assert [d for d, _ in unscaled.points] == widths
    for (d, variance), (_, after), (name, texts) in zip(unscaled.points, scaled.points, table.rows, strict=False):
        assert variance == scale.spread(int(d), SAMPLES, 0).variance
        assert variance == pytest.approx(d, rel=0.1)
        assert after == pytest.approx(1, rel=0.1)
        assert (plain(name.en), number(texts[0])) == (str(int(d)), pytest.approx(variance, rel=0.006))
        assert number(texts[2]) < number(texts[3])  # unscaled the softmax is the sharper
    found = spread(trace.reference)
    assert found is not None
    assert head.points == ((8, found.variance), (8, found.scaled))
    assert number(table.rows[-1][1][0]) == pytest.approx(found.variance, rel=0.006)


def test_a_head_without_any_spread_has_no_place_on_a_logarithmic_axis() -> None:
    layer = invented(8)
    still = with_array(layer, "q", array(np.zeros((8, 4, 8))))
    (plot,) = parts(report(look_at(still, 2), "en"), Plot)
    assert [curve.id for curve in plot.curves] == ["unscaled", "scaled"]


# ------------------------------------------------------------------------------------------------- practice


def test_the_lessons_example_and_exercise_come_out_to_its_digits() -> None:
    tasks = {entry["id"]: worked(entry) for entry in structure()["tasks"]}
    example = tasks["worked"]
    assert [example[name] for name in ("s0", "s1", "x0", "x1", "a0", "a1", "o0", "o1")] == [
        "0.7071", "0.0000", "2.0281", "1.0000", "0.6698", "0.3302", "0.6698", "0.6605",
    ]  # fmt: skip
    exercise = tasks["exercise"]
    assert [exercise[name] for name in ("a0", "a1", "o0", "o1")] == ["0.5000", "0.5000", "0.5000", "1.0000"]


def structure() -> dict[str, Any]:
    return tomllib.loads((data.annotations() / "practice.toml").read_text(encoding="utf-8"))


def test_every_question_has_one_right_answer_and_explains_each(made: Report) -> None:
    (practice,) = parts(made, Practice)
    for question in practice.questions:
        assert sum(choice.right for choice in question.choices) == 1
        assert all(len(plain(choice.why.en)) > 30 for choice in question.choices)


def test_variants_come_from_the_head(made: Report, trace: Trace) -> None:
    (practice,) = parts(made, Practice)
    real = [task for task in practice.tasks if task.id.startswith("real-")]
    assert [task.id for task in real] == ["real-1", "real-2", "real-3"]
    shown = [number(row[1][0]) for row in real[0].figures[0].rows]
    np.testing.assert_allclose(shown, trace.reference.scores(slice(1, 2))[0, :2], atol=5e-5)


def test_a_question_whose_wrong_answer_would_be_right_here_is_left_out() -> None:
    layer = invented(8)
    layer = replace(layer, model=replace(layer.model, hidden_size=layer.model.heads * layer.model.head_dim))
    (practice,) = parts(report(look_at(layer, 2), "en"), Practice)
    assert "origin" not in {question.id for question in practice.questions}


def test_what_is_said_of_this_heads_variance_is_measured() -> None:
    def why(count: int) -> str:
        trace = look_at(invented(count), 2)
        (practice,) = parts(report(trace, "en"), Practice)
        (root,) = (question for question in practice.questions if question.id == "root")
        return plain(root.choices[0].why.en)

    found = spread(look_at(invented(24), 2).reference)
    assert found is not None
    assert f"the measured variance is {significant(found.variance / found.width)} times d" in why(24)
    assert "measured" not in why(1)  # one pair has no variance
    assert why(1).startswith("It need not.")


def test_a_run_with_another_scale_is_not_asked_where_its_scale_comes_from() -> None:
    layer = invented(8)
    odd = replace(layer, scale=replace(layer.scale, value=1.0))
    for made, expected in ((layer, True), (odd, False)):
        (practice,) = parts(report(look_at(made, 2), "en"), Practice)
        assert ("origin" in {question.id for question in practice.questions}) is expected


def test_the_heads_of_a_long_prompt_are_not_left_out_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracer.page.report._MOST_FOR_HEADS", 5)
    (chapter,) = (each for each in report(look_at(invented(6), 2), "en").chapters if each.id == "heads")
    (said,) = chapter.parts
    assert isinstance(said, Paragraph)
    assert "at most 5 tokens" in plain(said.text.en)
    assert "trace qwen3 --layer 1" in plain(said.text.zh)


def test_all_heads_are_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Head] = []

    def counted(head: Head, ids: Sequence[int]) -> Pattern:
        seen.append(head)
        return pattern(head, ids)

    monkeypatch.setattr(overview, "pattern", counted)
    report(look_at(invented(8), 2), "en")
    assert len(seen) == 4


# ------------------------------------------------------------------------------------------------------ edges


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_tokens_are_no_trouble(count: int) -> None:
    made = report(look_at(invented(count), 2), "en")
    assert parts(made, Numbers)


def test_every_citation_names_the_run_and_the_item(made: Report) -> None:
    cites = [record.cite for record in everything(made) if hasattr(record, "cite")]
    assert len(cites) > 40
    assert all(cite.startswith("trace qwen3 --layer 1 --head 2 · qwen3-tiny") for cite in cites)
    digest = hashlib.sha256(",".join(str(100 + index % 5) for index in range(24)).encode()).hexdigest()
    assert all(f" · 24 tokens {digest[:12]} “to be 西<b>" in cite for cite in cites)


def test_sentences_follow_each_other_without_a_blank_in_chinese() -> None:
    said = joined(both("book_is_closed"), both("closed_book_more"))
    assert plain(said.en) == "The book is closed. Hides everything but the questions. Switch it off to read again."
    assert "书已合上。只留下" in plain(said.zh)
