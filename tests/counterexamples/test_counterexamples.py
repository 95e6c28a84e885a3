"""Every counterexample changes what it says it changes, and the very checks that end a trace notice it."""

import numpy as np
import pytest

from tests.invented_trace import invented
from tracer.checks.reference import reference
from tracer.checks.suite import run_checks
from tracer.counterexamples import faults
from tracer.counterexamples.planted import eager, moved, planted, rounded
from tracer.counterexamples.run import EMPTY, MOST_TOKENS, NO_MAX, TILED, Counterexample, counterexamples, inputs
from tracer.counterexamples.shorter import beginning
from tracer.records import LayerTrace, Status

HEAD = 2  # of 4 on 2 KV heads: it reads KV head 1, and tiled KV head 0


@pytest.fixture(scope="module")
def layer() -> LayerTrace:
    return invented(24)


@pytest.fixture(scope="module")
def found(layer: LayerTrace) -> dict[str, Counterexample]:
    return {each.id: each for each in counterexamples(layer, HEAD)}


def failing(each: Counterexample) -> set[str]:
    return {check.id for check in each.caught_by}


@pytest.mark.parametrize("dtype", ["F64", "F32", "BF16", "F16"])
def test_attention_done_right_fails_no_check(dtype: str) -> None:
    layer = invented(24, dtype)
    right = reference(layer, HEAD)
    again = planted(layer, HEAD, faults.right, inputs(right))
    assert not [check.id for check in run_checks(again, HEAD, right) if check.status is Status.FAIL]


@pytest.mark.parametrize(
    ("id", "caught"),
    [
        ("no_scale", {"scale.effective", "kernel.output", "kernel.lse"}),
        ("scale_twice", {"scale.effective", "kernel.output", "kernel.lse"}),
        ("no_mask", {"causal.effect", "causal.weights", "kernel.output", "kernel.lse"}),
        ("mask_after_softmax", {"causal.effect", "softmax.rows", "kernel.output"}),
        ("wrong_axis", {"causal.effect", "softmax.rows", "kernel.output", "kernel.lse"}),
        ("no_max", {"kernel.output", "kernel.lse", "softmax.rows"}),
        ("tiled_heads", {"heads.kv", "kernel.output"}),
        ("empty_row", {"softmax.empty"}),
    ],
)
def test_a_fault_is_noticed_by_the_checks_it_concerns(
    found: dict[str, Counterexample], id: str, caught: set[str]
) -> None:
    assert caught <= failing(found[id])


def test_what_the_kernel_was_told_is_not_what_notices(found: dict[str, Counterexample]) -> None:
    told = {"scale.value", "scale.lineage", "causal.flag"}
    assert not told & {id for each in found.values() for id in failing(each)}


@pytest.mark.parametrize("layer", [invented(24), invented(24, "BF16")], ids=["float32", "bfloat16"])
def test_the_sums_that_are_judged_are_those_of_the_weights_that_are_shown(layer: LayerTrace) -> None:
    """Not Σ exp(score − logsumexp): a fault's logsumexp need not belong to its weights, a column's for one."""
    for each in counterexamples(layer, HEAD):
        check = next(check for check in each.checks if check.id == "softmax.rows")
        rows = np.delete(each.wrong.weights, each.row, axis=0) if each.id == EMPTY else each.wrong.weights
        sums = rows.sum(axis=1)
        off = np.nan_to_num(np.abs(sums - 1), nan=np.inf)
        total = check.figures["total"]
        if np.isfinite(off).all():
            assert total == pytest.approx(sums[off.argmax()], abs=1e-5)
        else:
            assert total is None  # NaN has no place in JSON
            assert "nan" in check.measured.text("en").lower()
        assert (check.status is Status.FAIL) == (off.max() > 1e-5)


def test_a_weight_that_was_set_to_zero_is_not_said_to_be_there(found: dict[str, Counterexample]) -> None:
    assert "causal.weights" not in failing(found["mask_after_softmax"])
    assert "causal.weights" in failing(found["no_mask"])


@pytest.mark.parametrize("dtype", ["F64", "F32", "BF16", "F16"])
def test_changed_inputs_are_judged_by_what_plain_products_make_of_the_very_same(dtype: str) -> None:
    """The eager path of the run knows nothing of enlarged queries or hidden keys: its error would be their distance."""
    layer = invented(24, dtype)
    for each in counterexamples(layer, HEAD):
        if each.id not in (NO_MAX, EMPTY):
            continue
        (check,) = (check for check in each.checks if check.id == "kernel.output")
        assert 3e-5 <= float(check.figures["tolerance"] or 0) < (0.2 if "16" in dtype else 1e-4)


@pytest.mark.parametrize("dtype", ["F64", "F32", "BF16", "F16"])
def test_plain_products_are_as_far_off_as_their_dtype(dtype: str) -> None:
    right = reference(invented(24, dtype), HEAD)
    apart = np.abs(eager(inputs(right), dtype) - right.output).max()
    assert apart < {"F64": 1e-14, "F32": 2e-6, "BF16": 0.05, "F16": 0.005}[dtype]
    assert apart > {"F64": 0, "F32": 1e-9, "BF16": 1e-4, "F16": 1e-5}[dtype]


def test_faults_keep_what_they_leave_alone(found: dict[str, Counterexample]) -> None:
    for id in ("no_scale", "scale_twice", "no_mask", TILED):
        np.testing.assert_allclose(found[id].wrong.weights.sum(axis=1), 1)
    after = found["mask_after_softmax"].wrong
    assert (after.weights[np.triu_indices(24, 1)] == 0).all()
    assert (after.weights.sum(axis=1)[:-1] < 1).all()
    np.testing.assert_allclose(found["wrong_axis"].wrong.weights.sum(axis=0), 1)


def test_without_the_maximum_large_scores_overflow_and_small_ones_do_not(found: dict[str, Counterexample]) -> None:
    each = found[NO_MAX]
    assert each.figures["largest"] == pytest.approx(100)
    top = np.where(np.isfinite(each.right.scores), each.right.scores, -np.inf).max(axis=1)
    lost = ~np.isfinite(each.wrong.output).all(axis=1)
    np.testing.assert_array_equal(lost, top > np.log(np.finfo(np.float32).max))
    assert lost.any()
    assert not lost.all()
    np.testing.assert_allclose(each.wrong.output[~lost], each.right.output[~lost], rtol=1e-4, atol=1e-5)


def test_a_row_that_sees_nothing_has_no_number_and_the_others_keep_theirs(found: dict[str, Counterexample]) -> None:
    each = found[EMPTY]
    assert np.isnan(each.wrong.output[each.row]).all()
    others = np.arange(24) != each.row
    np.testing.assert_array_equal(each.wrong.output[others], each.right.output[others])


def test_a_head_that_reads_its_own_kv_head_either_way_says_so(layer: LayerTrace) -> None:
    tiled = {each.id: each for each in counterexamples(layer, 0)}[TILED]
    assert tiled.figures == {"own": 0, "read": 0}
    assert not tiled.changes
    assert not tiled.caught_by


def test_the_kernels_own_weights_are_replaced_too() -> None:
    from dataclasses import replace

    from tests.invented_trace import array
    from tracer.records import Capture

    layer = invented(8)
    right = reference(layer, HEAD)
    weights = np.zeros((1, 4, 8, 8))
    weights[0, HEAD] = right.weights(slice(None))
    kept = Capture("kernel_weights", "A", ("B", "H", "Tq", "Tk"), array(weights), layer.kernel.site, "A")
    layer = replace(layer, captures={**layer.captures, "kernel_weights": kept})
    wrong = planted(layer, HEAD, faults.no_mask, inputs(right))
    later = wrong.captures["kernel_weights"].array.float64()[0, HEAD][np.triu_indices(8, 1)]
    assert (later > 0).all()


def test_a_token_that_is_changed_moves_earlier_rows_only_where_something_leaks(layer: LayerTrace) -> None:
    given = inputs(reference(layer, HEAD))
    assert moved(faults.right, given, [5], "F32") == ((5, None, True),)
    assert moved(faults.no_mask, given, [5], "F32") == ((5, 0, True),)


def test_a_long_prompt_is_cut_to_its_beginning_and_says_the_same_there() -> None:
    layer = invented(MOST_TOKENS + 9)
    short = beginning(layer, MOST_TOKENS)
    assert len(short.tokens) == short.kernel.output.shape[0] == MOST_TOKENS
    assert short.kernel.arguments["cu_seqlens_q"] == [0, MOST_TOKENS]
    whole, part = reference(layer, HEAD), reference(short, HEAD)
    np.testing.assert_allclose(part.output, whole.output[:MOST_TOKENS])
    assert not [check for check in run_checks(short, HEAD, part) if check.status is Status.FAIL]
    assert beginning(short, MOST_TOKENS) is short


def test_rounding_to_bfloat16_is_to_nearest_and_keeps_what_is_no_number() -> None:
    values = np.array([1.0, 1.00390625, 1.01171875, -3.14159, np.nan, np.inf])  # two ties among them
    np.testing.assert_array_equal(
        rounded(values, "BF16").float64(), np.array([1.0, 1.0, 1.015625, -3.140625, np.nan, np.inf])
    )
