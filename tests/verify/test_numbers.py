"""Numbers that leave nothing to compare: zeros, NaN, an eps of any size, dropout. They are told as what they are."""

from typing import Any

import pytest
import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
from transformers.modeling_utils import AttentionInterface
from transformers.models.qwen3 import modeling_qwen3 as qwen3

import tracer
from tests.verify import attentions
from tests.verify.attentions import put
from tests.verify.conftest import IDS, failed, live_model, outcome, status
from tracer import memory
from tracer.errors import InputError
from tracer.records import ModelFacts, Status
from tracer.texts import LANGUAGES, message
from tracer.verification.entry import verify_checkpoint, verify_model
from tracer.verification.review import review


def with_zero(*names: str, layer: int = 1) -> Any:
    model = live_model()
    with torch.no_grad():
        for name in names:
            model.get_parameter(f"model.layers.{layer}.self_attn.{name}.weight").zero_()
    return model


@pytest.mark.parametrize("name", ["o_proj", "v_proj", "q_proj", "q_norm", "k_norm"])
def test_a_branch_of_zeros_is_no_fault(name: str) -> None:
    assert failed(verify_model(with_zero(name), tokens=IDS)) == set()


def test_zero_queries_say_why_nothing_can_be_told_of_them() -> None:
    found = verify_model(with_zero("q_proj"), tokens=IDS, layers=(1,), scenarios=("plain",))
    told = {(o.check.id, o.part): o.check.reason.text() for o in found.outcomes if o.why is not None}
    assert told["norm.present", "q"] == "every q is zero here, so a norm changes nothing"
    assert told["rope.positions", "q"] == "every q is zero here: turning changes nothing"
    assert "queries or keys are zero" in told["softmax.large", None]


def test_a_model_of_zeros_has_no_failure_and_no_false_reason() -> None:
    model = live_model()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    found = verify_model(model, tokens=IDS)
    assert failed(found) == set()
    assert "did not even move its own row" in outcome(found, "causal.model").check.reason.text()


def test_nan_in_a_weight_is_the_only_thing_told() -> None:
    model = live_model()
    with torch.no_grad():
        model.model.layers[0].self_attn.q_proj.weight[3, 5] = float("nan")
    found = verify_model(model, tokens=IDS)
    assert failed(found) == {"projections"}
    assert outcome(found, "projections").check.measured.text() == (
        "q_proj.weight of layer 0 holds NaN or infinity (1 number)"
    )
    reasons = {o.check.reason.text() for o in found.outcomes if o.check.status is Status.NOT_TESTABLE}
    assert "q_proj.weight of layer 0 is not finite, which spoils everything after it" in reasons
    text = review(found)
    assert "change:   find what wrote NaN or infinity into this weight" in text
    assert "transposed" not in text


def test_a_nan_from_outside_the_attention_is_no_fault_of_it() -> None:
    model = live_model()
    with torch.no_grad():
        model.model.layers[0].mlp.down_proj.weight[0, 0] = float("nan")
    found = verify_model(model, tokens=IDS, layers=(1,))
    assert found.exit_code == 3
    assert "what goes into layer 1 holds NaN" in outcome(found, "kernel.output").check.reason.text()


@pytest.mark.parametrize("place", [0, 9, 16, 23, 30])
def test_an_embedding_that_is_not_finite_accuses_nothing_in_any_scenario(place: int) -> None:
    # Among 24 tokens, some of these are cached first, some come later: what the cache holds is looked at, too.
    model = live_model()
    with torch.no_grad():
        model.model.embed_tokens.weight[IDS[place]] = float("inf")
    found = verify_model(model, tokens=IDS)
    assert failed(found) == set()
    reasons = {reason.text() for o in found.outcomes for reason, _ in o.reasons if "infinity" in reason.text()}
    assert reasons == {
        f"the hidden states that go into layer 0 hold NaN or infinity at token id {IDS[place]}: "
        "look at that row of the embedding's weight"
    }


def test_an_assertion_does_not_pass_over_numbers_that_are_not_finite_in_silence() -> None:
    model = live_model()
    with torch.no_grad():
        model.model.embed_tokens.weight[IDS[20]] = float("inf")
    with pytest.warns(UserWarning, match=f"hold NaN or infinity at token id {IDS[20]}"):
        tracer.assert_attention(model, tokens=IDS)
    with pytest.raises(AssertionError, match="its own code or numbers keep these checks from being made"):
        tracer.assert_attention(model, tokens=IDS, strict=True)


def test_a_padding_token_that_is_not_finite_accuses_nothing_either() -> None:
    model = live_model()
    with torch.no_grad():
        model.model.embed_tokens.weight[0] = float("nan")
    found = verify_model(model, tokens=tuple(id for id in IDS if id))
    assert failed(found) == set()
    assert status(found, "projections") is Status.PASS
    assert "token id 0" in outcome(found, "kernel.output", "padded").check.reason.text()


def test_keys_of_an_earlier_pass_that_are_not_finite_are_not_the_caches_fault() -> None:
    model = live_model()
    first = IDS[2]

    def burst(_: Any, given: Any, made: torch.Tensor) -> torch.Tensor:  # one token's hidden states, between two layers
        made = made.clone()
        made[:, :, 0] = torch.where(ids[-1] == first, torch.inf, made[:, :, 0])
        return made

    ids: list[torch.Tensor] = []
    model.model.embed_tokens.register_forward_pre_hook(lambda _, given: ids.append(given[0]))
    model.model.layers[0].mlp.register_forward_hook(burst)
    found = verify_model(model, tokens=IDS, layers=(1,))
    assert failed(found) == set()
    assert "layer 1" in outcome(found, "kernel.output", "decode").check.reason.text()


def test_an_identity_in_the_norms_place_is_named() -> None:
    model = live_model()
    model.model.layers[1].self_attn.q_norm = torch.nn.Identity()
    found = verify_model(model, tokens=IDS)
    assert failed(found) == {"norm.present"}
    assert "q_norm is a Identity" in outcome(found, "norm.present").check.measured.text()


def test_a_norm_of_another_kind_without_weights_is_named_as_not_testable() -> None:
    model = live_model()
    model.model.layers[1].self_attn.q_norm = torch.nn.LayerNorm(16, elementwise_affine=False)
    found = verify_model(model, tokens=IDS, layers=(1,), scenarios=("plain",))
    told = next(o for o in found.outcomes if (o.check.id, o.part) == ("norm.present", "q"))
    assert told.check.status is Status.NOT_TESTABLE
    assert "q_norm is a LayerNorm" in told.check.reason.text()


@pytest.mark.parametrize("eps", [1e-8, 1e-6, 1e-2, 0.1, 10.0])
def test_the_right_eps_passes_or_is_not_testable_whatever_its_size(eps: float) -> None:
    found = verify_model(live_model(rms_norm_eps=eps), tokens=IDS[:8], scenarios=("plain",))
    assert failed(found) == set()


def test_tiny_projections_show_eps_too() -> None:
    model = live_model()
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.q_proj.weight.mul_(1e-3)
            layer.self_attn.k_proj.weight.mul_(1e-3)
    found = verify_model(model, tokens=IDS, scenarios=("plain",))
    assert failed(found) == set()
    assert status(found, "norm.eps") is Status.PASS


def test_the_run_that_shows_eps_leaves_nothing_of_a_users_code_half_done() -> None:
    """It needs no attention: the function is not called, but everything around it runs to its end."""
    calls: list[str] = []

    class Lent(qwen3.Qwen3Attention):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            calls.append("called")
            with torch.no_grad():
                self.k_proj.weight.add_(2.0**-6)
            try:
                return super().forward(*args, **kwargs)
            except Exception:
                calls.append("failed")
                raise
            finally:
                calls.append("ended")
                with torch.no_grad():
                    self.k_proj.weight.sub_(2.0**-6)

    model = put(live_model(), Lent)
    before = model.model.layers[0].self_attn.k_proj.weight.clone()
    found = verify_model(model, tokens=IDS, layers=(0,), heads=(0,), scenarios=("plain",))
    assert status(found, "norm.eps") is Status.PASS
    assert calls.count("called") == calls.count("ended") > 3
    assert "failed" not in calls
    assert torch.allclose(model.model.layers[0].self_attn.k_proj.weight, before, rtol=0, atol=1e-6)


def test_the_run_that_shows_eps_computes_no_attention() -> None:
    attended: list[int] = []  # for each call of the module, how often it called the attention function

    def counted(*args: Any, **kwargs: Any) -> Any:
        attended[-1] += 1
        return sdpa_attention_forward(*args, **kwargs)

    AttentionInterface.register("counted", counted)
    AttentionMaskInterface.register("counted", sdpa_mask)
    model, kept = live_model("counted"), []
    attention = model.model.layers[0].self_attn
    attention.register_forward_pre_hook(lambda *_: attended.append(0))
    attention.register_forward_hook(lambda *_: kept.append(attended[-1]))
    assert failed(verify_model(model, tokens=IDS, layers=(0,), scenarios=("plain",))) == set()
    assert sorted(kept) == [0, *[1] * (len(kept) - 1)]
    assert len(kept) > 2


def test_a_large_wrong_eps_is_found_and_never_negative() -> None:
    model = live_model(rms_norm_eps=1e-6)
    model.model.layers[0].self_attn.q_norm.variance_epsilon = 0.05
    found = verify_model(model, tokens=IDS, layers=(0,))
    assert failed(found) == {"norm.eps"}
    told = [o.check for o in found.failures]
    assert all(check.figures["eps"] == pytest.approx(0.05, rel=0.01) for check in told)


def test_two_equal_key_heads_of_three_are_told_beside_the_pass_of_the_others() -> None:
    model = live_model()
    weight = model.model.layers[0].self_attn.k_proj.weight
    with torch.no_grad():
        weight[16:32] = weight[:16]
    found = outcome(verify_model(model, tokens=IDS, layers=(0,), scenarios=("plain",)), "heads.keys")
    assert found.check.status is Status.PASS
    assert not found.whole
    assert found.why is not None
    assert "for heads 0, 1, 2, 3, another key head would give the same weights" in found.why.text()


def test_dropout_hides_only_what_rests_on_repetition() -> None:
    model = live_model("eager", attention_dropout=0.2).train()
    model.model.layers[1].self_attn.scaling = 0.125
    found = verify_model(model, tokens=IDS)
    assert {"dropout.off", "scale.value"} <= failed(found)
    assert {layer for layer, _ in outcome(found, "scale.value").failed} == {1}


def test_a_mask_that_leaves_later_tokens_visible_is_called_a_mask() -> None:
    model = put(live_model("eager"), attentions.OpenMask)
    found = verify_model(model, tokens=IDS, layers=(0,), scenarios=("plain",))
    reason = outcome(found, "causal.flag").check.reason.text()
    assert "leaves later tokens visible" in reason
    assert "AttentionMaskInterface" not in reason


def test_no_flag_and_no_mask_on_a_built_in_function_says_nothing_of_registering() -> None:
    model = put(live_model("eager"), attentions.NoMask)
    reason = outcome(
        verify_model(model, tokens=IDS, layers=(0,), scenarios=("plain",)), "causal.flag"
    ).check.reason.text()
    assert "neither a causal flag nor a mask" in reason
    assert "AttentionMaskInterface" not in reason


FACTS = ModelFacts(28, 16, 8, 128, 1024, "full_attention", None, 40960, 1e-6, {})


def needed(tokens: int, thorough: bool = False, layers: int = 28) -> int:
    return memory.verification_needed(
        FACTS, tokens=tokens, layers=layers, dtype="BF16", kernel="cpu-flash", thorough=thorough
    )


def test_the_memory_of_a_verification_grows_with_the_square_of_its_tokens() -> None:
    assert 50e6 < needed(256) < 200e6  # 90 MB were measured
    assert needed(8192) > 8 * needed(2048)
    assert needed(512, thorough=True) > needed(512)


def test_the_next_layer_takes_memory_while_one_is_judged() -> None:
    one, two = (needed(1024, layers=layers) for layers in (1, 2))
    assert 430 < one / 2**20 < 800  # 430 MiB were measured
    assert 770 < two / 2**20 < 1000  # 770


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_verification_that_does_not_fit_is_refused_before_it_runs(
    language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "limit", lambda: 1 << 10)
    with pytest.raises(InputError) as error:
        verify_checkpoint(layers=(0,))
    assert error.value.id == "verify.memory"
    assert "GiB" in error.value.text(language)


def test_a_thorough_run_tells_its_progress_after_every_token() -> None:
    seen: list[tuple[int, int]] = []
    verify_checkpoint(
        layers=(0,), scenarios=("plain",), thorough=True, progress=lambda done, total: seen.append((done, total))
    )
    assert len(seen) > 10
    assert seen[-1][0] == seen[-1][1]
    assert [done for done, _ in seen] == list(range(1, len(seen) + 1))


def test_a_shortened_prompt_claims_nothing_of_what_was_left_out() -> None:
    told = message("verify.shortened", count=2000, used=1024)
    assert "positions (RoPE) from 1024 on" in told.text()
    assert "从 1024 开始的位置" in told.text("zh")


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_float64_passes_though_parts_of_the_real_code_compute_in_float32(seed: int) -> None:
    found = verify_model(live_model("sdpa", "float64", seed=seed), tokens=IDS)
    assert not failed(found)
    assert status(found, "norm.present") is Status.PASS
    assert status(found, "norm.eps") is Status.PASS


def test_eager_in_float64_loses_the_rows_of_padding() -> None:
    # its softmax is in float32, where the mask's lowest float64 is −∞: a row of nothing else is NaN
    found = verify_model(live_model("eager", "float64"), tokens=IDS)
    assert failed(found) == {"softmax.empty"}
    assert {layer for o in found.failures for layer, _ in o.failed} == {0}


def test_the_shipped_checkpoint_passes_in_float64() -> None:
    assert not failed(verify_checkpoint(dtype="float64"))


def test_a_wrong_eps_is_found_in_float64_too() -> None:
    model = live_model(dtype="float64")
    model.model.layers[0].self_attn.k_norm.variance_epsilon = 1e-5
    assert "norm.eps" in failed(verify_model(model, tokens=IDS))


def test_frequencies_rounded_with_the_model_are_told() -> None:
    model = live_model().to(torch.bfloat16)
    found = verify_model(model, tokens=IDS, layers=(0,), scenarios=("plain",))
    assert [warning.id for warning in found.warnings] == ["verify.rounded_frequencies"]
    assert "inv_freq) are stored in bfloat16" in found.warnings[0].text()
    kept = verify_model(live_model(dtype="bfloat16"), tokens=IDS, layers=(0,), scenarios=("plain",))
    assert not kept.warnings


class EmptyRowsLost(attentions.Direct):
    """NaN comes out for padding, of layer 0 alone."""

    def forward(self, hidden_states: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        output, weights = super().forward(hidden_states, *args, **kwargs)
        if self.layer_idx == 0 and hidden_states.shape[0] > 1:
            output[1, 0] = float("nan")
        return output, weights


def test_nan_in_padding_is_no_fault_of_the_layer_that_it_reaches() -> None:
    found = verify_model(put(live_model(), EmptyRowsLost), tokens=IDS)
    assert {layer for o in found.failures for layer, _ in o.failed} == {0}
    assert {o.check.id for o in found.failures} == {"output.returned"}
    reasons = {reason.id for o in found.outcomes if o.scenario == "padded" for reason, _ in o.reasons}
    assert "verify.not_finite_given" in reasons
