"""Models that run their attention in unusual ways: compiled, a projection for some tokens at a time, a class under an
``if``. Right ones pass, wrong ones fail, and nothing ends in an error."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AttentionInterface
from transformers.models.qwen3 import modeling_qwen3 as qwen3

import tracer
from tests.verify import attentions
from tests.verify.attentions import put
from tests.verify.conftest import IDS, failed, live_model, outcome, status
from tracer.records import Status


def verified(model: Any, **asked: Any) -> Any:
    return tracer.verify(model, tokens=IDS, layers=(0, 1), **asked)


# ---- compiled


def as_a_whole(model: Any) -> Any:
    return torch.compile(model, backend="eager")


def in_place(model: Any) -> Any:
    model.compile(backend="eager")
    return model


def layer_by_layer(model: Any) -> Any:
    for layer in model.model.layers:
        layer.compile(backend="eager")
    return model


def attention_by_attention(model: Any) -> Any:
    for layer in model.model.layers:
        layer.self_attn = torch.compile(layer.self_attn, backend="eager")
    return model


def projection_by_projection(model: Any) -> Any:
    for layer in model.model.layers:
        layer.self_attn.q_proj = torch.compile(layer.self_attn.q_proj, backend="eager")
        layer.self_attn.q_norm = torch.compile(layer.self_attn.q_norm, backend="eager")
    return model


def forward_by_forward(model: Any) -> Any:
    for layer in model.model.layers:
        layer.self_attn.forward = torch.compile(layer.self_attn.forward, backend="eager")
    return model


COMPILED = (
    as_a_whole,
    in_place,
    layer_by_layer,
    attention_by_attention,
    projection_by_projection,
    forward_by_forward,
)


@pytest.mark.parametrize("compiled", COMPILED)
def test_a_compiled_model_is_verified_as_its_source_and_that_is_said(compiled: Any) -> None:
    found = verified(compiled(live_model()))
    plain = verified(live_model())
    assert found.subject == "Qwen3ForCausalLM"
    assert [(o.check.id, o.check.status) for o in found.outcomes] == [
        (o.check.id, o.check.status) for o in plain.outcomes
    ]
    assert [warning.id for warning in found.warnings] == ["verify.compiled"]
    assert plain.warnings == ()


def test_a_fault_in_a_compiled_model_is_found_in_its_source() -> None:
    found = verified(as_a_whole(put(live_model(), attentions.HiddenScale)))
    assert "scale.static" in failed(found)
    site = outcome(found, "scale.static").check.site
    assert site is not None
    assert site.code == "(config.hidden_size // config.num_attention_heads) ** -0.5"


def test_the_compiler_works_again_afterwards() -> None:
    seen: list[int] = []

    def backend(graph: Any, _: Any) -> Any:
        seen.append(1)
        return graph.forward

    model = live_model()
    verified(torch.compile(model, backend="eager"))
    double = torch.compile(lambda x: x * 2, backend=backend)
    assert float(double(torch.ones(()))) == 2
    assert seen


@pytest.fixture
def compiled_function() -> Iterator[None]:
    AttentionInterface.register("compiled", torch.compile(attentions.eager_clone, backend="eager"))
    yield
    AttentionInterface._global_mapping.pop("compiled")


@pytest.mark.usefixtures("compiled_function")
def test_a_compiled_attention_function_is_told_too() -> None:
    found = verified(live_model("compiled"), scenarios=("plain",))
    assert "verify.compiled" in [warning.id for warning in found.warnings]
    assert "causal.flag" in failed(found)  # no mask function of that name


# ---- projections


def heads(module: Any, x: Tensor) -> Tensor:
    return x.view(*x.shape[:2], -1, module.head_dim).transpose(1, 2)


class InPieces(qwen3.Qwen3Attention):
    """Every projection is called for eight tokens at a time, or for one row at a time."""

    axis = 1
    size = 8

    def pieces(self, projection: Any, x: Tensor) -> Tensor:
        return torch.cat([projection(part) for part in x.split(self.size, self.axis)], self.axis)

    def forward(  # type: ignore[override]
        self, hidden_states: Tensor, position_embeddings: Any, attention_mask: Any = None, cache: Any = None, **_: Any
    ) -> Any:
        q, k, v = (heads(self, self.pieces(p, hidden_states)) for p in (self.q_proj, self.k_proj, self.v_proj))
        q, k = qwen3.apply_rotary_pos_emb(self.q_norm(q), self.k_norm(k), *position_embeddings)
        if cache is not None:
            k, v = cache.update(k, v, self.layer_idx)
        causal = attention_mask is None and q.shape[2] > 1
        mixed = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=attention_mask, is_causal=causal, scale=self.scaling, enable_gqa=True
        )
        return self.pieces(self.o_proj, mixed.transpose(1, 2).flatten(2)), None


class RowByRow(InPieces):
    axis = 0
    size = 1


class Flattened(InPieces):
    """Each projection is given the tokens of all rows in one line."""

    def pieces(self, projection: Any, x: Tensor) -> Tensor:
        return projection(x.flatten(0, 1)).view(*x.shape[:2], -1)  # type: ignore[no-any-return]


class OnlyTheLast(InPieces):
    """Something is asked of o_proj for one token only."""

    def pieces(self, projection: Any, x: Tensor) -> Tensor:
        if projection is self.o_proj:
            projection(x[:, -1:])
            return torch.nn.functional.linear(x, projection.weight)
        return projection(x)  # type: ignore[no-any-return]


@pytest.mark.parametrize("attention", [InPieces, RowByRow, Flattened])
def test_a_projection_called_for_some_tokens_at_a_time_is_judged_as_a_whole(attention: type) -> None:
    found = verified(put(live_model(), attention))
    assert failed(found) == set()
    for id in ("projections", "norm.present", "rope.applied", "heads.values", "heads.layout", "output.returned"):
        assert status(found, id) is Status.PASS, id
    assert all(o.check.status is Status.PASS for o in found.outcomes if o.check.id == "projections")


@pytest.mark.parametrize("attention", [InPieces, RowByRow, Flattened])
def test_and_its_fault_is_found_there(attention: type) -> None:
    class Roughly(attention):  # type: ignore[misc]
        def pieces(self, projection: Any, x: Tensor) -> Tensor:
            made: Tensor = super().pieces(projection, x * 1.01 if projection is self.v_proj else x)
            return made

    found = verified(put(live_model(), Roughly), scenarios=("plain",))
    assert failed(found) == {"projections"}
    assert {o.part for o in found.failures} == {"v"}


def test_calls_that_are_not_all_tokens_are_not_testable() -> None:
    found = verified(put(live_model(), OnlyTheLast))
    assert failed(found) == set()
    assert status(found, "heads.layout") is Status.NOT_TESTABLE
    assert status(found, "output.returned") is Status.NOT_TESTABLE


class ByHandInPieces(InPieces):
    """No attention function to be seen: values are put in where v_proj gives them, piece by piece."""

    ahead = 0

    def forward(  # type: ignore[override]
        self, hidden_states: Tensor, position_embeddings: Any, attention_mask: Any = None, cache: Any = None, **_: Any
    ) -> Any:
        q, k, v = (heads(self, self.pieces(p, hidden_states)) for p in (self.q_proj, self.k_proj, self.v_proj))
        q, k = qwen3.apply_rotary_pos_emb(self.q_norm(q), self.k_norm(k), *position_embeddings)
        if cache is not None:
            k, v = cache.update(k, v, self.layer_idx)
        k, v = (qwen3.repeat_kv(x, self.num_key_value_groups) for x in (k, v))
        scores = q @ k.transpose(2, 3) * self.scaling
        length, keys = scores.shape[2:]
        seen = torch.ones(length, keys, dtype=torch.bool).tril(keys - length + self.ahead)
        if attention_mask is not None:
            seen = seen & attention_mask
        weights = torch.nan_to_num(torch.softmax(scores.masked_fill(~seen, -torch.inf), -1))
        return self.o_proj((weights @ v).transpose(1, 2).flatten(2)), None


class ByHandInPiecesAhead(ByHandInPieces):
    ahead = 1


def test_values_are_put_in_piece_by_piece() -> None:
    found = verified(put(live_model(), ByHandInPieces))
    assert failed(found) == set()
    assert status(found, "causal.weights") is Status.PASS
    assert status(found, "heads.values") is Status.PASS
    assert status(found, "packing.weights", "packed") is Status.PASS


def test_and_show_what_is_seen_too_soon() -> None:
    check = outcome(verified(put(live_model(), ByHandInPiecesAhead)), "causal.weights").check
    assert check.status is Status.FAIL
    assert check.figures["key"] == int(str(check.figures["query"])) + 1


# ---- places

GUARDED = '''
import torch
from transformers.models.qwen3 import modeling_qwen3 as qwen3

try:
    class Guarded(qwen3.Qwen3Attention):
        """Under a try, as code is that supports several versions."""

        def __init__(self, config, layer_idx):
            super().__init__(config, layer_idx)
            self.scaling = 2 * self.head_dim**-0.5
except ImportError:
    Guarded = None
'''


def imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def test_a_class_under_a_try_is_verified_and_its_expression_named(tmp_path: Path) -> None:
    file = tmp_path / "guarded_attention.py"
    file.write_text(GUARDED, encoding="utf-8")
    found = verified(put(live_model(), imported(file).Guarded), scenarios=("plain",))
    site = outcome(found, "scale.static").check.site
    assert site is not None
    assert (site.code, site.span.line, site.span.column) == ("2 * self.head_dim**-0.5", 11, 27)
