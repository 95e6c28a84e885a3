"""The expression that is named is the one to change: in the code that runs, and where the mask goes wrong."""

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask
from transformers.models.qwen3 import modeling_qwen3 as qwen3

import tracer
from tests.verify import attentions
from tests.verify.attentions import put
from tests.verify.conftest import IDS, failed, live_model
from tracer.verification.records import Verification
from tracer.verification.review import causes, review

SLIDING = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 0}


class Changed(qwen3.Qwen3Attention):
    """The real forward with one thing to change."""

    def mask(self, mask: Any) -> Any:
        return mask

    def merged(self, output: Tensor) -> Tensor:
        return output.flatten(2)

    def forward(  # type: ignore[override]
        self, hidden_states: Tensor, position_embeddings: Any, attention_mask: Any = None, cache: Any = None, **_: Any
    ) -> Any:
        query, key, value = attentions._projected(self, hidden_states)
        query, key = qwen3.apply_rotary_pos_emb(query, key, *position_embeddings)
        if cache is not None:
            key, value = cache.update(key, value, self.layer_idx)
        attention_interface = qwen3.ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, qwen3.eager_attention_forward
        )
        output, weights = attention_interface(
            self,
            query,
            key,
            value,
            self.mask(attention_mask),
            dropout=0.0,
            scaling=self.scaling,
            sliding_window=self.sliding_window,
        )
        return self.o_proj(self.merged(output)), weights


class Maskless(Changed):
    def mask(self, mask: Any) -> Any:
        return None


class Loosened(Changed):
    """The mask is there, but lets every query see the key after it."""

    def mask(self, mask: Any) -> Any:
        return None if mask is None else mask.roll(1, -1)


class Mixed(Changed):
    """Heads and tokens change places before o_proj."""

    def merged(self, output: Tensor) -> Tensor:
        return output.transpose(1, 2).reshape(*output.shape[:2], -1)


class TopLeft(attentions.Direct):
    """torch's kernel with is_causal and nothing else: top-left where keys are cached, and no padding is hidden."""

    def forward(  # type: ignore[override]
        self, hidden_states: Tensor, position_embeddings: Any, attention_mask: Any = None, cache: Any = None, **_: Any
    ) -> Any:
        return super().forward(hidden_states, position_embeddings, None, cache)


def told(found: Verification) -> list[tuple[str, str, str]]:
    """Return id, function and code of each failure that is told in full."""
    sites = [(outcome.check.id, outcome.check.site) for outcome, _ in causes(found)]
    return [(id, site.scope.split(".")[-1], " ".join(site.code.split())) for id, site in sites if site is not None]


@pytest.mark.parametrize(("attention", "changes"), [(Maskless, {}), (Loosened, {}), (Maskless, SLIDING)])
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_a_mask_lost_on_the_way_is_named_where_it_is_handed_on(
    attention: type, changes: dict[str, Any], implementation: str
) -> None:
    found = tracer.verify(put(live_model(implementation, **changes), attention), tokens=IDS, layers=(0, 1))
    assert {"packing.weights", "padding.weights"} <= failed(found)
    places = {(scope, code) for _, scope, code in told(found)}
    assert places == {("forward", "self.mask(attention_mask)")}


def test_the_code_of_another_attention_function_is_never_named() -> None:
    found = tracer.verify(put(live_model("sdpa"), Maskless), tokens=IDS)
    assert "eager_attention_forward" not in review(found)
    assert "sdpa_attention_forward" not in review(found)


def test_torchs_kernel_in_the_users_own_forward_is_named_there() -> None:
    found = tracer.verify(put(live_model(), TopLeft), tokens=IDS)
    assert {"packing.weights", "causal.alignment"} <= failed(found)
    assert {(scope, code.partition("(")[0]) for _, scope, code in told(found)} == {
        ("forward", "torch.nn.functional.scaled_dot_product_attention")
    }


@pytest.fixture
def loose_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    make = qwen3.create_causal_mask

    def loose(**given: Any) -> Any:
        mask = make(**given)
        return mask if mask is None else mask.roll(1, -1)

    monkeypatch.setattr(qwen3, "create_causal_mask", loose)


@pytest.mark.usefixtures("loose_mask")
def test_a_mask_that_is_made_wrong_is_named_where_it_is_made() -> None:
    found = tracer.verify(live_model("eager"), tokens=IDS, layers=(0, 1))
    assert {"causal.weights", "window.none"} <= failed(found)
    assert {(scope, code.partition("(")[0]) for _, scope, code in told(found)} == {("forward", "create_causal_mask")}


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_what_mixes_tokens_outside_the_weights_is_told_before_what_it_moves(implementation: str) -> None:
    found = tracer.verify(put(live_model(implementation), Mixed), tokens=IDS, layers=(0, 1))
    assert {"heads.layout", "causal.effect", "padding.effect"} <= failed(found)
    assert [id for id, _, _ in told(found)] == ["heads.layout"]
    assert "causal.effect" in review(found).rpartition("most likely because of the above")[2]


def test_a_leak_that_the_weights_show_is_told_in_full_beside_a_wrong_layout() -> None:
    class Both(Mixed):
        def mask(self, mask: Any) -> Any:
            return None

    found = tracer.verify(put(live_model(), Both), tokens=IDS, layers=(0, 1))
    assert {"heads.layout", "packing.weights"} <= {id for id, _, _ in told(found)}


@pytest.mark.parametrize(
    ("implementation", "there"),
    [
        ("sdpa", {"sdpa_forward", "repeat_kv"}),
        ("eager", {"eager_forward", "repeat_kv"}),
        ("flash_attention_2", {"flash_forward", "flash_utils", "flash_kwargs"}),
        ("flex_attention", set()),
    ],
)
def test_only_functions_that_run_have_a_role(implementation: str, there: set[str]) -> None:
    from tracer.engines.transformers.live import Live
    from tracer.engines.transformers.roles import roles

    of_function = {"sdpa_forward", "eager_forward", "flash_forward", "flash_utils", "flash_kwargs", "repeat_kv"}
    found = roles(Live(live_model(implementation)), 0)
    assert set(found) & of_function == there
    assert "attention_forward" in found


def test_a_forward_that_calls_the_eager_function_itself_has_its_role() -> None:
    from tracer.engines.transformers.live import Live
    from tracer.engines.transformers.roles import roles

    class Calls(qwen3.Qwen3Attention):
        def forward(self, *given: Any, **named: Any) -> Any:
            return eager_attention_forward(self, *given, **named)

    assert "eager_forward" in roles(Live(put(live_model("sdpa"), Calls)), 0)


eager_attention_forward = qwen3.eager_attention_forward


class Tiled(attentions.Direct):
    """Key/value heads tiled as a whole, one after the other."""

    def forward(  # type: ignore[override]
        self, hidden_states: Tensor, position_embeddings: Any, attention_mask: Any = None, cache: Any = None, **_: Any
    ) -> Any:
        q, k, v = attentions._projected(self, hidden_states)
        q, k = qwen3.apply_rotary_pos_emb(q, k, *position_embeddings)
        if cache is not None:
            k, v = cache.update(k, v, self.layer_idx)
        k, v = (x.repeat(1, self.num_key_value_groups, 1, 1) for x in (k, v))
        out = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=attention_mask, is_causal=attention_mask is None and q.shape[2] > 1, scale=self.scaling
        )
        return self.o_proj(out.transpose(1, 2).flatten(2)), None


class Uncached(attentions.Direct):
    """The cache is not handed on."""

    def forward(  # type: ignore[override]
        self, hidden_states: Tensor, position_embeddings: Any, attention_mask: Any = None, cache: Any = None, **_: Any
    ) -> Any:
        return super().forward(hidden_states, position_embeddings, attention_mask, None)


class Backwards(qwen3.Qwen3Attention):
    """The wrong expression stands in the user's own forward, the rest in the class above."""

    def forward(self, hidden_states: Tensor, position_embeddings: Any, *args: Any, **kwargs: Any) -> Any:
        cos, sin = position_embeddings
        return super().forward(hidden_states, (cos, -sin), *args, **kwargs)


class Returned(Backwards):
    """No call in which a place could be found."""

    def forward(self, hidden_states: Tensor, position_embeddings: Any, *args: Any, **kwargs: Any) -> Any:
        cos, sin = position_embeddings
        return qwen3.Qwen3Attention.forward(self, hidden_states, (cos, -sin), *args, **kwargs)


def reviewed(model: Any) -> tuple[list[list[str]], str]:
    """Return the ids that are told in full, each with those at its place, and the review."""
    found = tracer.verify(model, tokens=IDS)
    return [[cause.check.id, *also] for cause, also in causes(found)], review(found)


def with_function(name: str, function: Any) -> Verification:
    """Return the verification of a model with an attention function of its own, and eager's mask."""
    AttentionInterface.register(name, function)
    AttentionMaskInterface.register(name, eager_mask)
    try:
        return tracer.verify(live_model(name), tokens=IDS)
    finally:
        AttentionInterface._global_mapping.pop(name)
        AttentionMaskInterface._global_mapping.pop(name)


def test_tiled_heads_are_named_and_not_the_large_scores_that_they_break_too() -> None:
    ids, text = reviewed(put(live_model(), Tiled))
    assert ids == [["heads.keys", "heads.values"]]
    assert "These fail too, most likely because of the above: softmax.large, causal.large, kernel.output" in text
    assert "subtract each row's maximum" not in text


def test_the_page_too_says_what_follows_from_what_it_tells() -> None:
    found = tracer.verify(put(live_model(), Tiled), tokens=IDS)
    shown = " ".join(str(found).split())
    assert "These fail too, most likely because of the above: softmax.large, causal.large, kernel.output" in shown
    one = tracer.verify(put(live_model(), attentions.WrongValues), tokens=IDS, layers=(0,), scenarios=("plain",))
    assert "These fail too" not in str(one)


def test_a_soft_cap_is_no_matter_of_large_scores() -> None:
    def capped(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **given: Any) -> Any:
        k, v = (qwen3.repeat_kv(x, module.num_key_value_groups) for x in (key, value))
        scores = 0.5 * torch.tanh(query @ k.transpose(2, 3) * given["scaling"] / 0.5)
        weights = torch.softmax(scores + mask[..., : k.shape[2]], -1)
        return (weights @ v).transpose(1, 2).contiguous(), weights

    found = with_function("capped", capped)
    assert [[cause.check.id, *also] for cause, also in causes(found)] == [["kernel.output"]]
    assert "a soft cap" in review(found)


def test_a_cache_that_is_never_updated_is_named_before_the_positions_that_follow() -> None:
    ids, text = reviewed(put(live_model(), Uncached))
    assert ids == [["cache.rows"]]
    assert "super().forward(hidden_states, position_embeddings, attention_mask, None)" in text
    assert "cache.update was never called" in text
    assert "most likely because of the above: rope.positions, cache.same" in text


def test_what_a_subclass_hands_to_its_base_class_has_a_place() -> None:
    (cause, _), *_ = causes(tracer.verify(put(live_model(), Backwards), tokens=IDS))
    assert cause.check.id == "rope.pairing"
    assert cause.check.site is not None
    assert cause.check.site.code == "super().forward(hidden_states, (cos, -sin), *args, **kwargs)"


def test_where_no_expression_is_found_the_users_own_forward_is_the_place() -> None:
    (cause, _), *_ = causes(tracer.verify(put(live_model(), Returned), tokens=IDS))
    assert cause.check.site is not None
    assert cause.check.site.scope == "Returned.forward"
    assert cause.check.site.code.startswith("def forward(self, hidden_states")


def test_heads_that_read_no_head_alone_are_told_by_their_numbers() -> None:
    def blended(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **given: Any) -> Any:
        k, v = (qwen3.repeat_kv(x, module.num_key_value_groups) for x in (key, value))
        v = torch.cat([v[:, :2], (v[:, 2:3] + v[:, :1]) / 2, v[:, 3:]], 1)
        weights = torch.softmax(query @ k.transpose(2, 3) * given["scaling"] + mask[..., : k.shape[2]], -1)
        return (weights @ v).transpose(1, 2).contiguous(), weights

    found = with_function("blended", blended)
    check = next(o.check for o in found.failures if o.check.id == "heads.values")
    assert check.measured.text() == "key/value heads 0, 0, –, 1, 2, 2 (–: not the values of one head alone)"
    assert "these do not: 2" in check.reason.text()
    assert "以下 query 头不是这样：2" in check.reason.text("zh")


class Shuffled(Changed):
    """Heads in another order before o_proj."""

    def merged(self, output: Tensor) -> Tensor:
        return output.flip(2).flatten(2)


@pytest.mark.parametrize("asked", [{}, {"layers": (1,)}, {"thorough": True}])
def test_the_code_of_the_failing_layer_is_named_where_other_layers_run_other_code(asked: dict[str, Any]) -> None:
    model = live_model()
    layer = model.model.layers[1]
    own = Shuffled(model.config, 1).eval()
    own.load_state_dict(layer.self_attn.state_dict())
    layer.self_attn = own
    found = tracer.verify(model, tokens=IDS, **asked)
    told = next(o for o in found.failures if o.check.id == "heads.layout")
    assert {number for number, _ in told.failed} == {1}
    assert told.check.site is not None
    assert told.check.site.path.endswith("test_places_named.py")
    assert "self.merged" in told.check.site.code


def test_a_scale_changed_in_a_class_of_one_layer_is_named_there() -> None:
    model = live_model()
    own = attentions.HiddenScale(model.config, 2).eval()
    own.load_state_dict(model.model.layers[2].self_attn.state_dict())
    model.model.layers[2].self_attn = own
    told = next(o for o in tracer.verify(model, tokens=IDS).failures if o.check.id == "scale.static")
    assert told.check.site is not None
    assert told.check.site.path.endswith("attentions.py")


def test_values_that_were_changed_on_their_way_are_not_called_another_heads() -> None:
    text = review(tracer.verify(put(live_model(), attentions.WrongValues), tokens=IDS, layers=(0,)))
    assert "The values that arrive are not those that v_proj made  [heads.values]" in text
    assert "hand on what v_proj gave as it is" in text
