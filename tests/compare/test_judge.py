"""Steps of two engines in one layout, and whether rounding explains what lies between them."""

from typing import Any

import numpy as np
import pytest

from tests.invented_trace import array, invented, site
from tracer.compare import align, judge
from tracer.compare import json as as_json
from tracer.compare.page import compare_page
from tracer.compare.records import Comparison, Pair, Side, Standing, Value
from tracer.render.terminal.render import render
from tracer.render.terminal.screen import Screen
from tracer.saved.axes import tokens_first
from tracer.texts import message


def value(numbers: Any, dtype: str = "F32", name: str = "q", layer: int = 0) -> Value:
    return Value(layer, name, array(np.asarray(numbers, np.float64), dtype), site(10, "q"))


# ------------------------------------------------------------------------------------------------------- one layout


@pytest.mark.parametrize(
    ("axes", "shape"),
    [
        (("B", "T", "H·D"), (1, 3, 8)),
        (("T", "H·D"), (3, 8)),
        (("B", "T", "H", "D"), (1, 3, 2, 4)),
        (("B", "H", "T", "D"), (1, 2, 3, 4)),
        (("T", "H", "D"), (3, 2, 4)),
        (("T", "B", "D/2"), (3, 1, 8)),
    ],
    ids=str,
)
def test_every_layout_ends_with_tokens_first_and_no_batch_axis(axes: tuple[str, ...], shape: tuple[int, ...]) -> None:
    numbers = np.arange(24.0).reshape(shape)
    found = tokens_first(array(numbers), axes, "q").float64()
    assert found.shape[0] == 3
    tokens = axes.index("T")
    for t in range(3):
        assert np.array_equal(found[t].reshape(-1), np.take(numbers, t, axis=tokens).reshape(-1))


def test_cosines_kept_for_both_halves_of_a_head_line_up_with_those_kept_for_one() -> None:
    half = np.arange(6.0).reshape(1, 3, 2)
    both = tokens_first(array(np.concatenate([half, half], -1)), ("B", "T", "D"), "cos")
    assert np.array_equal(both.float64(), half[0])


def test_halves_that_differ_are_not_thrown_away() -> None:
    numbers = np.arange(12.0).reshape(1, 3, 4)
    assert tokens_first(array(numbers), ("B", "T", "D"), "cos").shape == (3, 4)


def test_a_trace_s_steps_come_in_the_order_they_run() -> None:
    names = list(align.values(invented()))
    assert names.index("q_proj") < names.index("q") < names.index("output")


# --------------------------------------------------------------------------------------------------------- distances


def test_equal_numbers_are_the_same_whatever_holds_them() -> None:
    a, b = value([1.0, 0.5], "F32"), value([1.0, 0.5], "BF16")
    assert judge.pair(a, b, 0.0, "BF16").standing is Standing.SAME


def test_two_spacings_are_rounding_and_three_are_not() -> None:
    unit = 2.0**-23
    assert judge.pair(value([1.0]), value([1.0 + 2 * unit]), 0.0, "F32").standing is Standing.ROUNDING
    parted = judge.pair(value([1.0]), value([1.0 + 3 * unit]), 0.0, "F32")
    assert parted.standing is Standing.PARTS
    assert parted.distance is not None
    assert parted.distance.spacings == 3.0


def test_what_the_yardstick_moves_is_allowed_three_times() -> None:
    own, other = value([1.0, 2.0]), value([1.0, 2.125], "F64")
    assert judge.noise(own, other) == 0.125
    assert judge.pair(own, value([1.0, 2.375]), 0.125, "F32").standing is Standing.ROUNDING
    assert judge.pair(own, value([1.0, 2.5]), 0.125, "F32").standing is Standing.PARTS


def test_the_spacing_is_that_of_the_largest_number_compared() -> None:
    # next to 0 a number's own spacing would make a rounding error of its neighbours look enormous
    found = judge.distance(array([1e-9, 100.0]), array([2e-9, 100.0]), "F32")
    assert found.spacings < 1e-3
    assert found.largest == pytest.approx(1e-9, rel=1e-6)


@pytest.mark.parametrize("there", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_on_one_side_alone_parts(there: float) -> None:
    # Public reports: abs(a − b) > tolerance is False for NaN, and a comparison passed.
    for a, b in (([1.0, there], [1.0, 2.0]), ([1.0, 2.0], [1.0, there])):
        parted = judge.pair(value(a), value(b), 1e9, "F32")
        assert parted.standing is Standing.PARTS
        assert parted.distance is not None
        assert parted.distance.nonfinite == 1


def test_the_same_nan_and_infinity_on_both_sides_are_no_difference() -> None:
    both = value([np.nan, np.inf, 1.0])
    assert judge.pair(both, value([np.nan, np.inf, 1.0]), 0.0, "F32").standing is Standing.SAME
    assert judge.pair(both, value([np.nan, -np.inf, 1.0]), 0.0, "F32").standing is Standing.PARTS


def test_a_step_of_one_side_alone_is_named_and_compared_with_nothing() -> None:
    assert judge.pair(value([1.0]), None, 0.0, "F32").standing is Standing.ONLY_A
    assert judge.pair(None, value([1.0]), 0.0, "F32").standing is Standing.ONLY_B
    assert judge.pair(value([1.0]), value([1.0, 2.0]), 0.0, "F32").standing is Standing.SHAPE


# ------------------------------------------------------------------------------------------------ the first difference


def comparison(steps: list[Pair], before: list[Pair], inside: list[Pair] | None = None) -> Comparison:
    side = Side("x", invented())
    told = message("compare.nothing")
    return Comparison(side, side, "F32", tuple(steps), tuple(before), (), told, tuple(inside or ()))


def step(layer: int, name: str, parts: bool = False) -> Pair:
    return judge.pair(value([1.0], name=name, layer=layer), value([2.0 if parts else 1.0]), 0.0, "F32")


def test_steps_are_ordered_as_the_model_runs_them() -> None:
    around = [step(layer, name) for layer in (0, 1) for name in ("input", "norm", "residual", "attention", "mlp")]
    found = comparison([step(1, "q")], around, [step(0, "q")])
    assert [(pair.layer, pair.name) for pair in found.sequence] == [
        (0, "input"), (0, "norm"), (0, "residual"), (0, "q"), (0, "attention"), (0, "mlp"),
        (1, "input"), (1, "norm"), (1, "residual"), (1, "q"), (1, "attention"), (1, "mlp"),
    ]  # fmt: skip


def test_the_first_difference_is_the_first_in_that_order() -> None:
    found = comparison([step(1, "q", True)], [step(0, "residual", True), step(0, "attention", True)])
    assert found.first is not None
    assert (found.first.layer, found.first.name) == (0, "residual")
    assert (found.agree, found.exit_code) == (False, 1)


def test_a_step_of_another_shape_parts_also_where_all_else_is_the_same() -> None:
    other = judge.pair(value([1.0], name="k"), value([1.0, 2.0], name="k"), 0.0, "F32")
    found = comparison([step(0, "q"), other, step(0, "v")], [])
    assert found.first is other
    assert (found.agree, found.exit_code) == (False, 1)
    text = " ".join(render(compare_page(found, "en"), Screen(width=200)).split())
    assert "✗ they part at “k”, layer 0" in text
    assert "A holds [1] numbers there and B [2], so that none can be compared." in text
    assert as_json.to_json(found, "en")["steps"][1]["shapes"] == {"a": [1], "b": [2]}


def test_a_step_of_one_side_alone_parts_nothing() -> None:
    assert comparison([step(0, "q"), judge.pair(value([1.0]), None, 0.0, "F32")], []).agree


def test_two_that_share_no_step_are_not_said_to_agree() -> None:
    alone = judge.pair(value([1.0]), None, 0.0, "F32")
    assert comparison([alone], []).exit_code == 3
    assert comparison([step(0, "q"), alone], []).exit_code == 0
