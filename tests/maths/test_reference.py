"""The float64 reference, seen against the definition written out, on the inputs where others went wrong."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tracer.arrays import Floats
from tracer.errors import InputError
from tracer.maths import visibility as blocks_of
from tracer.maths.attention import head, rescaled, seen_by
from tracer.maths.visibility import Visibility, blocks


def random(*shape: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape)


def qkv(tq: int, tk: int, d: int = 8, dv: int = 8) -> tuple[Floats, Floats, Floats]:
    return random(tq, d, seed=1), random(tk, d, seed=2), random(tk, dv, seed=3)


def pattern(visibility: Visibility) -> list[str]:
    return ["".join("01"[int(seen)] for seen in row) for row in visibility.rows(0, visibility.tq)]


# ------------------------------------------------------------------------------------------------------ visibility


def test_causal_is_bottom_right() -> None:
    assert pattern(Visibility(2, 5)) == ["11110", "11111"]
    assert pattern(Visibility(5, 2)) == ["00", "00", "00", "10", "11"]
    assert pattern(Visibility(3, 3)) == ["100", "110", "111"]


def test_a_window_counts_from_the_querys_own_place() -> None:
    assert pattern(Visibility(4, 4, left=1)) == ["1000", "1100", "0110", "0011"]
    assert pattern(Visibility(2, 4, left=0)) == ["0010", "0001"]
    assert pattern(Visibility(3, 3, causal=False, left=0, right=1)) == ["110", "011", "001"]
    assert pattern(Visibility(3, 3, causal=False)) == ["111", "111", "111"]


def test_packed_sequences_see_themselves_only_each_from_its_own_bottom_right() -> None:
    packed = Visibility(4, 5, starts_q=(0, 1, 4), starts_k=(0, 3, 5))
    assert pattern(packed) == ["11100", "00000", "00010", "00011"]


def test_a_mask_hides_more() -> None:
    mask = np.array([[0, 1, 1], [1, 1, 1], [1, 0, 1]], dtype=bool)
    assert pattern(Visibility(3, 3, mask=mask)) == ["000", "110", "101"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"mask": np.ones((2, 3), dtype=bool)}, r"mask of shape \(3, 3\) is needed; found \(2, 3\)"),
        ({"starts_q": (0, 2), "starts_k": (0, 3)}, r"end with 3. Found \[0, 2\]"),
        ({"starts_q": (0, 1, 3), "starts_k": (0, 3)}, r"as many starts for queries as for keys"),
    ],
)
def test_a_visibility_that_fits_nothing_is_an_error(arguments: dict[str, object], error: str) -> None:
    with pytest.raises(InputError, match=error):
        Visibility(3, 3, **arguments)


SHAPES = [
    Visibility(1, 1),
    Visibility(7, 7),
    Visibility(3, 9),
    Visibility(9, 3),
    Visibility(20, 20, left=4),
    Visibility(20, 20, causal=False, left=2, right=3),
    Visibility(6, 6, causal=False),
    Visibility(9, 9, starts_q=(0, 4, 4, 9), starts_k=(0, 4, 4, 9)),
    Visibility(6, 9, starts_q=(0, 2, 6), starts_k=(0, 6, 9)),
    Visibility(8, 8, mask=np.random.default_rng(0).random((8, 8)) < 0.6),
]


@pytest.mark.parametrize("visibility", SHAPES, ids=lambda v: f"{v.tq}x{v.tk}")
@pytest.mark.parametrize("rows_in_a_block", [1, 3, 256])
def test_blocks_cover_every_row_once_and_hide_what_the_visibility_hides(
    monkeypatch: pytest.MonkeyPatch, visibility: Visibility, rows_in_a_block: int
) -> None:
    monkeypatch.setattr(blocks_of, "_MOST_ROWS", rows_in_a_block)
    visibility = replace(visibility)  # which keeps its blocks
    seen = np.zeros((visibility.tq, visibility.tk), dtype=bool)
    rows: list[int] = []
    for block in blocks(visibility):
        rows += range(block.start, block.stop)
        seen[block.start : block.stop, block.cols] = block.visible()
        assert (block.empty == ~block.visible().any(axis=1)).all()
    assert rows == list(range(visibility.tq))
    assert len(list(blocks(visibility))) == -(-visibility.tq // rows_in_a_block)
    assert (seen == visibility.rows(0, visibility.tq)).all()


# ------------------------------------------------------------------------------------------------------- reference


@pytest.mark.parametrize("visibility", SHAPES, ids=lambda v: f"{v.tq}x{v.tk}")
@pytest.mark.parametrize("rows_in_a_block", [2, 256])
def test_it_is_the_definition(monkeypatch: pytest.MonkeyPatch, visibility: Visibility, rows_in_a_block: int) -> None:
    monkeypatch.setattr(blocks_of, "_MOST_ROWS", rows_in_a_block)
    visibility = replace(visibility)  # which keeps its blocks
    q, k, v = qkv(visibility.tq, visibility.tk, dv=5)
    result = head(q, k, v, 0.3, visibility)
    for i in range(visibility.tq):
        keys = [j for j in range(visibility.tk) if visibility.rows(i, i + 1)[0, j]]
        if not keys:
            assert i in result.empty_rows
            continue
        scores = np.array([0.3 * float(q[i] @ k[j]) for j in keys])
        weights = np.exp(scores) / np.exp(scores).sum()
        assert result.row_max[i] == pytest.approx(scores.max(), abs=1e-14)
        assert result.total[i] == pytest.approx(np.exp(scores - scores.max()).sum())
        assert result.lse[i] == pytest.approx(np.log(np.exp(scores).sum()), abs=1e-13)
        assert result.mean[i] == pytest.approx(weights @ scores, abs=1e-13)
        assert result.entropy[i] == pytest.approx(-(weights * np.log(weights)).sum(), abs=1e-12)
        assert result.output[i] == pytest.approx(weights @ v[keys], abs=1e-13)
        row = result.row(i)
        assert row.weights[keys] == pytest.approx(weights)
        assert row.weights.sum() == pytest.approx(1)
        assert row.weights @ v == pytest.approx(row.output, abs=1e-13)
        assert row.shifted.sum() == pytest.approx(row.total)
        assert row.dots * 0.3 == pytest.approx(np.where(row.visible, row.scores, row.dots * 0.3))


def test_the_worked_example_of_the_lesson() -> None:
    k, v = np.eye(2), np.diag([1.0, 2.0])
    result = head(np.array([[1.0, 0.0]]), k, v, 2**-0.5, Visibility(1, 2))
    assert result.scores(slice(0, 1))[0] == pytest.approx([0.7071, 0.0], abs=1e-4)
    assert result.weights(slice(0, 1))[0] == pytest.approx([0.6698, 0.3302], abs=1e-4)
    assert result.output[0] == pytest.approx([0.6698, 0.6605], abs=1e-4)


def test_windows_of_scores_and_weights_are_cut_from_the_whole() -> None:
    q, k, v = qkv(9, 9)
    result = head(q, k, v, 0.3, Visibility(9, 9, left=4))
    scores, weights = result.scores(slice(None)), result.weights(slice(None))
    assert weights.sum(axis=1) == pytest.approx(np.ones(9))
    assert weights @ v == pytest.approx(result.output, abs=1e-13)
    assert (np.isneginf(scores) == ~result.visibility.rows(0, 9)).all()
    for rows, cols in itertools.product([slice(0, 1), slice(3, 7)], [slice(0, 4), slice(5, None)]):
        assert result.scores(rows, cols) == pytest.approx(scores[rows, cols])
        assert result.weights(rows, cols) == pytest.approx(weights[rows, cols])


def test_a_row_without_a_key_is_zero_and_listed_never_nan_or_uniform() -> None:
    q, k, v = qkv(5, 2)
    result = head(q, k, v, 0.3, Visibility(5, 2))
    assert result.empty_rows == (0, 1, 2)
    assert (result.output[:3] == 0).all()
    assert (result.weights(slice(0, 3)) == 0).all()
    assert np.isneginf(result.lse[:3]).all()
    assert np.isneginf(result.row_max[:3]).all()
    assert (result.total[:3] == 0).all()
    row = result.row(1)
    assert (row.weights.tolist(), row.shifted.tolist(), row.output.any()) == ([0, 0], [0, 0], False)


def test_the_first_row_fully_masked() -> None:
    mask = np.ones((3, 5), dtype=bool)
    mask[0] = False
    q, k, v = qkv(3, 5)
    result = head(q, k, v, 0.3, Visibility(3, 5, causal=False, mask=mask))
    assert result.empty_rows == (0,)
    assert (result.output[0] == 0).all()
    assert np.isfinite(result.output).all()


def test_left_padding_leaves_the_pad_rows_empty_and_the_others_untouched() -> None:
    q, k, v = qkv(6, 6)
    mask = np.ones((6, 6), dtype=bool)
    mask[:, :2] = False
    padded, plain = head(q, k, v, 0.3, Visibility(6, 6, mask=mask)), head(q[2:], k[2:], v[2:], 0.3, Visibility(4, 4))
    assert padded.empty_rows == (0, 1)
    assert padded.output[2:] == pytest.approx(plain.output, abs=1e-14)


def test_scores_beyond_float16_do_not_overflow() -> None:
    q, k, v = qkv(4, 4)
    large = head(q + 300, k + 300, v, 1.0, Visibility(4, 4))
    assert float(large.row_max.min()) > 65504
    assert np.isfinite(large.output).all()
    assert large.weights(slice(None)).sum(axis=1) == pytest.approx(np.ones(4))


def test_scores_at_the_far_ends_keep_rows_summing_to_one() -> None:
    q, k, v = np.array([[1e3], [1e3]]), np.array([[1e3], [-1e3]]), np.eye(2)
    result = head(q, k, v, 1.0, Visibility(2, 2, causal=False))
    assert result.weights(slice(None)).tolist() == [[1, 0], [1, 0]]
    assert result.lse.tolist() == [1e6, 1e6]
    assert result.mean.tolist() == [1e6, 1e6]


@pytest.mark.parametrize(("name", "index"), [("q", 0), ("k", 1), ("v", 2)])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_carried_to_the_rows_it_reaches_and_counted(name: str, index: int, value: float) -> None:
    inputs = list(qkv(6, 6))
    inputs[index][3, 1] = value
    result, clean = head(*inputs, 0.3, Visibility(6, 6)), head(*qkv(6, 6), 0.3, Visibility(6, 6))
    assert result.nonfinite == ((name, 1),)
    reached = [3] if name == "q" else [3, 4, 5]
    others = [row for row in range(6) if row not in reached]
    assert result.output[others] == pytest.approx(clean.output[others], abs=1e-14)  # hidden keys reach no row
    if name == "v":
        expected = np.full(3, value)
        np.testing.assert_array_equal(result.output[3:, 1], expected)
        assert np.isfinite(result.output[:, [0, 2]]).all()
    elif np.isnan(value):
        assert np.isnan(result.output[reached]).all()
        assert np.isnan(result.lse[reached]).all()
    assert result.empty_rows == ()


def test_a_weight_of_zero_times_infinity_is_undefined_and_so_are_opposite_infinities() -> None:
    q, k, v = np.array([[1e3]]), np.array([[1e3], [-1e3]]), np.array([[1.0], [np.inf]])
    assert np.isnan(head(q, k, v, 1.0, Visibility(1, 2)).output).all()
    v = np.array([[np.inf], [-np.inf]])
    assert np.isnan(head(q * 0, k, v, 1.0, Visibility(1, 2)).output).all()


def test_the_same_head_at_another_scale_or_with_another_mask() -> None:
    q, k, v = qkv(6, 6)
    first = head(q, k, v, 0.3, Visibility(6, 6))
    assert rescaled(first, 0.6).lse == pytest.approx(head(q, k, v, 0.6, Visibility(6, 6)).lse)
    free = Visibility(6, 6, causal=False)
    assert seen_by(first, free).output == pytest.approx(head(q, k, v, 0.3, free).output)


def test_shapes_that_do_not_fit_are_an_error() -> None:
    q, k, v = qkv(4, 4)
    with pytest.raises(InputError, match=r"Found q \(4, 7\), k \(4, 8\), v \(4, 8\)"):
        head(q[:, :7], k, v, 0.3, Visibility(4, 4))
    with pytest.raises(InputError, match="for 5 queries and 4 keys, but there are 4 and 4"):
        head(q, k, v, 0.3, Visibility(5, 4))


def test_memory_grows_with_tokens_and_not_with_their_square() -> None:
    import tracemalloc

    def peak(tokens: int) -> int:
        q, k, v = qkv(tokens, tokens, d=4, dv=4)
        tracemalloc.start()
        head(q, k, v, 0.5, Visibility(tokens, tokens, left=7))
        largest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return largest

    assert peak(16384) < 12 * peak(2048)
