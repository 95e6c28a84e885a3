"""What the experiments show: each claim measured, and for each mistake a lab warns of, that it is a mistake."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.invented_trace import invented
from tracer.errors import InputError
from tracer.labs import axes, flash, mask, scale, scale_page, softmax
from tracer.labs.softmax import bounds, shifted, tried
from tracer.maths.attention import head
from tracer.maths.visibility import Visibility
from tracer.result import look_at
from tracer.saved.write import save

# ------------------------------------------------------------------------------------------------ softmax


@pytest.mark.parametrize("dtype", softmax.DTYPES)
def test_exp_leaves_a_format_where_the_lab_says(dtype: str) -> None:
    low, high = bounds(dtype)
    wide = np.longdouble if dtype == "float64" else np.float64
    with np.errstate(over="ignore", under="ignore"):
        held = [np.exp(wide(score)).astype(dtype) for score in (low - 1e-3, low + 1e-3, high - 1e-3, high + 1e-3)]
    assert held[0] == 0
    assert held[1] > 0
    assert np.isfinite(held[2])
    assert np.isinf(held[3])


def test_the_plain_softmax_breaks_upwards_and_downwards_and_the_stable_one_never() -> None:
    row = np.array([2.0, 1.0, 0.0])
    faults = {shift: shifted(row, shift) for shift in softmax.SHIFTS}
    assert [faults[90.0].plain[dtype].fault for dtype in softmax.DTYPES] == ["overflow", "overflow", None]
    assert [faults[-110.0].plain[dtype].fault for dtype in softmax.DTYPES] == ["vanished", "vanished", None]
    assert all(each.stable[dtype].fault is None for each in faults.values() for dtype in softmax.DTYPES)


def test_subtracting_the_mean_is_no_cure() -> None:
    scores = np.array([30.0, 0.0, 0.0])
    assert tried(scores - scores.mean(), "float16", subtract=False).fault == "overflow"
    assert tried(scores, "float16", subtract=True).fault is None


def test_too_many_scores_are_refused() -> None:
    with pytest.raises(InputError, match="takes at most 12 scores"):
        softmax.lesson(scores=str([1] * 13))


# ------------------------------------------------------------------------------------------------ axes


def test_rows_sum_to_one_only_along_the_right_axis() -> None:
    found = axes.axes(2, 3, 4, 5, seed=0)
    assert np.allclose(found.over_keys.sum(axis=1), 1)
    assert np.allclose(found.over_queries.sum(axis=0), 1)
    assert not np.allclose(found.over_queries.sum(axis=1), 1)


def test_both_mistakes_with_heads_have_right_shapes_and_wrong_contents() -> None:
    found = axes.heads()
    assert all(name.endswith(f"h{h}") for h, row in enumerate(found.right) for name in row)
    assert [len(row) for row in found.wrong] == [len(row) for row in found.right]
    assert found.wrong != found.right
    assert (found.shared, found.tiled) == ((0, 0, 1, 1), (0, 1, 0, 1))


def test_axes_of_equal_length_are_spoken_of_as_such() -> None:
    assert axes.lesson().before.text().startswith("All axes have different lengths")
    assert axes.lesson(tk=2).before.text().startswith("Some axes have the same length")


# ------------------------------------------------------------------------------------------------ mask


def test_only_masking_before_the_softmax_is_right_bit_for_bit() -> None:
    first, none, late, again = mask.masked(5, 5, None, seed=0).variants
    assert (first.right, first.moved, first.rounding) == (True, (4,), ())
    assert (none.right, none.hidden_weight > 0) == (False, True)
    assert (late.right, late.hidden_weight, late.moved) == (False, 0.0, (0, 1, 2, 3, 4))
    assert (again.right, again.moved) == (True, (4,))
    assert np.allclose(again.weights, first.weights)


def test_more_queries_than_keys_leave_rows_without_any() -> None:
    found = mask.masked(5, 2, None, seed=0)
    assert found.visible.tolist() == [[False, False]] * 3 + [[True, False], [True, True]]
    assert found.head.empty_rows == (0, 1, 2)
    assert not any(set(each.rounding) & {0, 1, 2} for each in found.variants[2:])


def test_a_window_hides_what_is_further_back() -> None:
    assert mask.masked(3, 3, 1, seed=0).visible.tolist() == np.eye(3, dtype=bool).tolist()


# ------------------------------------------------------------------------------------------------ flash


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("tile", [1, 2, 3, 7, 12, 100])
def test_tile_by_tile_equals_all_at_once(tile: int, backward: bool, causal: bool) -> None:
    one = flash.small_head(12, seed=3, causal=causal)
    assert flash.compared(one, tile, backward).equal


def test_forgetting_the_correction_is_seen() -> None:
    one = flash.small_head(12, seed=0, causal=True)
    found = flash.online(one, 11, 4)
    assert np.allclose(found.output, one.output[11])
    assert np.abs(found.without_rescaling - one.output[11]).max() > 0.1


def test_scores_that_would_overflow_do_not() -> None:
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((8, 4)) * size for size in (1e3, 1e3, 1))
    one = head(q, k, v, 1.0, Visibility(tq=8, tk=8))
    assert flash.compared(one, 3, False).output < 1e-12


def test_tiles_in_the_future_are_skipped() -> None:
    one = flash.small_head(12, seed=0, causal=True)
    assert [tile.skipped for tile in flash.online(one, 4, 4).tiles] == [False, False, True]


def test_the_largest_head_takes_a_moment() -> None:
    assert flash.lesson(keys=4096, tile=1).exit_code == 0


def test_a_query_that_is_not_followed_is_refused() -> None:
    with pytest.raises(InputError, match="There is no query 12; the last one is 11"):
        flash.lesson(query=12)


# ------------------------------------------------------------------------------------------------ scale


@pytest.mark.parametrize("d", [4, 64, 256])
def test_the_variance_of_q_dot_k_is_d_and_of_the_scaled_one_is_1(d: int) -> None:
    found = scale.spread(d, 20_000, seed=1)
    assert found.variance == pytest.approx(d, rel=0.1)
    assert found.scaled_variance == pytest.approx(1, rel=0.1)
    assert found.entropy_unscaled < found.entropy_scaled < found.entropy_by_d <= 1


def test_one_dimension_makes_no_difference() -> None:
    found = scale.spread(1, 1000, seed=0)
    assert found.entropy_unscaled == found.entropy_scaled == found.entropy_by_d


def test_a_size_has_the_same_figures_whatever_else_is_asked_for() -> None:
    alone = scale_page.lesson(dims=(64,), samples=500).json("en")["random"][0]
    among = scale_page.lesson(dims=(4, 64, 128), samples=500).json("en")["random"][1]
    assert alone == among


def test_real_heads_come_from_a_saved_trace(tmp_path: Path) -> None:
    traced = look_at(invented(), 0)
    save(traced, tmp_path / "saved.safetensors")
    found = scale_page.lesson(dims=(4,), samples=100, trace=tmp_path / "saved.safetensors").json("en")["real"]
    assert [entry["head"] for entry in found["heads"]] == list(range(traced.layer.model.heads))
    one = traced.reference
    visible = one.visibility.rows(0, len(one.q))
    dots = (one.q @ one.k.T)[visible]
    assert found["heads"][0]["variance"] == pytest.approx(dots.var())
    assert found["heads"][0]["scaled_variance"] == pytest.approx(dots.var() * one.scale**2)
    with pytest.raises(InputError, match="99"):
        scale_page.lesson(dims=(4,), samples=100, trace=tmp_path / "saved.safetensors", head=99)


@pytest.mark.parametrize(
    ("options", "id"),
    [
        ({"dims": (10**9,)}, "labs.size"),
        ({"dims": tuple(range(1, 18))}, "labs.scale_sizes"),
        ({"samples": 10**9}, "labs.size"),
        ({"dims": (4096,), "samples": 10**6}, "labs.scale_budget"),
        ({"trace": Path("x"), "run": True}, "labs.scale_two_sources"),
        ({"layer": 0}, "labs.scale_needs_run"),
        ({"head": 0}, "labs.scale_needs_heads"),
    ],
)
def test_what_cannot_be_measured_is_refused(options: dict[str, Any], id: str) -> None:
    with pytest.raises(InputError) as caught:
        scale_page.lesson(**options)
    assert caught.value.id == id
