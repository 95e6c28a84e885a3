"""The hand calculation, to the digits of the lesson; and what becomes of a reader's own numbers."""

from pathlib import Path

import numpy as np
import pytest

from tracer.errors import InputError
from tracer.labs import attention
from tracer.labs.attention import solved
from tracer.render.terminal.render import render
from tracer.render.terminal.screen import Screen


def rounded(values: object) -> list[float]:
    return [round(float(value), 4) + 0.0 for value in np.asarray(values)]


def test_the_lesson_s_example_has_the_lesson_s_digits() -> None:
    step = solved().step(0)
    assert rounded(step.row.dots) == [1, 0]
    assert rounded(step.row.scores) == [0.7071, 0]
    assert rounded(step.exp) == [2.0281, 1]
    assert rounded(step.row.weights) == [0.6698, 0.3302]
    assert rounded(step.row.output) == [0.6698, 0.6605]


def test_the_exercise_has_equal_weights_and_an_output_that_does_not_sum_to_one() -> None:
    step = solved(scores="[0, 0]").step(0)
    assert step.row.weights.tolist() == [0.5, 0.5]
    assert step.row.output.tolist() == [0.5, 1.0]


def test_subtracting_the_largest_score_changes_no_weight() -> None:
    step = solved(scores="[3, 1, -2]", v="[[1], [2], [3]]").step(0)
    assert np.allclose(step.exp / step.exp.sum(), step.row.shifted / step.row.total, rtol=1e-14)


def test_scores_beyond_float64_still_have_weights() -> None:
    step = solved(scores="[1000, 999]").step(0)
    assert np.isinf(step.exp).all()
    assert rounded(step.row.weights) == [0.7311, 0.2689]


def test_own_matrices_agree_with_the_definition() -> None:
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal(shape).round(3) for shape in ((3, 5), (4, 5), (4, 2)))
    texts = {name: str(x.tolist()) for name, x in (("q", q), ("k", k), ("v", v))}
    head = solved(**texts).head
    scores = q @ k.T / np.sqrt(5)
    weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    assert np.allclose(head.weights(slice(None)), weights)
    assert np.allclose(head.output, weights @ v)


def test_temperature_divides_and_scale_replaces() -> None:
    assert rounded(solved(temperature=0.5).step(0).row.scores) == [1.4142, 0]
    assert rounded(solved(scale=3.0).step(0).row.scores) == [3, 0]


def test_a_masked_key_gets_nothing_and_a_row_without_keys_is_called_empty() -> None:
    masked = solved(mask="[true, false]").step(0)
    assert (masked.row.weights.tolist(), masked.exp.tolist()[1], masked.empty) == ([1.0, 0.0], 0.0, False)
    empty = attention.lesson(mask="[0, 0]").json("en")
    assert empty["empty_rows"] == [0]
    assert empty["queries"][0]["weights"] is None
    assert empty["queries"][0]["output"] is None


def test_causal_is_a_word_for_a_mask() -> None:
    head = solved(q="[[1, 0], [0, 1]]", mask="causal").head
    assert head.visibility.rows(0, 2).tolist() == [[True, False], [True, True]]


def test_a_seed_draws_the_same_problem_every_time_and_never_one_that_teaches_nothing() -> None:
    assert attention.lesson(seed=7).json("en") == attention.lesson(seed=7).json("en")
    for seed in range(50):
        scores = solved(seed=seed).step(0).row.scores
        assert len(set(scores.tolist())) > 1


def test_the_widths_of_q_and_k_must_fit() -> None:
    with pytest.raises(InputError) as caught:
        solved(q="[1, 2, 3]")
    assert str(caught.value) == (
        "A dot product needs vectors of one length, but --q is [1, 3] and --k is [2, 2]: their second numbers must be "
        "equal. You did not give --k, so the built-in example's was used: give it, too."
    )


@pytest.mark.parametrize(
    ("options", "id"),
    [
        ({"v": "[[1]]"}, "labs.keys"),
        ({"scores": "[1, 2, 3]"}, "labs.keys"),
        ({"scores": "[1, 2]", "q": "[1, 0]"}, "labs.scores_and"),
        ({"scores": "[1, 2]", "scale": 1.0}, "labs.scores_and"),
        ({"seed": 1, "k": "[[1, 0]]"}, "labs.seed_and"),
        ({"query": 1}, "labs.query_range"),
    ],
)
def test_what_does_not_fit_together_is_refused(options: dict[str, object], id: str) -> None:
    with pytest.raises(InputError) as caught:
        solved(**options)  # type: ignore[arg-type]
    assert caught.value.id == id


def test_values_may_come_from_files(tmp_path: Path) -> None:
    np.save(tmp_path / "k.npy", np.eye(2, dtype=np.float16))
    (tmp_path / "v.csv").write_text("1,0\n\n0,2\n")
    (tmp_path / "q.json").write_text("[[1, 0]]")
    step = solved(q=str(tmp_path / "q.json"), k=str(tmp_path / "k.npy"), v=str(tmp_path / "v.csv")).step(0)
    assert rounded(step.row.output) == [0.6698, 0.6605]


@pytest.mark.parametrize(
    ("options", "saying"),
    [
        ({}, "here they add up to 1.3302"),
        ({"v": "[[1, 0], [0, 1]]"}, "is chance"),
        ({"mask": "[1, 0]"}, "Only one key is visible"),
        ({"mask": "[0, 0]"}, "None of them is attention"),
        ({"temperature": 0.5}, "not the temperature used when a next token is drawn"),
    ],
)
def test_what_is_to_be_noticed_is_true_of_these_numbers(options: dict[str, object], saying: str) -> None:
    assert saying in " ".join(attention.lesson(**options).json("en")["after"])


def test_of_large_matrices_a_part_is_shown_and_said_to_be_one() -> None:
    many = {"scores": str([[0] * 64] * 64), "v": str([[0] * 256] * 64)}
    shown = render(attention.lesson(**many).page("en"), Screen())
    assert shown.count("Of large matrices the first 16 rows and columns are shown") == 2
    assert len(shown.splitlines()) < 700  # 64 keys followed one by one, no 64 × 256 matrices
    assert "Of large matrices" not in render(attention.lesson().page("en"), Screen())
