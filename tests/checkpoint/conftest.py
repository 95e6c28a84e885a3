"""Small checkpoints made on the spot, whole ones and ones that are wrong in one respect."""

import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

CONFIG: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "vocab_size": 40,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "hidden_act": "silu",
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
    "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"},
    "dtype": "float32",
}
NUMPY = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}


def layer_shapes(layer: int) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        "input_layernorm": (16,),
        "self_attn.q_proj": (32, 16),
        "self_attn.k_proj": (16, 16),
        "self_attn.v_proj": (16, 16),
        "self_attn.o_proj": (16, 32),
        "self_attn.q_norm": (8,),
        "self_attn.k_norm": (8,),
        "post_attention_layernorm": (16,),
        "mlp.gate_proj": (24, 16),
        "mlp.up_proj": (24, 16),
        "mlp.down_proj": (16, 24),
    }
    return {f"model.layers.{layer}.{name}.weight": shape for name, shape in shapes.items()}


def stored(values: np.ndarray, dtype: str) -> bytes:
    if dtype == "BF16":  # the upper half of a float32
        return (values.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
    return values.astype(NUMPY.get(dtype, "<f4")).tobytes()


def safetensors(tensors: Mapping[str, tuple[str, tuple[int, ...], bytes]]) -> bytes:
    """The bytes of a safetensors file, written by hand so that faults can be planted anywhere."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    position = 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [position, position + len(data)]}
        position += len(data)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values())


class Maker:
    """A folder to fill with a checkpoint: change ``config`` or ``values`` first, then ``write`` or ``shard``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = json.loads(json.dumps(CONFIG))
        random = np.random.default_rng(0)
        shapes = {"model.embed_tokens.weight": (40, 16), "model.norm.weight": (16,)}
        for layer in range(4):
            shapes |= layer_shapes(layer)
        self.values = {name: random.standard_normal(shape).astype("<f4") for name, shape in shapes.items()}
        self.dtype = "F32"
        self.dtypes: dict[str, str] = {}
        self.raw: dict[str, tuple[str, tuple[int, ...], bytes]] = {}

    def entries(self) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
        found = {}
        for name, values in self.values.items():
            dtype = self.dtypes.get(name, self.dtype)
            found[name] = (dtype, values.shape, stored(values, dtype))
        return found | self.raw

    def write_config(self) -> None:
        self.folder.mkdir(exist_ok=True)
        (self.folder / "config.json").write_text(json.dumps(self.config), encoding="utf-8")

    def write(self) -> Path:
        """Write config.json and one weights file; return the folder."""
        self.write_config()
        (self.folder / "model.safetensors").write_bytes(safetensors(self.entries()))
        return self.folder

    def shard(self) -> Path:
        """Write config.json, an index and three shards: the embedding and layer 0, layers 1 and 2, the rest."""
        self.write_config()
        entries = self.entries()
        place = {name: self.shard_of(name) for name in entries}
        for file in sorted(set(place.values())):
            part = {name: entry for name, entry in entries.items() if place[name] == file}
            (self.folder / file).write_bytes(safetensors(part))
        self.write_index(place)
        return self.folder

    def write_index(self, place: Mapping[str, Any]) -> None:
        text = json.dumps({"metadata": {"total_size": 1}, "weight_map": place})
        (self.folder / "model.safetensors.index.json").write_text(text, encoding="utf-8")

    @staticmethod
    def shard_of(name: str) -> str:
        number = 1
        if "layers.1." in name or "layers.2." in name:
            number = 2
        elif "layers.3." in name or name == "model.norm.weight":
            number = 3
        return f"model-{number:05}-of-00003.safetensors"


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    return Maker(tmp_path / "small")


@pytest.fixture
def pack() -> Callable[[Mapping[str, tuple[str, tuple[int, ...], bytes]]], bytes]:
    return safetensors
