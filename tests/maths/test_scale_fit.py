"""The effective scale is found from what a kernel gave back, to a tolerance that the input itself sets."""

import numpy as np
import pytest

from tracer.arrays import Floats
from tracer.errors import InputError
from tracer.maths.attention import Head, head, seen_by
from tracer.maths.scale import LSE_NOISE, fit_lse, fit_output
from tracer.maths.visibility import Visibility

D = 32
EXPECTED = D**-0.5
NOISE = LSE_NOISE["F32"]


def at(scale: float, tokens: int = 40, spread: float = 1.0, seed: int = 0) -> Head:
    random = np.random.default_rng(seed)
    q, k, v = (random.standard_normal((tokens, D)) for _ in range(3))
    return head(q * spread, k, v, scale, Visibility(tokens, tokens))


@pytest.mark.parametrize("factor", [1.0, 1 + 3e-6, 1.001, 1.4142, 2.0, D**0.5, D**-0.5, 0.1])
def test_the_scale_is_found_from_the_logsumexp(factor: float) -> None:
    fit = fit_lse(at(EXPECTED), at(EXPECTED * factor).lse, NOISE)
    assert fit is not None
    assert fit.scale == pytest.approx(EXPECTED * factor, rel=1e-9)
    assert fit.tells
    assert fit.residual < 1e-9


@pytest.mark.parametrize("factor", [1.0, 1 + 3e-6, 1.4142, 2.0, D**0.5, D**-0.5])
def test_the_scale_is_found_from_the_output_alone(factor: float) -> None:
    fit = fit_output(at(EXPECTED), at(EXPECTED * factor).output, "F32", "F32")
    assert fit is not None
    assert fit.scale == pytest.approx(EXPECTED * factor, rel=1e-8)
    assert fit.residual < 1e-8


def noisy(values: Floats, noise: float) -> Floats:
    return values + noise * np.random.default_rng(9).standard_normal(values.shape)


@pytest.mark.parametrize("tokens", [2, 5, 40, 400])
@pytest.mark.parametrize("spread", [0.01, 0.1, 1.0, 5.0])
def test_noise_moves_the_scale_by_less_than_the_tolerance(tokens: int, spread: float) -> None:
    right = at(EXPECTED, tokens, spread)
    fit = fit_lse(right, noisy(right.lse, NOISE), NOISE)
    assert fit is not None
    assert abs(fit.scale / EXPECTED - 1) <= fit.tolerance
    assert fit.tolerance >= 1e-6


def test_scores_that_are_nearly_alike_tell_nothing() -> None:
    assert not fit_lse(at(EXPECTED, spread=1e-6), at(EXPECTED, spread=1e-6).lse, LSE_NOISE["BF16"]).tells
    nothing = fit_lse(at(EXPECTED, spread=0.0), at(EXPECTED, spread=0.0).lse, NOISE)
    assert (nothing.tolerance, nothing.tells) == (float("inf"), False)


def test_a_wrong_mask_leaves_a_residual_so_that_no_scale_is_blamed() -> None:
    right = at(EXPECTED)
    fit = fit_lse(right, seen_by(right, Visibility(40, 40, causal=False)).lse, NOISE)
    assert fit.residual > 0.1


def test_rows_without_a_key_and_rows_that_are_not_finite_are_left_out() -> None:
    random = np.random.default_rng(0)
    q, k, v = random.standard_normal((9, D)), random.standard_normal((6, D)), random.standard_normal((6, D))
    right = head(q, k, v, EXPECTED, Visibility(9, 6))
    lse = np.where(np.isneginf(right.lse), 0.0, right.lse)  # as torch's kernel has it
    lse[5] = np.nan
    assert fit_lse(right, lse, NOISE).rows == 5
    assert fit_lse(right, lse * np.nan, NOISE) is None
    assert fit_output(right, right.output * np.nan, "F32", "F32") is None


def test_long_prompts_use_evenly_spaced_rows() -> None:
    right, wrong = at(EXPECTED, 700), at(2 * EXPECTED, 700)
    fit = fit_lse(right, wrong.lse, NOISE)
    assert fit.rows == 256
    assert fit.scale == pytest.approx(2 * EXPECTED, rel=1e-9)
    assert fit_lse(right, right.lse, NOISE).rows == 700  # one step from the right scale needs no sample


def test_another_number_of_rows_is_an_error() -> None:
    with pytest.raises(InputError, match=r"one logsumexp for each of 40 queries; found an array of shape \(3,\)"):
        fit_lse(at(EXPECTED), np.zeros(3), NOISE)
