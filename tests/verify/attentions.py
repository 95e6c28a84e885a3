"""Attention as users write it: subclasses, functions of their own, forwards by hand. Some are right, some are not."""

from typing import Any

import torch
from torch import Tensor
from transformers.models.qwen3 import modeling_qwen3 as qwen3


class HiddenScale(qwen3.Qwen3Attention):
    """The scale from hidden_size / heads: right for models whose head_dim happens to be that."""

    def __init__(self, config: Any, layer_idx: int) -> None:
        super().__init__(config, layer_idx)
        self.scaling = (config.hidden_size // config.num_attention_heads) ** -0.5


def _projected(self: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    shape = (*x.shape[:2], -1, self.head_dim)
    q = self.q_norm(self.q_proj(x).view(shape)).transpose(1, 2)
    k = self.k_norm(self.k_proj(x).view(shape)).transpose(1, 2)
    return q, k, self.v_proj(x).view(shape).transpose(1, 2)


class Direct(qwen3.Qwen3Attention):
    """torch's own kernel, called without transformers' table."""

    causal = True

    def forward(  # type: ignore[override]
        self, hidden_states: Tensor, position_embeddings: Any, attention_mask: Any = None, cache: Any = None, **_: Any
    ) -> Any:
        q, k, v = _projected(self, hidden_states)
        q, k = qwen3.apply_rotary_pos_emb(q, k, *position_embeddings)
        if cache is not None:
            k, v = cache.update(k, v, self.layer_idx)
        out = torch.nn.functional.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=attention_mask,
            is_causal=self.causal and attention_mask is None and q.shape[2] > 1,
            scale=self.scaling,
            enable_gqa=True,
        )
        return self.o_proj(out.transpose(1, 2).flatten(2)), None


class Leaky(Direct):
    """The same, causality forgotten where there is no mask."""

    causal = False


class ByHand(qwen3.Qwen3Attention):
    """Plain products in the module's own forward: nothing of it can be seen but what comes out."""

    factor = 1.0

    def forward(  # type: ignore[override]
        self, hidden_states: Tensor, position_embeddings: Any, attention_mask: Any = None, cache: Any = None, **_: Any
    ) -> Any:
        q, k, v = _projected(self, hidden_states)
        q, k = qwen3.apply_rotary_pos_emb(q, k, *position_embeddings)
        if cache is not None:
            k, v = cache.update(k, v, self.layer_idx)
        k, v = (qwen3.repeat_kv(x, self.num_key_value_groups) for x in (k, v))
        scores = q @ k.transpose(2, 3) * self.scaling * self.factor
        length, keys = scores.shape[2:]
        seen = torch.ones(length, keys, dtype=torch.bool).tril(keys - length)
        if attention_mask is not None:
            seen = seen & attention_mask
        weights = torch.nan_to_num(torch.softmax(scores.masked_fill(~seen, -torch.inf), -1))
        return self.o_proj((weights @ v).transpose(1, 2).flatten(2)), None


class ByHandTooSharp(ByHand):
    """The same with a factor that no argument shows."""

    factor = 1.3


class Unnormed(qwen3.Qwen3Attention):
    """q_norm forgotten."""

    def forward(  # type: ignore[override]
        self,
        hidden_states: Tensor,
        position_embeddings: Any,
        attention_mask: Any = None,
        cache: Any = None,
        **kwargs: Any,
    ) -> Any:
        shape = (*hidden_states.shape[:2], -1, self.head_dim)
        query_states = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        key_states = self.k_norm(self.k_proj(hidden_states).view(shape)).transpose(1, 2)
        value_states = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        query_states, key_states = qwen3.apply_rotary_pos_emb(query_states, key_states, *position_embeddings)
        if cache is not None:
            key_states, value_states = cache.update(key_states, value_states, self.layer_idx)
        function = qwen3.ALL_ATTENTION_FUNCTIONS[self.config._attn_implementation]
        output, weights = function(
            self,
            query_states,
            key_states,
            value_states,
            attention_mask,
            dropout=0.0,
            scaling=self.scaling,
            sliding_window=self.sliding_window,
            **kwargs,
        )
        return self.o_proj(output.flatten(2)), weights


class Dropping(torch.nn.Module):
    """Not an attention at all."""


def eager_clone(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """What people register as a custom attention function: transformers' eager one, as it is."""
    result: tuple[Tensor, Tensor] = qwen3.eager_attention_forward(
        module, query, key, value, attention_mask, scaling, dropout
    )
    return result


def put(model: Any, attention: type) -> Any:
    """Return ``model`` with every layer's attention replaced by ``attention`` of the same weights."""
    for index, layer in enumerate(model.model.layers):
        new = attention(model.config, index).eval().to(layer.self_attn.q_proj.weight.dtype)
        new.load_state_dict(layer.self_attn.state_dict())
        layer.self_attn = new
    return model


class Inline(qwen3.Qwen3Attention):
    """Every projection and norm written out: right, though no part is called as a module. Factors make it wrong."""

    v_factor = 1.0
    o_factor = 1.0

    def forward(  # type: ignore[override]
        self, hidden_states: Tensor, position_embeddings: Any, attention_mask: Any = None, cache: Any = None, **_: Any
    ) -> Any:
        functional, x = torch.nn.functional, hidden_states
        shape, size = (*x.shape[:2], -1, self.head_dim), (self.head_dim,)
        q = functional.linear(x, self.q_proj.weight).view(shape)
        k = functional.linear(x, self.k_proj.weight).view(shape)
        v = functional.linear(x, self.v_proj.weight * self.v_factor).view(shape).transpose(1, 2)
        q = functional.rms_norm(q, size, self.q_norm.weight, self.config.rms_norm_eps).transpose(1, 2)
        k = functional.rms_norm(k, size, self.k_norm.weight, self.config.rms_norm_eps).transpose(1, 2)
        q, k = qwen3.apply_rotary_pos_emb(q, k, *position_embeddings)
        if cache is not None:
            k, v = cache.update(k, v, self.layer_idx)
        causal = attention_mask is None and q.shape[2] > 1
        out = functional.scaled_dot_product_attention(
            q, k, v, attn_mask=attention_mask, is_causal=causal, scale=self.scaling, enable_gqa=True
        )
        return functional.linear(out.transpose(1, 2).flatten(2), self.o_proj.weight * self.o_factor), None


class InlineValues(Inline):
    """The same with 1.5 times the weight of v_proj."""

    v_factor = 1.5


class InlineOutput(Inline):
    """The same with 1.5 times the weight of o_proj."""

    o_factor = 1.5


class Changed(Direct):
    """torch's own kernel, and queries, keys and values that ``change`` may replace before the cache."""

    def change(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return what is handed on."""
        return q, k, v

    def forward(  # type: ignore[override]
        self, hidden_states: Tensor, position_embeddings: Any, attention_mask: Any = None, cache: Any = None, **_: Any
    ) -> Any:
        q, k, v = _projected(self, hidden_states)
        q, k, v = self.change(*qwen3.apply_rotary_pos_emb(q, k, *position_embeddings), v)
        if cache is not None:
            k, v = cache.update(k, v, self.layer_idx)
        causal = attention_mask is None and q.shape[2] > 1
        out = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=attention_mask, is_causal=causal, scale=self.scaling, enable_gqa=True
        )
        return self.o_proj(out.transpose(1, 2).flatten(2)), None


class WrongValues(Changed):
    """Values doubled before they reach the cache: the cache itself is right."""

    def change(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return values twice as large."""
        return q, k, 2 * v


class BatchDependent(Changed):
    """Queries turned back in layer 0 where the batch has several rows."""

    def change(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return other queries in layer 0."""
        return (-q if len(q) > 1 and self.layer_idx == 0 else q), k, v


class OpenMask(qwen3.Qwen3Attention):
    """A mask that is off by one: each query sees the next key, too."""

    def forward(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Call the real one with that mask."""
        length = hidden_states.shape[1]
        hidden = torch.ones(length, length, dtype=torch.bool).triu(2)
        mask = torch.zeros(length, length).masked_fill(hidden, torch.finfo(torch.float32).min)
        return super().forward(hidden_states, **{**kwargs, "attention_mask": mask[None, None]})


class NoMask(qwen3.Qwen3Attention):
    """The mask is not handed on."""

    def forward(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Call the real one without it."""
        return super().forward(hidden_states, **{**kwargs, "attention_mask": None})
