"""Statistics of tensors against NumPy's own, and where NumPy's own would give nothing useful."""

import numpy as np
import pytest

from tests.invented_trace import array
from tracer.arrays import Array
from tracer.maths import stats
from tracer.maths.attention import head
from tracer.maths.visibility import Visibility


@pytest.mark.parametrize("dtype", ["F64", "F32", "F16", "BF16"])
def test_they_are_those_of_the_exact_values_in_float64(dtype: str) -> None:
    held = array(np.random.default_rng(0).standard_normal((7, 3, 5)) * 3 + 1, dtype)
    exact, found = held.float64(), stats.of_array(held)
    assert (found.count, found.nonfinite) == (105, 0)
    assert (found.min, found.max) == (exact.min(), exact.max())
    measured = (found.mean, found.std, found.rms)
    assert measured == pytest.approx((exact.mean(), exact.std(), np.sqrt((exact**2).mean())), rel=1e-14)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    held = array(np.random.default_rng(1).standard_normal(1000))
    whole = stats.of_array(held)
    monkeypatch.setattr(stats, "_BLOCK", 7)
    assert stats.of_array(held).std == pytest.approx(whole.std, rel=1e-14)


def test_what_is_no_number_is_counted_and_left_out() -> None:
    found = stats.of_array(array([1.0, np.nan, np.inf, -np.inf, 3.0]))
    assert (found.count, found.nonfinite, found.min, found.max, found.mean) == (5, 3, 1.0, 3.0, 2.0)


def test_no_number_at_all_has_no_statistics() -> None:
    for values in ([], [np.nan]):
        found = stats.of_array(array(values))
        assert (found.min, found.max, found.mean, found.std, found.rms) == (None,) * 5


def test_a_square_beyond_float64_leaves_no_spread_rather_than_infinity() -> None:
    found = stats.of_array(array([3e300, 4e300], "F64"))
    assert (found.max, found.std, found.rms) == (4e300, None, None)


def test_whole_numbers_and_truths_count_too() -> None:
    assert stats.of_array(Array("I64", np.array([1, 2, 3], dtype="<i8"))).mean == 2.0
    assert stats.of_array(Array("BOOL", np.array([True, False]))).mean == 0.5


def test_scores_and_weights_count_visible_keys_only() -> None:
    random = np.random.default_rng(2)
    q, k, v = (random.standard_normal((9, 4)) for _ in range(3))
    one = head(q, k, v, 0.5, Visibility(tq=9, tk=9, causal=True))
    visible = one.visibility.rows(0, 9)
    scores, weights = (q @ k.T * 0.5)[visible], one.weights(slice(0, 9))[visible]
    found_scores, found_weights = stats.of_head(one)
    assert found_scores.count == found_weights.count == 45
    assert found_scores.mean == pytest.approx(scores.mean(), rel=1e-12)
    assert found_weights.std == pytest.approx(weights.std(), rel=1e-12)


def test_a_row_without_keys_adds_nothing() -> None:
    q, k = np.ones((5, 2)), np.ones((2, 2))
    scores, weights = stats.of_head(head(q, k, k, 0.5, Visibility(tq=5, tk=2, causal=True)))
    assert (scores.count, weights.count, weights.nonfinite) == (3, 3, 0)
