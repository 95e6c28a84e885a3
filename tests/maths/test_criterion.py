"""When two results count as the same; NaN on one side alone never does."""

import numpy as np
import pytest

from tracer.maths.criterion import difference, lse_tolerance, numerics

NAN, INF = np.nan, np.inf


def test_the_largest_difference_and_where_it_is() -> None:
    found = difference(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 2.5], [3.0, 4.25]]))
    assert (found.largest, found.at, found.mismatched) == (0.5, (0, 1), 0)
    assert found.within(0.5)
    assert not found.within(0.4)


@pytest.mark.parametrize(
    ("a", "b", "mismatched", "undefined"),
    [
        (NAN, 1.0, 1, 0),
        (1.0, NAN, 1, 0),
        (INF, 1.0, 1, 0),
        (INF, -INF, 1, 0),
        (NAN, INF, 1, 0),
        (NAN, NAN, 0, 1),
        (-INF, -INF, 0, 1),
    ],
)
def test_nan_against_a_number_is_a_mismatch_in_either_order(
    a: float, b: float, mismatched: int, undefined: int
) -> None:
    found = difference(np.array([0.0, a]), np.array([0.0, b]))
    assert (found.mismatched, found.undefined, found.compared) == (mismatched, undefined, 1)
    assert found.first_mismatch == ((1,) if mismatched else None)
    assert found.within(1e9) is (mismatched == 0)


def test_nothing_compared_is_never_within() -> None:
    assert not difference(np.array([NAN]), np.array([NAN])).within(1.0)
    assert not difference(np.zeros(0), np.zeros(0)).within(1.0)
    with pytest.raises(ValueError, match=r"not \(2,\) and \(3,\)"):
        difference(np.zeros(2), np.zeros(3))


def test_a_kernel_may_err_twice_as_much_as_plain_products_and_a_little_more() -> None:
    reference = np.ones((2, 3))
    eager = reference + 1e-3
    limit = 2 * 1e-3 + 3e-5
    just, over = (numerics(reference + error, eager, reference, "BF16") for error in (limit - 1e-9, limit + 1e-9))
    assert just.eager_error == pytest.approx(1e-3)
    assert just.tolerance == pytest.approx(limit)
    assert just.ok
    assert not over.ok


def test_rows_where_plain_products_overflow_say_nothing_about_the_kernel() -> None:
    reference = np.ones((3, 2))
    eager = reference.copy()
    eager[1] = NAN
    result = numerics(reference, eager, reference, "F16")
    assert (result.eager_overflow, result.eager_error, result.ok) == (1, 0.0, True)
    assert result.tolerance == 3e-5
    all_gone = numerics(reference + 1e-3, eager * NAN, reference, "F16")
    assert (all_gone.eager_overflow, all_gone.eager_error) == (3, None)
    assert all_gone.tolerance == 2 * 2.0**-10 + 3e-5  # two steps of float16 at the largest output, 1
    assert all_gone.ok


def test_a_kernel_that_is_not_finite_fails_even_where_plain_products_overflow() -> None:
    reference, eager = np.ones((3, 2)), np.full((3, 2), NAN)
    kernel = reference.copy()
    kernel[1, 1] = NAN
    result = numerics(kernel, eager, reference, "F16")
    assert (result.kernel.mismatched, result.kernel.first_mismatch, result.ok) == (1, (1, 1), False)


def test_the_bound_of_a_logsumexp_grows_with_large_scores_only() -> None:
    assert lse_tolerance("BF16", 10.0) == 1e-4
    assert lse_tolerance("F32", 1.0) == 5e-6
    assert lse_tolerance("F32", 1000.0) == pytest.approx(16 * 2.0**-23 * 1000)


def test_one_column_that_is_not_finite_takes_no_row_out_of_the_comparison() -> None:
    """As one weight of v_proj makes it: every row holds a NaN, and the other columns still tell eager's error."""
    reference, eager = np.ones((4, 3)), np.full((4, 3), 1.01)
    reference[:, 0] = eager[:, 0] = np.nan
    result = numerics(eager, eager, reference, "BF16")
    assert result.eager_error == pytest.approx(0.01)
    assert (result.eager_overflow, result.ok, result.kernel.undefined) == (0, True, 4)
    assert numerics(eager, None, reference, "BF16").tolerance > 3e-5
