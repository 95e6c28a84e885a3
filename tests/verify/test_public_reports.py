"""What people ran into elsewhere, each with its right answer. The numbers in names are those of the public reports."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import Qwen3Config

import tracer
from tests.verify import attentions
from tests.verify.attentions import put
from tests.verify.conftest import IDS, failed, live_model, outcome, status
from tracer.engines.transformers import probes
from tracer.kernels import cpu_flash
from tracer.maths.criterion import difference, numerics
from tracer.records import Status
from tracer.verification.claims.scales import evaluate
from tracer.verification.entry import verify_checkpoint, verify_model
from tracer.verification.faults.grid import SHAPES, checkpoint

# hidden_size / heads of the published models; head_dim is 128 in all of them.
PUBLISHED = {
    "0.6B": (1024, 16),
    "1.7B": (2048, 16),
    "4B": (2560, 32),
    "8B": (4096, 32),
    "14B": (5120, 40),
    "32B": (5120, 64),
}
BLIND = {"1.7B", "8B", "14B"}


class TestScale:
    """S1, S4: the scale comes from head_dim, which is not hidden_size / heads."""

    @pytest.mark.parametrize("size", PUBLISHED)
    def test_the_scale_of_every_published_model(self, size: str) -> None:
        hidden, heads = PUBLISHED[size]
        names = {"self.head_dim": 128.0, "config.hidden_size": hidden, "config.num_attention_heads": heads}
        assert evaluate("self.head_dim**-0.5", names) == 0.08838834764831845
        derived = evaluate("(config.hidden_size // config.num_attention_heads) ** -0.5", names)
        assert derived is not None
        assert (derived == 0.08838834764831845) == (size in BLIND)  # these three cannot show the fault
        if size == "0.6B":
            assert derived == 0.125
            assert derived / 0.08838834764831845 == pytest.approx(1.4142, abs=1e-4)
        if size in ("4B", "32B"):
            assert derived == 0.11180339887498948
            assert derived / 0.08838834764831845 == pytest.approx(1.2649, abs=1e-4)

    def test_the_wrong_scale_fails_where_it_differs(self) -> None:
        assert "scale.static" in failed(
            verify_model(put(live_model(), attentions.HiddenScale), tokens=IDS, layers=(0,))
        )
        alike = live_model(hidden_size=96)  # 96 / 6 = head_dim: like 1.7B, 8B and 14B
        assert failed(verify_model(put(alike, attentions.HiddenScale), tokens=IDS, layers=(0,))) == set()

    @pytest.mark.parametrize("code", ["1 / math.sqrt(self.head_dim)", "math.sqrt(1 / self.head_dim)", "128 ** -0.5"])
    def test_other_ways_to_write_the_same_scale(self, code: str) -> None:
        assert evaluate(code, {"self.head_dim": 128.0}) == pytest.approx(128**-0.5, rel=1e-15)

    @pytest.mark.parametrize(
        "code", ["open('x')", "self.unknown ** -0.5", "__import__('os')", "1 if x else 2", "1 / 0"]
    )
    def test_what_is_more_than_arithmetic_is_not_evaluated(self, code: str) -> None:
        assert evaluate(code, {"self.head_dim": 128.0}) is None

    def test_no_scale_means_the_default_and_is_never_called_missing(self) -> None:
        class Default(attentions.Direct):
            """No scale is passed on: torch's default is the root of the last dimension."""

            @property
            def scaling(self) -> None:
                return None

            @scaling.setter
            def scaling(self, value: float) -> None:
                pass

        found = verify_model(put(live_model(), Default), tokens=IDS, layers=(0,))
        check = outcome(found, "scale.kernel").check
        assert check.status is Status.PASS
        assert check.measured.text() == "default, equals head_dim**-0.5 = 16**-0.5 = 0.25"


class TestAlignment:
    """M1, M2: which diagonal causal means where queries and keys differ in number."""

    def weights(self, tq: int, tk: int) -> tuple[str, list[bool]]:
        from tracer.arrays import Array

        random = np.random.default_rng(0).normal(size=(2, 1, 5, 8)).astype("<f4")
        query, key = (Array("F32", part) for part in random)
        found, zero = probes.direct(cpu_flash.flash_attn_varlen_func, query, key, tq, tk, "cpu")
        return " ".join("".join(str(int(w != 0)) for w in row) for row in found), zero.tolist()

    def test_two_queries_and_five_keys_are_aligned_bottom_right(self) -> None:
        assert self.weights(2, 5)[0] == "11110 11111"

    def test_five_queries_and_two_keys_leave_the_first_three_empty_and_zero(self) -> None:
        pattern, zero = self.weights(5, 2)
        assert pattern == "00 00 00 10 11"
        assert zero == [True, True, True, False, False]

    def test_a_verification_tells_the_alignment_it_found(self) -> None:
        found = verify_checkpoint(layers=(0,), scenarios=("plain",))
        check = outcome(found, "kernel.alignment").check
        assert check.measured.text() == "11110 / 11111"
        assert "10000 / 11000" in check.reason.text()  # torch's own is_causal, to compare


class TestCausality:
    """M3, M4, M6: decided by effect, never by the flag."""

    SITUATIONS = (("plain", "causal.weights"), ("left_pad", "causal.weights"), ("right_pad", "causal.weights"))
    CACHED = (("decode", "causal.alignment"), ("chunk", "causal.alignment"))

    @pytest.mark.parametrize(("scenario", "id"), SITUATIONS + CACHED)
    def test_sdpa_is_causal_in_every_situation_whatever_its_flag(self, scenario: str, id: str) -> None:
        found = verify_model(live_model("sdpa"), tokens=IDS[:6], layers=(0, 1), scenarios=("plain", scenario))
        assert failed(found) == set()
        assert status(found, id, scenario) is Status.PASS
        if scenario != "decode":
            assert status(found, "causal.flag", scenario) is Status.PASS

    def test_with_a_padding_mask_the_flag_is_false_and_the_mask_tells_it(self) -> None:
        found = verify_model(live_model("sdpa"), tokens=IDS[:6], layers=(0,), scenarios=("left_pad",))
        assert outcome(found, "causal.flag", "left_pad").check.measured.text() == "causal=False, mask=2 × 1 × 6 × 6"

    def test_one_token_on_a_cache_needs_neither_flag_nor_mask(self) -> None:
        found = verify_model(live_model("sdpa"), tokens=IDS[:6], layers=(0,), scenarios=("decode",))
        assert status(found, "causal.alignment", "decode") is Status.PASS
        assert all(check.id != "causal.flag" for check in found.checks)  # no token is later: nothing is asked

    def test_a_weight_above_the_diagonal_is_told_with_layer_head_query_and_key(self) -> None:
        found = verify_model(put(live_model(), attentions.Leaky), tokens=IDS, layers=(1,))
        check = outcome(found, "causal.weights").check
        figures = check.figures
        assert check.status is Status.FAIL
        assert int(figures["key"]) > int(figures["query"])  # type: ignore[arg-type]
        assert f"layer 1, head {outcome(found, 'causal.weights').head}:" in check.measured.text()

    def test_a_changed_last_token_must_not_move_earlier_rows_of_any_layer(self) -> None:
        found = verify_model(put(live_model(), attentions.Leaky), tokens=IDS)
        check = outcome(found, "causal.model").check
        assert check.status is Status.FAIL
        assert check.measured.text().startswith(f"changing token {len(IDS) - 1} moved row ")

    def test_patterns_that_a_model_returns_are_never_read(self) -> None:
        model = live_model("sdpa")

        class Lying(type(model.model.layers[0].self_attn)):  # type: ignore[misc]
            """Returns a wrong attention pattern beside a right output."""

            def forward(self, *args: Any, **kwargs: Any) -> Any:
                output, _ = super().forward(*args, **kwargs)
                return output, torch.ones(1, 6, 3, 3)

        assert failed(verify_model(put(model, Lying), tokens=IDS, layers=(0,))) == set()


class TestPadding:
    """M8, P1, P2: rows without a key, pad rows, and causality beside a padding mask."""

    def test_nan_on_one_side_alone_is_a_mismatch_and_no_pass(self) -> None:
        off = difference(np.array([np.nan, 1.0]), np.array([0.0, 1.0]))
        assert off.mismatched == 1
        assert not off.within(1e9)

    def test_a_flash_kernel_gives_zero_rows_at_left_padding(self) -> None:
        found = verify_checkpoint(layers=(0,), scenarios=("left_pad",))
        assert status(found, "softmax.empty", "left_pad") is Status.PASS
        assert outcome(found, "softmax.empty", "left_pad").check.figures["largest"] == 0.0

    def test_eager_spreads_pad_rows_evenly_and_that_is_told_not_judged(self) -> None:
        found = verify_model(live_model("eager"), tokens=IDS[:6], layers=(0,), scenarios=("left_pad",))
        assert failed(found) == set()
        assert status(found, "softmax.empty", "left_pad") is Status.NOT_TESTABLE

    def test_pad_rows_do_not_count_as_a_difference(self) -> None:
        for kernel in ("sdpa", "eager"):
            found = verify_model(live_model(kernel), tokens=IDS[:6], scenarios=("plain", "left_pad"))
            assert status(found, "padding.same", "left_pad") is Status.PASS

    def test_right_padding_works_on_the_flash_path(self) -> None:
        found = verify_checkpoint(layers=None, scenarios=("plain", "right_pad"))
        assert failed(found) == set()
        assert status(found, "causal.weights", "right_pad") is Status.PASS


class TestWindows:
    """P5: which layers slide, and a window that has no effect."""

    @pytest.mark.parametrize(
        ("changes", "windows", "warned"),
        [
            ({"sliding_window": 5, "use_sliding_window": False}, [None] * 4, True),
            ({"sliding_window": 5, "use_sliding_window": True}, [None] * 4, True),
            ({"sliding_window": 5, "use_sliding_window": True, "max_window_layers": 2}, [None, None, 5, 5], False),
        ],
    )
    def test_each_layer_sees_what_it_really_sees(
        self, changes: dict[str, Any], windows: list[int | None], warned: bool, tmp_path: Path
    ) -> None:
        from dataclasses import replace

        with checkpoint(replace(SHAPES[1], layers=4), changes) as folder:
            found = verify_checkpoint(str(folder), layers=None, tokens=list(IDS), scenarios=("plain",))
        assert failed(found) == set()
        assert [w.effective for w in found.windows] == windows
        assert [w.configured for w in found.windows] == windows
        assert bool(found.warnings) == warned

    def test_a_live_model_warns_of_a_window_that_no_layer_has(self) -> None:
        model = live_model(sliding_window=5, use_sliding_window=True)
        found = tracer.verify(model, tokens=IDS, layers=(0,), scenarios=("plain",))
        assert "sliding_window = 5" in found.warnings[0].text()


class TestNorm:
    """P7: norm after RoPE cannot be seen with weights of ones or equal halves, nor in one token."""

    def relative(self, gamma: np.ndarray, positions: np.ndarray) -> float:
        from tracer.verification import expected

        rope = expected.rope({"rope_type": "default", "rope_theta": 1e6}, 128, 4096, 9)
        assert rope is not None
        q = np.random.default_rng(3).normal(size=(len(positions), 1, 128))
        angles = expected.angles(rope, positions)[:, None]
        before = expected.rotate(expected.rms_norm(q, gamma, 1e-6), angles, 1.0)
        after = expected.rms_norm(expected.rotate(q, angles, 1.0), gamma, 1e-6)
        return float(np.abs(after - before).max() / np.abs(before).max())

    def test_what_shows_the_order_and_what_does_not(self) -> None:
        random = np.random.default_rng(4)
        eight = np.arange(8)
        assert self.relative(np.ones(128), eight) < 1e-12
        assert self.relative(np.tile(random.uniform(0.5, 1.5, 64), 2), eight) < 1e-12
        assert self.relative(random.uniform(0.5, 1.5, 128), np.zeros(1, dtype=int)) == 0
        assert self.relative(random.uniform(0.5, 1.5, 128), eight) > 0.05


class TestNumerics:
    """N1, N2, N4: flash-attention's criterion, overflow of plain products, and what a logsumexp is."""

    def test_all_three_numbers_are_told(self) -> None:
        check = outcome(verify_checkpoint(layers=(0,), scenarios=("plain",)), "kernel.output").check
        assert check.measured.text().startswith("max|kernel − ref| = ")
        assert " + 3e-5 = " in check.tolerance.text()
        assert {"kernel_error", "eager_error", "allowed"} <= set(check.figures)

    def test_plain_products_that_overflow_are_eagers_fault_and_not_the_kernels(self) -> None:
        reference = np.array([[1.0, 2.0], [3.0, 4.0]])
        eager = np.array([[np.inf, np.nan], [3.0, 4.0]])
        result = numerics(reference, eager, reference, "F16")
        assert result.ok
        assert result.eager_overflow == 1

    def test_scores_beyond_float16_pass_on_a_kernel_that_keeps_them_in_float32(self) -> None:
        model = live_model("sdpa", "float16")
        attention = model.model.layers[0].self_attn
        with torch.no_grad():
            for norm in (attention.q_norm, attention.k_norm):
                norm.weight.mul_(150)
        found = verify_model(model, tokens=IDS, layers=(0,), scenarios=("plain",))
        assert "kernel.output" not in failed(found)

    def test_a_logsumexp_in_base_two_is_called_that(self) -> None:
        from tracer.verification.faults.catalogue import FAULTS
        from tracer.verification.faults.trial import run_fault

        caught = run_fault(next(fault for fault in FAULTS if fault.id == "lse_base_two"))
        assert caught.check is not None
        assert "base 2" in caught.check.reason.text()
        assert caught.check.figures["base_two"] is True

    def test_the_row_maximum_is_that_of_scaled_scores(self) -> None:
        found = verify_checkpoint(layers=(0,), scenarios=("plain",))
        check = outcome(found, "softmax.row_max").check
        assert check.status is Status.PASS
        assert "scaled scores" in check.claim.text()


def test_the_config_is_what_a_head_dim_is_taken_from() -> None:
    config = Qwen3Config(hidden_size=1024, num_attention_heads=16, head_dim=128)
    assert config.head_dim != config.hidden_size // config.num_attention_heads
