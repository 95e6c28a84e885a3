"""How numbers become text."""

import math

import numpy as np
import pytest

from tracer.page.numbers import fixed, matrix_decimals, share, significant


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (0.66976, 2, "0.67"),
        (-0.306, 2, "−0.31"),
        (-0.001, 2, "0.00"),
        (0.0, 4, "0.0000"),
        (1234.5, 0, "1234"),
        (math.inf, 2, "∞"),
        (-math.inf, 2, "−∞"),
        (math.nan, 2, "NaN"),
    ],
)
def test_fixed(value: float, decimals: int, text: str) -> None:
    assert fixed(value, decimals) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.2345, "1.23"), (123.45, "123"), (0.012345, "0.0123"), (-1.5e-7, "−1.50e−07"), (0.0, "0"), (math.inf, "∞")],
)
def test_significant(value: float, text: str) -> None:
    assert significant(value) == text


@pytest.mark.parametrize(("largest", "decimals"), [(3.0, 2), (150.0, 1), (5000.0, 0), (-np.inf, 2)])
def test_a_matrix_of_large_numbers_has_fewer_decimals(largest: float, decimals: int) -> None:
    assert matrix_decimals(np.array([0.5, largest])) == decimals


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1.00"), (0.366, "0.37"), (0.005, "0.01"), (6.1e-4, "6e−4"), (2e-12, "2e−12"), (0.0, "0.00")],
)
def test_a_weight_is_never_shown_as_nothing_where_it_is_something(value: float, text: str) -> None:
    assert share(value) == text
