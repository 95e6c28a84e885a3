"""Long prompts: tiles of rows and keys give what whole rows give, and a float32 pass says what it is."""

from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from tracer.arrays import Floats
from tracer.maths import attention, tiles
from tracer.maths.attention import Head, head, rescaled, seen_by
from tracer.maths.threads import one_thread_a_product
from tracer.maths.visibility import Visibility

WINDOWED = Visibility(90, 90, left=6)
SIGHTS = {
    "causal": Visibility(90, 90),
    "a window": WINDOWED,
    "everything": Visibility(90, 90, causal=False),
    "fewer queries than keys": Visibility(40, 90),
    "more queries than keys: the first rows see nothing": Visibility(90, 40),
    "two packed sequences": Visibility(90, 90, starts_q=(0, 33, 90), starts_k=(0, 33, 90)),
    "a mask that hides a row": Visibility(90, 90, mask=np.repeat(np.arange(90)[:, None] % 7 != 3, 90, axis=1)),
    "a mask with holes": Visibility(90, 90, mask=np.arange(8100).reshape(90, 90) % 5 != 0),
}


def random_head(
    visibility: Visibility, *, single: bool = False, size: float = 1.0, around: Floats | None = None
) -> Head:
    random = np.random.default_rng(1)
    q, k, v = (random.standard_normal((n, 8)) * size for n in (visibility.tq, visibility.tk, visibility.tk))
    return head(q, k, v, 0.4, visibility, single=single, around=around)


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "_MANY", 0)
    monkeypatch.setattr(attention, "_VERY_MANY", 0)
    monkeypatch.setattr(tiles, "_ROWS", 16)
    monkeypatch.setattr(tiles, "_KEYS", 12)


FIELDS = ("row_max", "total", "lse", "mean", "output")


@pytest.mark.parametrize("sight", SIGHTS.values(), ids=SIGHTS.keys())
def test_tiles_give_what_whole_rows_give(sight: Visibility, request: pytest.FixtureRequest) -> None:
    whole = random_head(sight)
    request.getfixturevalue("small_tiles")
    tiled = random_head(sight)
    assert tiled.empty_rows == whole.empty_rows
    for field in FIELDS:
        np.testing.assert_allclose(getattr(tiled, field), getattr(whole, field), rtol=1e-12, atol=1e-13, err_msg=field)


@pytest.mark.parametrize("sight", SIGHTS.values(), ids=SIGHTS.keys())
def test_a_float32_pass_lies_within_its_rounding_and_says_how_far(
    sight: Visibility, request: pytest.FixtureRequest
) -> None:
    whole = random_head(sight)
    request.getfixturevalue("small_tiles")
    single = random_head(sight, single=True)
    assert (single.computed.number, single.computed.rows) == ("float32", min(64, sight.tq))
    assert 0 < single.computed.lse < 2e-6
    assert 0 < single.computed.output < 2e-6
    assert single.empty_rows == whole.empty_rows
    for field in FIELDS:
        np.testing.assert_allclose(getattr(single, field), getattr(whole, field), rtol=5e-6, atol=5e-6, err_msg=field)


@pytest.mark.parametrize("off", [0.0, 5.0, -5.0])
@pytest.mark.parametrize("sight", SIGHTS.values(), ids=SIGHTS.keys())
def test_where_logsumexps_are_about_known_the_same_comes_out(
    sight: Visibility, off: float, request: pytest.FixtureRequest
) -> None:
    whole = random_head(sight)
    request.getfixturevalue("small_tiles")
    around = np.where(np.isneginf(whole.lse), 0.0, whole.lse) + off
    single = random_head(sight, single=True, around=around)
    assert single.computed.number == "float32"
    assert single.empty_rows == whole.empty_rows
    for field in FIELDS:
        np.testing.assert_allclose(getattr(single, field), getattr(whole, field), rtol=1e-5, atol=1e-5, err_msg=field)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("off", [60.0, -60.0, 1e30, -1e30])
def test_a_logsumexp_that_is_far_off_changes_nothing(off: float) -> None:
    wrong = random_head(WINDOWED).lse
    wrong[[3, 70]] += off
    found, right = random_head(WINDOWED, single=True, around=wrong), random_head(WINDOWED, single=True)
    for field in FIELDS:
        assert np.array_equal(getattr(found, field), getattr(right, field)), field


@pytest.mark.usefixtures("small_tiles")
def test_a_row_of_a_float32_pass_is_taken_apart_in_float64() -> None:
    exact, single = random_head(WINDOWED), random_head(WINDOWED, single=True)
    assert single.lse[50] != exact.lse[50]
    one, other = single.row(50), exact.row(50)
    assert abs(one.weights.sum() - 1) < 1e-15
    for field in ("row_max", "total", "lse", "weights", "output"):
        np.testing.assert_allclose(getattr(one, field), getattr(other, field), rtol=1e-13, err_msg=field)


@pytest.mark.usefixtures("small_tiles")
def test_numbers_too_large_for_float32_are_computed_in_float64() -> None:
    assert random_head(WINDOWED, single=True, size=1e17).computed.number == "float64"


def test_a_float32_pass_that_differs_by_more_than_rounding_is_not_used(
    small_tiles: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tiles.rows

    def wrong(*arguments: object) -> tiles.Rows:
        sums = real(*arguments)
        return replace(sums, lse=sums.lse + 1e-4) if arguments[5] is np.float32 else sums

    monkeypatch.setattr(tiles, "rows", wrong)
    found = random_head(WINDOWED, single=True)
    assert found.computed.number == "float64"
    assert abs(found.lse - random_head(WINDOWED).lse).max() == 0


@pytest.mark.usefixtures("small_tiles")
def test_numbers_that_are_not_finite_keep_to_whole_rows() -> None:
    random = np.random.default_rng(1)
    q, k, v = (random.standard_normal((30, 4)) for _ in range(3))
    v[3, 1] = np.inf
    found = head(q, k, v, 0.5, Visibility(30, 30), single=True)
    assert found.nonfinite == (("v", 1),)
    assert np.isfinite(found.output[:3]).all()
    assert np.isposinf(found.output[3:, 1]).all()
    assert np.isfinite(found.output[:, 0]).all()


@pytest.mark.usefixtures("small_tiles")
def test_the_same_head_at_another_scale_or_sight_is_computed_the_same_way() -> None:
    single = random_head(WINDOWED, single=True)
    assert rescaled(single, 0.3).computed.number == "float32"
    assert seen_by(random_head(WINDOWED), Visibility(90, 90)).computed.number == "float64"


def test_float32_is_for_long_prompts_only() -> None:
    assert random_head(Visibility(90, 90), single=True).computed.number == "float64"


def test_products_get_their_threads_back() -> None:
    def threads() -> set[int]:
        return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}

    np.ones((2, 2)) @ np.ones((2, 2))
    with threadpool_limits(limits=2, user_api="blas"):
        with one_thread_a_product():
            assert threads() == {1}
        assert threads() == {2}
