"""Outside the plain scenario every check is made where layers differ, and of a few where they run the very same code;
of the others as soon as anything is wrong there."""

from collections import Counter
from collections.abc import Callable
from types import MethodType
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers.models.qwen3 import modeling_qwen3 as qwen3

from tests.verify import attentions
from tests.verify.attentions import put
from tests.verify.conftest import IDS, failed, live_model, outcome
from tracer.engines.transformers.likeness import likeness
from tracer.engines.transformers.live import Live
from tracer.records import Status
from tracer.verification.entry import verify_model
from tracer.verification.looks import looks, some_heads
from tracer.verification.records import Verification


def other_class(attention: Any) -> None:
    attention.__class__ = attentions.Direct


def other_forward(attention: Any) -> None:
    attention.forward = MethodType(attentions.Direct.forward, attention)


def closure(attention: Any) -> None:
    own = attention.forward
    attention.forward = lambda *args, **kwargs: own(*args, **kwargs)


def other_scale(attention: Any) -> None:
    attention.scaling = attention.scaling * 2


def other_norm(attention: Any) -> None:
    attention.q_norm = torch.nn.Identity()


def other_eps(attention: Any) -> None:
    attention.k_norm.variance_epsilon = 1e-2


def hook(attention: Any) -> None:
    attention.k_proj.register_forward_hook(lambda module, given, gave: gave)


def bound_elsewhere(attention: Any) -> None:
    attention.forward = attentions.Direct(attention.config, 0).forward


def bias(attention: Any) -> None:
    attention.q_proj.bias = torch.nn.Parameter(torch.zeros(attention.q_proj.out_features))


def helper(attention: Any) -> None:
    attention.helper = object()


CHANGES = (other_class, other_forward, closure, other_scale, other_norm, other_eps, hook, bound_elsewhere, bias, helper)


def attention_layers(model: Any) -> list[Any]:
    return [layer.self_attn for layer in model.model.layers]


class TestLikeness:
    def test_layers_of_one_model_are_alike_whatever_their_weights_and_number(self) -> None:
        first, second, *_ = attention_layers(live_model())
        assert not torch.equal(first.q_proj.weight, second.q_proj.weight)
        assert likeness(first) == likeness(second)

    @pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
    def test_what_runs_differently_is_not_alike(self, change: Callable[[Any], None]) -> None:
        first, second, *_ = attention_layers(live_model())
        change(second)
        assert likeness(first) != likeness(second)

    @pytest.mark.parametrize("change", [other_class, other_forward, other_scale, other_norm, other_eps])
    def test_the_same_change_in_both_keeps_them_alike(self, change: Callable[[Any], None]) -> None:
        first, second, *_ = attention_layers(live_model())
        change(first)
        change(second)
        assert likeness(first) == likeness(second)

    def test_a_hook_of_both_keeps_them_alike(self) -> None:
        first, second, *_ = attention_layers(live_model())

        def watch(module: Any, given: Any, gave: Any) -> None:
            del module, given, gave

        for attention in (first, second):
            attention.register_forward_hook(watch)
        assert likeness(first) == likeness(second)


def closely(model: Any, thorough: bool = False) -> list[int]:
    live = Live(model)
    found = looks(live, range(len(live.attentions)), range(4), thorough)
    return [layer for layer, look in found.items() if look.closely]


class TestLayers:
    def test_every_fourth_of_those_alike(self) -> None:
        assert closely(live_model(num_hidden_layers=9)) == [0, 4, 8]

    def test_the_first_of_each_kind(self) -> None:
        model = live_model(num_hidden_layers=4, layer_types=["full_attention", "sliding_attention"] * 2)
        assert closely(model) == [0, 1]

    def test_each_that_has_code_of_its_own(self) -> None:
        model = live_model(num_hidden_layers=4)
        closure(attention_layers(model)[2])
        hook(attention_layers(model)[3])
        assert closely(model) == [0, 2, 3]

    def test_all_where_it_is_to_be_thorough(self) -> None:
        assert closely(live_model(num_hidden_layers=3), thorough=True) == [0, 1, 2]

    @pytest.mark.parametrize("layers", [1, 2, 4, 8, 28])
    @pytest.mark.parametrize("heads", [2, 6, 14, 16, 32])
    def test_all_heads_come_up_about_as_often(self, layers: int, heads: int) -> None:
        seen = Counter(head for place in range(layers) for head in some_heads(range(heads), layers, place))
        assert max(seen.values()) - min(seen[head] for head in range(heads)) <= 1
        assert all(len(some_heads(range(heads), layers, place)) >= min(heads, 2) for place in range(layers))


class Late(qwen3.Qwen3Attention):
    """Right in layer 0; in later ones, q_norm is left out where rows are padded, sequences packed or a cache is used:
    the same code in all, which the plain scenario shows nothing of."""

    def forward(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        plain = hidden_states.shape[:2] == (1, len(IDS))
        if self.layer_idx == 0 or plain:
            return super().forward(hidden_states, *args, **kwargs)
        norm, self.q_norm = self.q_norm, torch.nn.Identity()
        try:
            return super().forward(hidden_states, *args, **kwargs)
        finally:
            self.q_norm = norm


def verified(model: Any, **asked: Any) -> Verification:
    return verify_model(model, tokens=IDS, **asked)


class TestVerification:
    def test_a_light_look_leaves_out_what_the_plain_scenario_told(self) -> None:
        found = verified(live_model(num_hidden_layers=4))
        assert found.closely == (0,)
        assert outcome(found, "norm.present").tested == 4
        for scenario in ("packed", "padded", "chunk", "decode"):
            assert outcome(found, "norm.present", scenario).tested == 1
            assert outcome(found, "scale.value", scenario).tested == 4
        for id, scenario in (("packing.same", "packed"), ("padding.same", "padded"), ("cache.same", "decode")):
            assert outcome(found, id, scenario).tested == 4
        assert outcome(found, "packing.weights", "packed").tested == 4
        assert outcome(found, "padding.effect", "padded").tested == 1
        assert outcome(found, "cache.rows", "chunk").tested == 4

    def test_all_checks_are_made_of_a_layer_where_something_is_wrong(self) -> None:
        model = live_model()
        put(model, Late)
        found = verified(model)
        assert found.closely == (0,)
        assert {o.scenario for o in found.failures} <= {"packed", "padded", "chunk", "decode"}
        for scenario in ("packed", "padded", "chunk", "decode"):
            told = outcome(found, "norm.present", scenario)
            assert told.check.status is Status.FAIL
            assert {layer for layer, _ in told.failed} == {1, 2}

    def test_all_are_made_of_each_layer_without_a_plain_scenario_to_compare_with(self) -> None:
        found = verified(live_model(), scenarios=("padded",))
        assert outcome(found, "norm.present", "padded").tested == 3
        assert not failed(found)

    def test_thorough_makes_all_checks_of_all_layers(self) -> None:
        found = verified(live_model(), thorough=True)
        assert found.closely == (0, 1, 2)
        assert outcome(found, "rope.positions", "packed").tested == 3

    def test_the_page_says_which_layers(self) -> None:
        found = verified(live_model(num_hidden_layers=5))
        assert "layers 0, 4 in every scenario; the others" in " ".join(str(found).split())
        assert "in full" not in str(verified(live_model(), layers=(1,)))
        assert "in full" not in str(verified(live_model(), scenarios=("plain",)))
