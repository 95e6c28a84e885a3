"""Nothing is averaged away: each token and head counts, in every scenario, however a projection is written."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tests.verify import attentions
from tests.verify.attentions import put
from tests.verify.conftest import IDS, failed, live_model, outcome, status
from tracer.arrays import HELD_AS, Array
from tracer.records import Status
from tracer.verification import expected
from tracer.verification.case import Case
from tracer.verification.entry import verify_checkpoint, verify_model
from tracer.verification.records import Verification
from tracer.verification.run import some_heads
from tracer.verification.vectors import distance, distances, ratios, worst


def verified(model: Any, **asked: Any) -> Verification:
    return verify_model(model, tokens=IDS, **{"layers": (0, 1), **asked})


def statuses(found: Verification, id: str) -> set[Status]:
    return {o.check.status for o in found.outcomes if o.check.id == id}


class TestDistances:
    def test_each_vector_has_its_own(self) -> None:
        right = np.ones((4, 3, 8))
        found = right.copy()
        found[2, 1] *= 1.5
        off = distances(found, right)
        assert off[2, 1] == pytest.approx(0.5)
        assert np.count_nonzero(off) == 1
        assert ratios(found, right) == pytest.approx([1, 1.125, 1])

    def test_zero_beside_zero_is_equal_and_anything_else_is_not(self) -> None:
        zero = np.zeros((2, 1, 4))
        assert distances(zero, zero).tolist() == [[0.0], [0.0]]
        assert distance(zero, zero) == 0
        assert np.isinf(distances(zero + 1, zero)).all()
        assert distance(zero + 1, zero) == float("inf")

    def test_what_is_not_finite_is_infinitely_far(self) -> None:
        right = np.ones((1, 1, 4))
        assert distances(np.full_like(right, np.nan), right) == float("inf")

    def test_what_a_dtype_cannot_hold_is_no_difference(self) -> None:
        right = np.full((1, 1, 4), 1e-7)
        assert distances(right + 2.0**-25, right, grain=2.0**-24) == 0

    def test_the_reason_is_found_by_the_worst_row_and_its_heads(self) -> None:
        bad = np.zeros((6, 4), dtype=np.bool_)
        bad[1, 0] = True
        bad[3:6, 2] = True
        part = worst(bad, np.array([0, 0, 0, 1, 1, 1]), most=16)
        assert part.tokens.tolist() == [3, 4, 5]
        assert part.heads.tolist() == [2]


class TestNumbers:
    """All tokens of a 16 bit run are compared in float32, which holds them exactly; a sample in float64."""

    EVERY = (np.zeros(2, np.int64), np.arange(2))

    def numbers(self, dtype: str, size: float, at: Any) -> Any:
        held = np.full((2, 4), np.float32(size).view(np.uint32) >> 16, "<u2") if dtype == "BF16" else None
        array = Array(dtype, np.full((2, 4), size, HELD_AS[dtype]) if held is None else held)
        return Case.numbers(SimpleNamespace(dtype=dtype), array, at)  # type: ignore[arg-type]

    def test_each_dtype_in_what_holds_it(self) -> None:
        assert self.numbers("BF16", 1.5, self.EVERY).dtype == np.float32
        assert self.numbers("F16", 1.5, self.EVERY).dtype == np.float32
        assert self.numbers("F32", 1.5, self.EVERY).dtype == np.float64
        assert self.numbers("BF16", 1.5, None).dtype == np.float64

    def test_zeros_and_one_tiny_number_among_others(self) -> None:
        bits = np.array([0, 0x3F80, 0xBF80], "<u2")  # 0, 1 and −1
        some = SimpleNamespace(dtype="BF16")
        assert Case.numbers(some, Array("BF16", bits), self.EVERY).dtype == np.float32  # type: ignore[arg-type]
        with_tiny = Array("BF16", np.append(bits, np.uint16(0x0D00)))
        assert Case.numbers(some, with_tiny, self.EVERY).dtype == np.float64  # type: ignore[arg-type]

    def test_how_many_are_not_finite_is_counted_for_each_dtype(self) -> None:
        every = Array("BF16", np.arange(1 << 16, dtype="<u2"))
        assert every.nonfinite() == 2 * 128
        assert Array("F32", np.array([1, np.nan, -np.inf], "<f4")).nonfinite() == 2

    def test_a_length_that_overflows_is_infinitely_far(self) -> None:
        big = np.full((1, 1, 4), 1e30, np.float32)
        assert distances(big * 3, big) == float("inf")

    @pytest.mark.parametrize("size", [2.0**80, 2.0**-80, np.nan])
    def test_squares_that_float32_cannot_hold_are_made_in_float64(self, size: float) -> None:
        numbers = self.numbers("BF16", size, self.EVERY)
        assert numbers.dtype == np.float64
        assert np.array_equal(numbers, np.full((2, 4), size), equal_nan=True)

    def test_the_references_keep_the_dtype(self) -> None:
        x, weight = np.random.default_rng(0).normal(size=(3, 2, 8)), np.arange(1.0, 9.0)
        angles = np.linspace(0, 3, 12).reshape(3, 1, 4)
        for make in (lambda x: expected.rms_norm(x, weight, 1e-6), lambda x: expected.rotate(x, angles, 1.1)):
            narrow = make(x.astype(np.float32))
            assert narrow.dtype == np.float32
            assert np.allclose(narrow, make(x), rtol=0, atol=2e-6)


class TestHeads:
    """Outside the plain scenario a layer's share of the heads is looked at; none is left out over the layers."""

    @pytest.mark.parametrize("layers", [1, 2, 4, 8, 28])
    @pytest.mark.parametrize("heads", [2, 6, 14, 16, 32])
    def test_all_come_up_about_as_often(self, layers: int, heads: int) -> None:
        seen = Counter(head for place in range(layers) for head in some_heads(range(heads), range(layers), place))
        assert max(seen.values()) - min(seen[head] for head in range(heads)) <= 1
        assert all(len(some_heads(range(heads), range(layers), place)) >= min(heads, 2) for place in range(layers))


class TestScenarios:
    def test_norms_rope_projections_and_scale_are_judged_in_each(self) -> None:
        found = verify_checkpoint(layers=(0,))
        for scenario in ("plain", "packed", "padded", "chunk", "decode"):
            for id in ("norm.present", "rope.positions", "projections", "scale.value", "heads.values"):
                assert status(found, id, scenario) is Status.PASS, (id, scenario)

    def test_passes_on_a_cache_are_told_apart(self) -> None:
        assert verify_checkpoint(layers=(0,)).scenarios == ("plain", "packed", "padded", "chunk", "decode")

    def test_the_wrong_vectors_are_counted_and_named(self) -> None:
        found = verified(put(live_model(), attentions.BatchDependent), layers=(0,))
        bad = [o for o in found.failures if o.check.id == "rope.applied"]
        assert [(o.scenario, o.part) for o in bad] == [("padded", "q")]
        assert "360 of 360 vectors are off: in batch row 0 tokens 0–23, heads 0–5" in bad[0].check.reason.text()
        assert "batch 第 0 行" in bad[0].check.reason.text("zh")

    def test_a_fault_of_an_earlier_layer_is_no_rounding(self) -> None:
        found = verified(put(live_model(), attentions.BatchDependent), layers=(1,))
        assert failed(found) == {"padding.same"}
        check = outcome(found, "padding.same", "padded").check
        assert "already wrong on entering this layer" in check.measured.text()
        assert "进入这一层时就已经不对" in check.measured.text("zh")


class TestInline:
    @pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
    def test_right_code_without_modules_passes_and_is_judged(self, dtype: str) -> None:
        model = put(live_model(dtype=dtype), attentions.Inline).to(getattr(torch, dtype))
        found = verified(model)
        assert failed(found) == set()
        told = {o.part: o.check.status for o in found.outcomes if (o.check.id, o.scenario) == ("projections", "plain")}
        assert (told["v"], told["o"]) == (Status.PASS, Status.PASS)
        for id in ("norm.present", "rope.applied", "cache.rows"):
            assert Status.PASS in statuses(found, id)

    def test_wrong_values_are_found(self) -> None:
        assert failed(verified(put(live_model(), attentions.InlineValues))) == {"projections", "heads.values"}

    def test_a_wrong_output_is_found(self) -> None:
        found = verified(put(live_model(), attentions.InlineOutput))
        assert failed(found) == {"projections"}
        assert outcome(found, "projections").part == "o"


class TestRope:
    @pytest.mark.parametrize("attention", [attentions.Direct, attentions.Inline])
    def test_frequencies_kept_in_bfloat16_are_found_and_the_norm_is_not_blamed(self, attention: type) -> None:
        # what model.to(torch.bfloat16) does to the frequencies, which are a buffer
        model = put(live_model(), attention)
        table = model.model.rotary_emb.inv_freq
        table.copy_(table.bfloat16())
        assert failed(verified(model, layers=(0,), scenarios=("plain",))) == {"rope.theta"}


class TestCache:
    def test_a_right_cache_is_not_blamed_for_values_that_were_wrong_before_it(self) -> None:
        found = verified(put(live_model(), attentions.WrongValues))
        assert failed(found) == {"heads.values"}
        assert status(found, "cache.rows", "chunk") is Status.PASS
        assert "without a cache already" in outcome(found, "cache.rows", "chunk").check.reason.text()


class TestLong:
    def test_the_weights_of_every_key_are_read(self) -> None:
        found = verify_checkpoint(layers=(0,), tokens=[n % 90 for n in range(300)], scenarios=("plain",))
        assert "no weight on any of 44850 hidden pairs" in outcome(found, "causal.weights").check.measured.text()
        assert status(found, "softmax.rows") is Status.PASS
