"""A real Qwen3Model whose weights come and go: it is built without memory, and a layer is filled as its turn comes.

The model is transformers' own class, cut after the asked layer. Embedding rows are read for the prompt's tokens only,
each earlier layer is filled just before it runs and emptied after it, and of the asked layer only what comes before its
attention's end is read. Must not know: probes, kernels.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tracer.checkpoint.checkpoint import Checkpoint
from tracer.engines.transformers.definitions import CONFIG, MODEL, Code, whole


class Reached(Exception):
    """The asked layer's attention has ended: nothing after it is wanted. Never leaves the engine."""


def build(checkpoint: Checkpoint, last: int, attention: str, device: str, code: Code | None = None) -> Any:
    """Return a transformers Qwen3Model with layers 0 to ``last`` on the meta device, in eval mode.

    ``attention`` is transformers' name of an attention implementation. It is set after construction because
    transformers refuses a flash implementation where the flash-attn package is not installed. ``code`` is
    transformers' code, by default as imported.
    """
    import torch

    code = code or whole()
    config = config_cut(checkpoint.config, last, code)
    with torch.device("meta"):
        model = code.model(config)
    # Its inverse frequencies are computed, not stored: on the meta device they would have no values.
    model.rotary_emb = code.modules[MODEL].Qwen3RotaryEmbedding(config).to(device)
    model.config._attn_implementation = attention
    return model.eval()


def config_cut(raw: Mapping[str, Any], last: int, code: Code | None = None) -> Any:
    """Return a Qwen3Config of ``raw`` (config.json) that ends with layer ``last``."""
    config = (code or whole()).modules[CONFIG].Qwen3Config.from_dict(dict(raw))
    config.layer_types = config.layer_types[: last + 1]
    config.num_hidden_layers = last + 1
    return config


def fill_on_demand(model: Any, checkpoint: Checkpoint, dtype: Any, device: str) -> None:
    """Make each layer of ``model`` read its weights just before it runs, and let go of them after it.

    Of the last layer only its attention and the norm before it are read; they stay.
    """
    last = len(model.layers) - 1
    for index, layer in enumerate(model.layers):
        parts = [""] if index < last else ["input_layernorm.", "self_attn."]
        layer.register_forward_pre_hook(_Fill(checkpoint, f"layers.{index}.", parts, dtype, device))
        if index < last:
            layer.register_forward_hook(_empty)


def fill_now(model: Any, checkpoint: Checkpoint, dtype: Any, device: str) -> None:
    """Read all weights that fill_on_demand would read, at once; they stay."""
    last = len(model.layers) - 1
    for index, layer in enumerate(model.layers):
        parts = [""] if index < last else ["input_layernorm.", "self_attn."]
        _Fill(checkpoint, f"layers.{index}.", parts, dtype, device)(layer, ())


@dataclass(frozen=True)
class _Fill:
    checkpoint: Checkpoint
    prefix: str
    parts: list[str]
    dtype: Any
    device: str

    def __call__(self, layer: Any, _arguments: Any) -> None:
        for part in self.parts:
            module = layer.get_submodule(part.removesuffix("."))
            names = {name: f"model.{self.prefix}{part}{name}" for name in module.state_dict()}
            tensors = self.checkpoint.load(list(names.values()), self.dtype)
            filled = {name: tensors[full].to(self.device) for name, full in names.items()}
            module.load_state_dict(filled, assign=True)


def _empty(layer: Any, _arguments: Any, _output: Any) -> None:
    layer.to("meta")
