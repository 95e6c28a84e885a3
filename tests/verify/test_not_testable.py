"""A fault that cannot be seen on an input is reported as not testable, with the reason, and never as passed."""

from typing import Any

import pytest
import torch

from tests.verify import attentions
from tests.verify.attentions import put
from tests.verify.conftest import IDS, failed, live_model, outcome, status
from tracer.records import Status
from tracer.texts import LANGUAGES
from tracer.verification.entry import verify_model
from tracer.verification.review import untested


def verified(model: Any, tokens: tuple[int, ...] = IDS, scenarios: tuple[str, ...] = ("plain",)) -> Any:
    return verify_model(model, tokens=tokens, layers=(0,), scenarios=scenarios)


def with_norms(q: torch.Tensor, k: torch.Tensor) -> Any:
    model = live_model()
    attention = model.model.layers[0].self_attn
    with torch.no_grad():
        attention.q_norm.weight.copy_(q)
        attention.k_norm.weight.copy_(k)
    return model


def reason(found: Any, id: str) -> str:
    text: str = outcome(found, id).check.reason.text()
    return text


def test_norm_weights_of_ones_hide_a_missing_weight_and_the_order() -> None:
    found = verified(with_norms(torch.ones(16), torch.ones(16)))
    assert failed(found) == set()
    for id in ("norm.order", "norm.weights"):
        assert status(found, id) is Status.NOT_TESTABLE
    assert "all ones" in reason(found, "norm.weights")
    assert "both halves" in reason(found, "norm.order")
    assert status(found, "norm.present") is Status.PASS  # leaving the norm out would still show


def test_norm_weights_equal_in_both_halves_hide_the_order() -> None:
    half = torch.rand(8) + 0.5
    found = verified(with_norms(half.repeat(2), torch.rand(16) + 0.5))
    order = {o.part: o.check.status for o in found.outcomes if o.check.id == "norm.order"}
    assert order == {"q": Status.NOT_TESTABLE, "k": Status.PASS}  # k's weights differ between the halves


def test_equal_weights_of_q_norm_and_k_norm_hide_a_swap() -> None:
    same = torch.rand(16) + 0.5
    found = verified(with_norms(same, same))
    assert status(found, "norm.weights") is Status.NOT_TESTABLE
    assert "same weight" in reason(found, "norm.weights")


def test_one_token_tells_nothing_of_positions_order_and_later_tokens() -> None:
    found = verified(live_model(), tokens=(5,))
    for id in ("rope.applied", "rope.pairing", "rope.positions", "rope.theta", "norm.order", "causal.flag"):
        assert status(found, id) is Status.NOT_TESTABLE, id
    assert status(found, "causal.effect") is Status.NOT_TESTABLE
    assert status(found, "causal.weights") is Status.NOT_TESTABLE
    assert "position 0" in reason(found, "rope.positions")
    assert "with one token every head gives it weight 1" in reason(found, "heads.keys")
    page = " ".join(str(found).split())
    assert "layer 0: not testable on this prompt (config: all earlier tokens)" in page
    assert "layer 0 sees all" not in page
    assert found.exit_code == 0  # what can be told is right


def test_two_tokens_tell_theta_only_roughly_or_not_at_all() -> None:
    found = verified(live_model(dtype="bfloat16"), tokens=(5, 6))
    assert status(found, "rope.theta") is Status.NOT_TESTABLE
    assert status(found, "rope.applied") is Status.PASS


def test_a_single_kv_head_has_no_other_to_be_mistaken_for() -> None:
    found = verified(live_model(num_key_value_heads=1))
    assert status(found, "heads.keys") is Status.NOT_TESTABLE
    assert status(found, "heads.values") is Status.NOT_TESTABLE


def test_equal_kv_heads_hide_which_of_them_is_read() -> None:
    model = live_model()
    weight = model.model.layers[0].self_attn.k_proj.weight
    with torch.no_grad():
        weight.copy_(weight[:16].repeat(3, 1))
    found = verified(model)
    assert status(found, "heads.keys") is Status.NOT_TESTABLE
    assert "equal key/value heads" in reason(found, "heads.keys")


def test_a_window_longer_than_the_prompt_hides_nothing() -> None:
    model = live_model(use_sliding_window=True, sliding_window=64, max_window_layers=0)
    assert status(verified(model), "window.effective") is Status.NOT_TESTABLE
    assert "longer than the prompt" in reason(verified(model), "window.effective")


def test_what_cannot_be_tested_in_some_scenarios_only_is_told_with_their_names() -> None:
    model = live_model()
    with torch.no_grad():
        model.model.embed_tokens.weight[IDS[20]] = float("inf")  # no packed sequence comes that far
    page = " ".join(str(verified(model, scenarios=("plain", "packed", "cached"))).split())
    assert "kernel.output · plain prompt; several tokens on a KV cache; decoding with a KV cache" in page
    assert "norm.eps (q), norm.eps (k), scale.effective, causal.effect, heads.keys the hidden states" in page


def test_a_check_that_no_input_of_a_scenario_shows_is_never_told_twice_alike() -> None:
    found = verify_model(live_model(dtype="bfloat16"), tokens=IDS[:3])
    for language in LANGUAGES:
        rows = [(tuple(ids), where) for ids, where, _ in untested(found, language)]
        every = [(id, where) for ids, where in rows for id in ids]
        assert len(every) == len(set(every)), every


def test_a_softmax_in_bfloat16_cannot_be_told_in_bfloat16() -> None:
    assert status(verified(live_model("eager", "bfloat16")), "softmax.precision") is Status.NOT_TESTABLE


def test_a_rope_without_a_reference_is_not_judged() -> None:
    factors = [1.0] * 8
    model = live_model(
        rope_parameters={
            "rope_type": "longrope",
            "rope_theta": 1e4,
            "short_factor": factors,
            "long_factor": factors,
            "original_max_position_embeddings": 512,
        }
    )
    found = verified(model)
    assert failed(found) == set()
    assert status(found, "rope.theta") is Status.NOT_TESTABLE
    assert "longrope" in reason(found, "rope.theta")


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_reason_is_told_in_every_language(language: str) -> None:
    found = verify_model(live_model("eager"), tokens=(5, 6, 7), layers=(0,))
    reasons = [o.check.reason.text(language) for o in found.outcomes if o.check.status is Status.NOT_TESTABLE]
    assert reasons
    assert all(reasons)


def test_a_head_whose_scores_stay_small_cannot_show_that_large_ones_are_right() -> None:
    model = live_model()
    with torch.no_grad():
        model.model.layers[0].self_attn.q_proj.weight[:16] = 0  # the queries of head 0
    found = verify_model(model, tokens=IDS, layers=(0,), heads=(0,), scenarios=("plain",))
    assert status(found, "softmax.large") is Status.NOT_TESTABLE
    assert "scores reach no more than 0 in this head" in reason(found, "softmax.large")


def test_heads_that_could_not_be_tested_are_told_beside_those_that_passed() -> None:
    model = live_model()
    with torch.no_grad():
        model.model.layers[0].self_attn.q_proj.weight[:16] = 0
    large = outcome(verified(model), "softmax.large")
    assert large.check.status is Status.PASS
    assert not large.whole
    assert large.why is not None
    assert large.why.text().startswith("head 0: scores reach")
    assert large.why.text("zh").startswith("第 0 个头：")


def test_padding_whose_hidden_states_are_zero_moves_nothing_by_being_changed() -> None:
    model = live_model(pad_token_id=0)
    with torch.no_grad():
        model.model.embed_tokens.weight[0] = 0  # as padding_idx makes it
    found = verified(model, scenarios=("plain", "padded"))
    effect = outcome(found, "padding.effect", "padded").check
    assert effect.status is Status.NOT_TESTABLE
    assert "negating them changes nothing" in effect.reason.text()
    assert status(found, "padding.weights", "padded") is Status.PASS


@pytest.mark.parametrize(("factor", "told"), [(1.05, True), (1.0, False)])
def test_where_only_weights_are_seen_they_tell_a_scale_that_is_a_twentieth_off(factor: float, told: bool) -> None:
    attention = type("ByHand", (attentions.ByHand,), {"factor": factor})
    for dtype in ("float16", "float32"):
        found = verified(put(live_model(dtype=dtype), attention))
        assert failed(found) == ({"weights.reference"} if told else set()), dtype


def test_weights_that_would_hardly_move_are_no_proof_of_what_made_them() -> None:
    model = put(live_model(dtype="bfloat16"), attentions.ByHand)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(("q_norm.weight", "k_norm.weight")):
                weight.mul_(0.1)  # scores near zero: all keys weigh about the same
    found = verified(model)
    assert status(found, "weights.reference") is Status.NOT_TESTABLE
    assert "might move the weights by no more than" in reason(found, "weights.reference")
