"""One head's scores and weights, worked out again from what its attention layer was given."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import Qwen3ForCausalLM
from transformers.models.qwen3.modeling_qwen3 import apply_rotary_pos_emb


@dataclass(frozen=True)
class LayerInput:
    """What one attention layer was called with."""

    hidden: Tensor  # [rows, length, hidden_size], after the layer's input norm
    cos: Tensor  # [1, length, head_dim]
    sin: Tensor


@contextmanager
def watched_layers(model: Qwen3ForCausalLM) -> Iterator[dict[int, LayerInput]]:
    """Return a dict that each forward pass fills with the input of every attention layer, by layer number."""
    seen: dict[int, LayerInput] = {}

    def watcher(layer: int) -> Any:
        def note(_module: nn.Module, _args: tuple[Any, ...], named: dict[str, Any]) -> None:
            seen[layer] = LayerInput(named["hidden_states"], *named["position_embeddings"])

        return note

    handles = [
        block.self_attn.register_forward_pre_hook(watcher(number), with_kwargs=True)
        for number, block in enumerate(model.model.layers)
    ]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def head_scores(model: Qwen3ForCausalLM, given: LayerInput, layer: int, head: int) -> Tensor:
    """Return [rows, length, length]: one head's scaled scores, minus infinity where the key is to the right."""
    attention = model.model.layers[layer].self_attn
    size = attention.head_dim
    shared = head // attention.num_key_value_groups
    query = functional.linear(given.hidden, attention.q_proj.weight[head * size : (head + 1) * size])
    key = functional.linear(given.hidden, attention.k_proj.weight[shared * size : (shared + 1) * size])
    query, key = apply_rotary_pos_emb(
        attention.q_norm(query)[:, None], attention.k_norm(key)[:, None], given.cos, given.sin
    )
    scores: Tensor = (query @ key.transpose(2, 3))[:, 0] * attention.scaling
    return scores + torch.full(scores.shape[1:], float("-inf")).triu(1)


def head_weights(model: Qwen3ForCausalLM, given: LayerInput, layer: int, head: int) -> Tensor:
    """Return [rows, length, length]: one head's attention weights, each row adding up to one."""
    return head_scores(model, given, layer, head).softmax(-1)


def log_odds(scores: Tensor, targets: Tensor) -> Tensor:
    """Return, for every query row that has a target, the log odds that the head looks at a target.

    Worked out on the scores: from the weights it would be infinite where a row is saturated.
    """
    rows = targets.any(-1)
    scores, targets = scores[rows], targets[rows]
    inside = scores.masked_fill(~targets, float("-inf")).logsumexp(-1)
    outside = scores.masked_fill(targets, float("-inf")).logsumexp(-1)
    return inside - outside
