"""tracer.verify and tracer.assert_attention on models as users have them: patched, subclassed, with functions of their
own. Nothing of the model or of torch is different afterwards."""

import contextlib
import random
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask
from transformers.models.qwen3 import modeling_qwen3 as qwen3
from transformers.models.qwen3.modeling_qwen3 import apply_rotary_pos_emb

import tracer
from tests.verify import attentions
from tests.verify.attentions import put
from tests.verify.conftest import IDS, failed, live_model, outcome, status
from tracer import data
from tracer.errors import InputError, Unsupported
from tracer.records import Status
from tracer.verification.entry import verify_checkpoint


def verified(model: Any, **asked: Any) -> Any:
    return tracer.verify(model, tokens=IDS, layers=(0, 1), **asked)


def complaint(model: Any, **asked: Any) -> str:
    with pytest.raises(AssertionError) as error:
        tracer.assert_attention(model, tokens=IDS, **asked)
    return str(error.value)


def test_a_sound_model_passes_in_silence() -> None:
    assert tracer.assert_attention(live_model(), tokens=IDS) is None  # type: ignore[func-returns-value]


def test_a_prompt_is_chosen_where_none_is_given() -> None:
    found = tracer.verify(live_model(), layers=(1,), scenarios=("plain",))
    assert found.exit_code == 0
    assert len(found.tokens) > 32


def test_a_subclass_with_the_wrong_scale_is_told_where_and_what_to_change() -> None:
    text = complaint(put(live_model(), attentions.HiddenScale))
    assert "attentions.py:" in text
    assert "HiddenScale.__init__" in text
    assert "(config.hidden_size // config.num_attention_heads) ** -0.5" in text
    assert "measured:" in text
    assert "0.3535533905932738" in text
    assert "expected: head_dim**-0.5 = 16**-0.5 = 0.25" in text
    assert "change:   define it as self.head_dim**-0.5" in text
    assert "all layers" in text
    assert "1. The scale is not defined as head_dim**-0.5  [scale.static]" in text
    assert text.index("scale.static") < text.index("scale.effective")  # causes before consequences


def test_the_review_speaks_chinese_too() -> None:
    text = complaint(put(live_model(), attentions.HiddenScale), language="zh")
    assert "修改：" in text
    assert "缩放因子没有定义为 head_dim**-0.5" in text


def test_a_scale_changed_after_construction_is_found_by_value_in_its_layer() -> None:
    model = live_model()
    model.model.layers[1].self_attn.scaling = 0.125
    found = tracer.verify(model, tokens=IDS)
    assert status(found, "scale.static") is Status.PASS
    assert {layer for layer, _ in outcome(found, "scale.value").failed} == {1}
    site = outcome(found, "scale.value").check.site
    assert site is not None
    assert site.code == "self.scaling"


def test_a_forgotten_norm_is_named_in_the_users_own_file() -> None:
    found = verified(put(live_model(), attentions.Unnormed))
    assert failed(found) == {"norm.present"}
    check = outcome(found, "norm.present").check
    assert check.site is not None
    assert check.site.path.endswith("attentions.py")
    assert check.site.code == "self.q_proj(hidden_states).view(shape).transpose(1, 2)"
    assert "without any norm" in check.measured.text()


def test_torchs_kernel_called_directly_passes_when_right() -> None:
    found = verified(put(live_model(), attentions.Direct))
    assert failed(found) == set()
    assert status(found, "scale.kernel") is Status.PASS
    assert status(found, "heads.keys") is Status.PASS


def test_torchs_kernel_called_directly_without_causality_leaks() -> None:
    found = verified(put(live_model(), attentions.Leaky))
    assert {"causal.weights", "causal.effect", "causal.model", "causal.flag"} <= failed(found)


def test_an_attention_by_hand_is_judged_by_what_comes_of_it() -> None:
    found = verified(put(live_model(), attentions.ByHand))
    assert failed(found) == set()
    assert status(found, "weights.reference") is Status.PASS
    assert status(found, "causal.effect") is Status.PASS
    assert status(found, "heads.values") is Status.PASS
    assert status(found, "scale.effective") is Status.NOT_TESTABLE


def test_a_hidden_factor_in_an_attention_by_hand_shows_in_its_weights() -> None:
    assert failed(verified(put(live_model(), attentions.ByHandTooSharp))) == {"weights.reference"}


@pytest.fixture
def registered() -> Iterator[None]:
    AttentionInterface.register("clone", attentions.eager_clone)
    yield
    AttentionInterface._global_mapping.pop("clone")
    AttentionMaskInterface._global_mapping.pop("clone", None)


@pytest.mark.usefixtures("registered")
def test_a_custom_function_without_its_mask_function_loses_causality_and_is_told_so() -> None:
    # Public reports: the mask is None then, and nothing says so.
    model = live_model("clone")
    found = verified(model)
    assert {"causal.flag", "causal.weights", "causal.effect"} <= failed(found)
    text = complaint(model)
    assert "AttentionMaskInterface.register" in text
    assert "mask=None" in text


@pytest.mark.usefixtures("registered")
def test_a_custom_function_with_its_mask_function_passes() -> None:
    AttentionMaskInterface.register("clone", eager_mask)
    found = verified(live_model("clone"))
    assert failed(found) == set()
    assert status(found, "causal.flag") is Status.PASS


def test_dropout_in_training_mode_is_the_only_thing_told() -> None:
    model = live_model("eager", attention_dropout=0.2).train()
    found = verified(model)
    assert failed(found) == {"dropout.off"}
    assert "p = 0.2" in outcome(found, "dropout.off").check.measured.text()
    assert model.training


def test_training_mode_without_dropout_is_no_fault() -> None:
    assert failed(verified(live_model("eager").train())) == set()


def test_a_bare_model_without_a_head_is_a_model_too() -> None:
    assert failed(tracer.verify(live_model().model, tokens=IDS, layers=(0,))) == set()


def snapshot(model: Any) -> tuple[Any, ...]:
    from transformers import modeling_flash_attention_utils as utils

    hooks = sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    tables = [sorted(table._global_mapping) for table in (AttentionInterface, AttentionMaskInterface)]
    code = [qwen3.apply_rotary_pos_emb.__code__, qwen3.Qwen3RMSNorm.forward.__code__]
    owned = ["get_interface" in vars(AttentionInterface), "__getitem__" in vars(AttentionInterface)]
    return (
        hooks,
        {name: tensor.sum().item() for name, tensor in weights.items()},
        tables,
        code,
        owned,
        AttentionInterface.get_interface,
        torch.random.get_rng_state().tolist(),
        np.random.get_state()[1].tolist(),  # type: ignore[index,union-attr]
        random.getstate(),
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        torch.get_num_threads(),
        model.training,
        model.config._attn_implementation,
        model.config.use_cache,
        [parameter.grad for parameter in model.parameters()],
        utils._flash_varlen_fn,
    )


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_nothing_is_different_afterwards(implementation: str) -> None:
    model = live_model(implementation)
    before = snapshot(model)
    tracer.verify(model, tokens=IDS)
    assert snapshot(model) == before


def test_nothing_is_different_after_an_error_either() -> None:
    model = live_model()

    def fail(*_: Any) -> None:
        raise RuntimeError("in the middle")

    hook = model.model.layers[1].mlp.register_forward_pre_hook(fail)
    before = snapshot(model)
    with pytest.raises(RuntimeError):
        tracer.verify(model, tokens=IDS)
    assert snapshot(model) == before
    hook.remove()
    assert tracer.verify(model, tokens=IDS, layers=(0,)).exit_code == 0


class _Own(qwen3.Qwen3Attention):
    """A right attention with two places to change it: keys after their norm, the tables of cos and sin."""

    def forward(  # type: ignore[override]
        self, hidden_states: Any, position_embeddings: Any, attention_mask: Any = None, cache: Any = None, **_: Any
    ) -> Any:
        q, k, v = attentions._projected(self, hidden_states)
        q, k = apply_rotary_pos_emb(q, self.keys(k), *self.table(hidden_states, *position_embeddings))
        if cache is not None:
            k, v = cache.update(k, v, self.layer_idx)
        out = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=attention_mask, is_causal=attention_mask is None and q.shape[2] > 1, enable_gqa=True
        )
        return self.o_proj(out.transpose(1, 2).flatten(2)), None

    def keys(self, k: Any) -> Any:
        return k

    def table(self, _x: Any, cos: Any, sin: Any) -> Any:
        return cos, sin


class _Alone(attentions.Direct):
    """An attention that was never meant to be given a batch."""

    def forward(self, hidden_states: Any, *given: Any, **named: Any) -> Any:
        if hidden_states.shape[0] > 1:
            raise RuntimeError("one sequence at a time")
        return super().forward(hidden_states, *given, **named)


class _Never(attentions.Direct):
    def forward(self, *given: Any, **named: Any) -> Any:
        raise RuntimeError("not written yet")


def test_what_the_models_code_raises_in_one_scenario_is_a_failure_of_that_one() -> None:
    found = verified(put(live_model(), _Alone))
    assert failed(found) == {"runs"}
    (told,) = found.failures
    assert told.scenario == "padded"
    assert told.check.measured.text() == "it raised RuntimeError: one sequence at a time"
    assert told.check.site is not None
    assert told.check.site.code == 'raise RuntimeError("one sequence at a time")'
    others = {outcome.scenario for outcome in found.outcomes if outcome.check.status is Status.PASS}
    assert others == {"plain", "packed", "chunk", "decode"}
    missed = outcome(found, "kernel.output", "padded")
    assert set(missed.untested) == {0, 1}
    assert missed.why is not None
    assert "ended with RuntimeError" in missed.why.text()


def test_what_this_package_raises_itself_is_never_told_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> int:
        return int("no number")

    broken.__code__ = broken.__code__.replace(co_filename=str(Path(tracer.__file__)))
    monkeypatch.setattr("tracer.engines.transformers.live.Live.held", staticmethod(broken))
    with pytest.raises(ValueError, match="no number") as error:
        verified(live_model())
    assert not hasattr(error.value, "__notes__")


def test_what_torch_raises_of_an_attentions_own_call_is_told_of_the_model() -> None:
    class Narrow(_Own):
        def keys(self, k: Any) -> Any:
            return k if k.shape[0] == 1 else torch.cat([k, k[..., :1]], 1)  # of a batch, shapes that do not fit

    found = verified(put(live_model(), Narrow))
    told = outcome(found, "runs", "padded").check
    assert "RuntimeError" in told.measured.text()
    assert told.site is not None
    assert told.site.code.startswith("torch.cat(")


def test_what_it_raises_in_the_plain_scenario_comes_through_with_a_note() -> None:
    with pytest.raises(RuntimeError, match="not written yet") as error:
        verified(put(live_model(), _Never))
    assert error.value.__notes__ == ["raised while tracer ran the model in the scenario 'plain': plain prompt"]


def test_a_layer_whose_attention_never_ran_is_not_told_as_right() -> None:
    model = live_model()
    model.model.layers[1].forward = lambda hidden_states, *given, **named: hidden_states  # an early exit
    found = verified(model)
    assert failed(found) == set()
    assert not any(each.whole for each in found.outcomes)
    output = outcome(found, "kernel.output")
    assert output.untested == (1,)
    assert output.why is not None
    assert "never called" in output.why.text()
    assert "never called" in complaint(model, layers=(0, 1), strict=True)


def test_a_pass_that_goes_round_the_watched_call_is_not_told_as_right_either() -> None:
    class Beside(attentions.Direct):
        def __call__(self, *given: Any, **named: Any) -> Any:
            alone = named["hidden_states"].shape[1] == 1
            return self.forward(*given, **named) if alone else super().__call__(*given, **named)

    found = verified(put(live_model(), Beside))
    assert failed(found) == set()
    assert {outcome.check.status for outcome in found.outcomes if outcome.scenario == "decode"} == {Status.NOT_TESTABLE}
    assert status(found, "kernel.output", "chunk") is Status.PASS


def test_a_model_that_keeps_all_layers_in_one_buffer_is_judged_by_what_each_had() -> None:
    model = live_model("sdpa", num_hidden_layers=6)
    layers = model.model.layers
    own = [{name: one.detach().clone() for name, one in layer.named_parameters()} for layer in layers]
    buffer = {name: one.detach().clone() for name, one in layers[0].named_parameters()}

    def fill(number: int) -> None:
        for name, one in own[number].items():
            buffer[name].copy_(one)

    for number, layer in enumerate(layers):
        for name, one in layer.named_parameters():
            one.data = buffer[name]
        layer.register_forward_pre_hook(lambda *_, number=number: fill(number))
    assert failed(tracer.verify(model, tokens=IDS)) == set()


def test_layers_that_share_one_attention_are_refused() -> None:
    model = live_model()
    model.model.layers[1].self_attn = model.model.layers[0].self_attn
    with pytest.raises(Unsupported, match="Layers 0 and 1 share one attention module"):
        verified(model)


def test_an_attention_that_is_tried_again_leaves_nothing_behind() -> None:
    class Shy(attentions.Direct):
        asked = 0

        def forward(self, *given: Any, **named: Any) -> Any:
            self.asked += 1
            if self.asked % 2:
                raise RuntimeError("once more, please")
            return super().forward(*given, **named)

    model = put(live_model(), Shy)
    layer = model.model.layers[0]
    forward = layer.forward

    def patient(*given: Any, **named: Any) -> Any:
        with contextlib.suppress(RuntimeError):
            return forward(*given, **named)
        return forward(*given, **named)

    layer.forward = patient
    before = torch._C._len_torch_function_stack()  # type: ignore[attr-defined]
    with contextlib.suppress(RuntimeError):  # a call that is made again is not tried twice
        verified(model)
    assert layer.self_attn.asked > 1
    assert torch._C._len_torch_function_stack() == before  # type: ignore[attr-defined]


def test_hidden_states_by_another_name_are_found() -> None:
    class Named(attentions.Direct):
        def __call__(self, **named: Any) -> Any:
            return super().__call__(**{"x" if name == "hidden_states" else name: x for name, x in named.items()})

        def forward(self, x: Any, **named: Any) -> Any:  # type: ignore[override]
            return super().forward(x, **named)

    assert failed(verified(put(live_model(), Named))) == set()


def test_an_attention_without_hidden_states_is_told_what_is_missing() -> None:
    class Flat(attentions.Direct):
        def __call__(self, *, hidden_states: Any, **named: Any) -> Any:
            return super().__call__(rows=hidden_states.flatten(0, 1), shape=hidden_states.shape, **named)

        def forward(self, rows: Any, shape: Any, **named: Any) -> Any:  # type: ignore[override]
            return super().forward(rows.view(shape), **named)

    with pytest.raises(Unsupported, match=r"called without hidden states of shape .* it was given: rows, shape"):
        verified(put(live_model(), Flat))


def test_another_thread_that_runs_the_model_with_a_batch_changes_nothing() -> None:
    model, going = live_model(), threading.Event()
    ids, positions = torch.tensor([IDS[:9]] * 3), torch.arange(9).expand(3, -1) + 5

    def serve() -> None:
        with torch.no_grad():
            while not going.is_set():
                model(input_ids=ids, position_ids=positions)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        assert failed(verified(model)) == set()
    finally:
        going.set()
        thread.join()


def test_two_threads_that_verify_leave_the_process_as_it_was() -> None:
    from threadpoolctl import threadpool_info

    def state() -> Any:
        return sys.getswitchinterval(), [pool["num_threads"] for pool in threadpool_info()]

    def again() -> None:
        for _ in range(20):
            with contextlib.suppress(Unsupported):
                verified(live_model(), scenarios=("plain",))

    before, threads = state(), [threading.Thread(target=again) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert state() == before


def test_another_thread_may_run_the_same_model_meanwhile() -> None:
    model, stop = live_model(), threading.Event()
    wanted = model(torch.tensor([IDS])).logits
    seen: list[bool] = []

    def work() -> None:
        with torch.no_grad():
            while not stop.is_set():
                seen.append(torch.equal(model(torch.tensor([IDS])).logits, wanted))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        found = tracer.verify(model, tokens=IDS, layers=(0, 1))
    finally:
        stop.set()
        thread.join()
    assert failed(found) == set()
    assert seen
    assert all(seen)


@pytest.mark.parametrize(
    ("model", "id"),
    [(5, "verify.not_a_module"), (torch.nn.Linear(2, 2), "verify.no_layers")],
)
def test_what_is_no_model_is_refused(model: Any, id: str) -> None:
    with pytest.raises(InputError) as error:
        tracer.verify(model)
    assert error.value.id == id


@pytest.mark.parametrize("asked", [{"layers": []}, {"heads": ()}])
def test_nothing_is_no_request_for_a_checkpoint_either(asked: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="is empty: there is nothing to verify"):
        tracer.verify(None, **asked)


def test_a_language_without_texts_is_refused_before_anything_runs() -> None:
    with pytest.raises(InputError, match=r"no texts in language 'fr'\. Give language as one of: en, zh"):
        tracer.assert_attention(None, language="fr")


def test_autocast_around_a_verification_is_told_as_what_was_not_verified() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = tracer.verify(live_model(), tokens=IDS, layers=(0,), scenarios=("plain",))
    assert found.exit_code == 0
    (warning,) = found.warnings
    assert "torch.autocast (bfloat16) is on here, but verification runs without it, in float32" in warning.text()
    assert "model.to(torch.bfloat16)" in str(found).replace("\n", " ")
    assert tracer.verify(live_model(), tokens=IDS, layers=(0,), scenarios=("plain",)).warnings == ()


def test_another_kind_of_model_is_refused() -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    small = LlamaConfig(
        num_hidden_layers=1,
        hidden_size=8,
        num_attention_heads=2,
        num_key_value_heads=1,
        intermediate_size=8,
        vocab_size=9,
    )
    with pytest.raises(Unsupported) as error:
        tracer.verify(LlamaForCausalLM(small))
    assert error.value.id == "verify.not_qwen3"
    assert "llama" in str(error.value)


@pytest.mark.parametrize(
    ("asked", "id"),
    [
        ({"layers": (7,)}, "verify.layer_range"),
        ({"heads": (6,)}, "verify.head_range"),
        ({"tokens": ()}, "verify.no_tokens"),
        ({"tokens": (97,)}, "verify.token_range"),
        ({"scenarios": ("plane",)}, "verify.unknown_scenario"),
        ({"layers": []}, "verify.none_asked"),
        ({"heads": range(0)}, "verify.none_asked"),
        ({"scenarios": ()}, "verify.none_asked"),
    ],
)
def test_what_cannot_be_asked_for_is_said(asked: dict[str, Any], id: str) -> None:
    with pytest.raises(InputError) as error:
        tracer.verify(live_model(), **asked)
    assert error.value.id == id
    assert all(error.value.text(language) for language in ("en", "zh"))
    if id.endswith("_range"):  # it says what to do, and names the argument
        (name,) = asked
        assert f" as {name}=" in str(error.value)
        assert f"{name}= 中给出" in error.value.text("zh")


@pytest.mark.parametrize(
    "tokens",
    [torch.tensor(IDS), torch.tensor([IDS]), np.array(IDS), iter(IDS), range(31), [np.int64(id) for id in IDS]],
)
def test_token_ids_may_come_in_any_sequence(tokens: Any) -> None:
    found = tracer.verify(live_model(), tokens=tokens, layers=np.array([1]), heads=range(2), scenarios=("plain",))
    assert found.exit_code == 0
    assert (found.layers, found.heads, len(found.tokens)) == ((1,), (0, 1), 31)
    assert {type(id) for id in (*found.tokens, *found.layers)} == {int}


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ({"tokens": [list(IDS)]}, "tokens"),
        ({"tokens": torch.tensor([IDS, IDS])}, "tokens"),
        ({"tokens": "hello"}, "tokens"),
        ({"tokens": 5}, "tokens"),
        ({"tokens": [0.5]}, "tokens"),
        ({"layers": 1}, "layers"),
        ({"heads": "0"}, "heads"),
        ({"heads": [True]}, "heads"),
        ({"scenarios": "plain"}, "scenarios"),
        ({"scenarios": [1]}, "scenarios"),
        ({"thorough": 1}, "thorough"),
    ],
)
def test_an_argument_of_another_kind_is_named(asked: dict[str, Any], name: str) -> None:
    with pytest.raises(InputError) as error:
        tracer.verify(live_model(), **asked)
    assert error.value.id == "verify.argument"
    assert f"verify({name}=…)" in error.value.text("en")
    assert f"verify({name}=…)" in error.value.text("zh")


def test_a_checkpoint_without_a_tokenizer_is_verified_on_chosen_ids(tmp_path: Path) -> None:
    for file in data.shipped_checkpoint("qwen3-tiny").iterdir():
        if not file.name.startswith("tokenizer"):
            shutil.copy(file, tmp_path)
    found = tracer.verify(tmp_path, layers=(0,), scenarios=("plain",))
    assert found.exit_code == 0
    assert len(found.tokens) == 43
    assert "43 pseudo-random token ids" in found.warnings[0].text()
    with pytest.raises(InputError) as error:
        verify_checkpoint(str(tmp_path), prompt="the cat")
    assert error.value.id == "checkpoint.no_tokenizer"


# ---- what the model's own code hides


class Hidden(attentions.Direct):
    """Right, but with projections that are not called as modules."""

    def forward(self, hidden_states: torch.Tensor, *given: Any, **named: Any) -> Any:
        whole, own = torch.nn.functional.linear, self._modules.pop("o_proj")
        object.__setattr__(self, "o_proj", lambda x: whole(x, own.weight))
        try:
            return super().forward(hidden_states, *given, **named)
        finally:
            object.__delattr__(self, "o_proj")
            self._modules["o_proj"] = own


def test_what_the_models_own_code_hides_is_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"heads.layout, output.returned: o_proj is not called"):
        tracer.assert_attention(put(live_model(), Hidden), tokens=IDS)


def test_and_a_failure_where_it_is_to_be_strict() -> None:
    model = put(live_model(), Hidden)
    with pytest.raises(AssertionError) as error:
        tracer.assert_attention(model, tokens=IDS, strict=True, language="zh")
    assert "无法进行" in str(error.value)
    assert "heads.layout" in str(error.value)


def test_only_in_one_layer_too() -> None:
    model = live_model()
    model.model.layers[2].self_attn = put(live_model(), Hidden).model.layers[2].self_attn
    with pytest.warns(UserWarning, match=r"heads.layout in layer 2"):
        tracer.assert_attention(model, tokens=IDS)


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_what_this_kernel_or_this_input_cannot_show_is_none(implementation: str) -> None:
    tracer.assert_attention(live_model(implementation), tokens=IDS[:3], strict=True)


def test_a_norm_of_another_kind_is_such_code_too() -> None:
    class Other(torch.nn.Module):
        def __init__(self, norm: Any) -> None:
            super().__init__()
            self.inner = norm.forward

        def forward(self, x: torch.Tensor) -> Any:
            return self.inner(x)

    model = live_model()
    attention = model.model.layers[1].self_attn
    attention.q_norm = Other(attention.q_norm)
    with pytest.raises(AssertionError, match="q_norm is a Other"):
        tracer.assert_attention(model, tokens=IDS, strict=True)


def test_a_hook_of_the_users_own_is_told_where_something_fails() -> None:
    model = live_model()
    hook = model.model.layers[1].self_attn.q_proj.register_forward_hook(lambda _, given, made: made.roll(1, 1))
    text = complaint(model)
    assert "[projections]" in text
    assert "! Forward hooks are registered on self_attn.q_proj (layer 1)." in text
    hook.remove()
    assert tracer.verify(model, tokens=IDS, layers=(1,), scenarios=("plain",)).warnings == ()


@pytest.mark.parametrize("register", ["register_forward_hook", "register_forward_pre_hook"])
def test_a_hook_that_changes_nothing_is_told_on_the_page_only(register: str) -> None:
    model = live_model()
    for layer in model.model.layers[:2]:
        getattr(layer.self_attn, register)(lambda *_: None)
    found = tracer.verify(model, tokens=IDS, scenarios=("plain",))
    assert found.exit_code == 0
    assert found.warnings[0].text().startswith("Forward hooks are registered on self_attn (layer 0–1).")


def louder(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return args, {**kwargs, "hidden_states": kwargs["hidden_states"] * 1.5}


def louder_in_place(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    kwargs["hidden_states"].mul_(1.5)
    return args, kwargs


@pytest.mark.parametrize("hook", [louder, louder_in_place])
def test_a_hook_that_changes_the_input_is_repeated_on_the_input_as_it_was_passed(hook: Any) -> None:
    model = live_model()
    model.model.layers[1].self_attn.register_forward_pre_hook(hook, with_kwargs=True)
    found = tracer.verify(model, tokens=IDS)
    assert failed(found) == set()
    assert {"self_attn"} == {warning.values["name"] for warning in found.warnings}
    assert len(model.model.layers[1].self_attn._forward_pre_hooks) == 1


def test_a_hook_that_lets_later_tokens_in_is_caught_and_not_called_dropout() -> None:
    model = live_model()

    def mixed(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        x = kwargs["hidden_states"]
        return args, {**kwargs, "hidden_states": x + x.roll(-1, 1)}

    model.model.layers[1].self_attn.register_forward_pre_hook(mixed, with_kwargs=True)
    assert {"causal.effect", "causal.model"} <= failed(tracer.verify(model, tokens=IDS))
    assert "dropout.off" not in failed(tracer.verify(model, tokens=IDS))


def test_what_is_random_without_dropout_is_not_called_dropout() -> None:
    model = live_model()
    attention = model.model.layers[1].self_attn
    attention.register_forward_hook(lambda _, given, made: (made[0] + torch.rand_like(made[0]), made[1]))
    text = complaint(model)
    assert "1. The same call does not give the same bits again  [dropout.off]" in text
    assert "change:   nothing is dropped (p = 0): look for what is random, or kept from call to call" in text
    assert "call model.eval()" not in text


def _plain(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, scaling: float, **_: Any) -> Any:
    scores = query @ key.transpose(2, 3) * scaling
    weights = torch.softmax(scores if attention_mask is None else scores + attention_mask, -1)
    return (weights @ value).transpose(1, 2).contiguous(), weights


class _Repeats(qwen3.Qwen3Attention):
    """Keys and values are repeated by the module, before its attention function; ``extra`` more heads of them."""

    repeat = staticmethod(qwen3.repeat_kv)
    extra = 0

    def forward(  # type: ignore[override]
        self, hidden_states: Any, position_embeddings: Any, attention_mask: Any = None, cache: Any = None, **_: Any
    ) -> Any:
        q, k, v = attentions._projected(self, hidden_states)
        q, k = qwen3.apply_rotary_pos_emb(q, k, *position_embeddings)
        if cache is not None:
            k, v = cache.update(k, v, self.layer_idx)
        k, v = (self.repeat(x, self.num_key_value_groups) for x in (k, v))
        function = AttentionInterface().get_interface("tests_repeated", None)
        out, weights = function(self, q, k, v, attention_mask, scaling=self.scaling)
        return self.o_proj(out.flatten(2)), weights


def _tiled(x: Any, times: int) -> Any:
    return x.repeat(1, times, 1, 1)


@pytest.mark.parametrize("right", [True, False])
def test_keys_that_are_repeated_before_the_attention_function_are_told_apart(right: bool) -> None:
    AttentionInterface.register("tests_repeated", _plain)
    AttentionMaskInterface.register("tests_repeated", eager_mask)
    attention = _Repeats if right else type("Tiles", (_Repeats,), {"repeat": staticmethod(_tiled)})
    found = verified(put(live_model("tests_repeated"), attention))
    assert status(found, "heads.keys") is (Status.PASS if right else Status.FAIL)
    assert status(found, "heads.values") is (Status.PASS if right else Status.FAIL)
    assert right is (failed(found) == set())


def test_keys_that_moved_by_a_token_accuse_neither_the_norm_nor_the_pairing() -> None:
    attention = type("Rolled", (_Own,), {"keys": lambda _, k: k.roll(1, 2)})
    found = verified(put(live_model(), attention), scenarios=("plain",))
    assert "rope.applied" in failed(found)
    assert not {"norm.eps", "rope.pairing"} & failed(found)
    text = complaint(put(live_model(), attention))
    assert "k at the attention function is not what RoPE makes of the norm's output  [rope.applied]" in text
    assert "look for another order of tokens or heads" in text


def test_positions_that_an_attention_scales_itself_are_no_other_theta() -> None:
    def halved(self: Any, x: Any, _cos: Any, _sin: Any) -> Any:
        each = torch.arange(0, self.head_dim, 2) / self.head_dim
        angles = torch.arange(x.shape[1])[:, None] / 2 * self.config.rope_parameters["rope_theta"] ** -each
        table = torch.cat([angles, angles], -1)[None]
        return table.cos(), table.sin()

    found = verified(put(live_model(), type("Halved", (_Own,), {"table": halved})), scenarios=("plain",))
    check = outcome(found, "rope.theta").check
    assert check.status is Status.FAIL
    assert "all frequencies are 0.5 times those of theta" in check.measured.text()
    assert check.site is not None
    assert check.site.path.endswith("test_live_models.py")
    assert check.site.code.startswith("apply_rotary_pos_emb(")


def test_a_cache_under_a_name_that_the_forward_does_not_read_is_told_as_that() -> None:
    class Older(_Own):
        def forward(  # type: ignore[override]
            self,
            hidden_states: Any,
            position_embeddings: Any,
            attention_mask: Any = None,
            past_key_values: Any = None,
            **_: Any,
        ) -> Any:
            return super().forward(hidden_states, position_embeddings, attention_mask, past_key_values)

    text = complaint(put(live_model(), Older))
    assert (
        "the cache is passed as cache=, which this forward takes up with **kwargs; it looks for past_key_values="
        in text
    )
    assert "name the parameter as its caller does" in text
    assert "test_live_models.py" in text


def test_a_weight_that_dropout_took_is_not_told_as_lost_causality() -> None:
    model = live_model("eager")
    model.train()
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.01
    text = complaint(model)
    assert "1. Something is dropped  [dropout.off]" in text
    assert "[causal.weights]" not in text


def test_a_function_of_the_users_own_is_where_its_wrong_heads_are() -> None:
    def flipped(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **named: Any) -> Any:
        key, value = (qwen3.repeat_kv(x.flip(1), module.num_key_value_groups) for x in (key, value))
        return _plain(module, query, key, value, attention_mask, named["scaling"])

    AttentionInterface.register("tests_flipped", flipped)
    AttentionMaskInterface.register("tests_flipped", eager_mask)
    found = verified(live_model("tests_flipped"))
    for id in ("heads.keys", "heads.values"):
        site = outcome(found, id).check.site
        assert site is not None
        assert site.path.endswith("test_live_models.py")
        assert site.code.startswith("def flipped")
