"""Random checkpoints of real models' shapes, whole or sparse: ``python -m tests.benchmarks.shapes NAME FOLDER``.

A sparse checkpoint has the size and layout of the real one, but only the layers that are asked for hold numbers (and
the first rows of the embedding); the rest are holes that take no room on the disk. What a trace costs follows from
what it reads, so a 65 GB model can be measured on a laptop.
"""

import argparse
import json
import struct
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

_COMMON: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "vocab_size": 151936,
    "head_dim": 128,
    "num_key_value_heads": 8,
    "hidden_act": "silu",
    "attention_bias": False,
    "max_position_embeddings": 40960,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"},
    "dtype": "bfloat16",
}


def _shape(layers: int, hidden: int, inner: int, heads: int, tied: bool) -> dict[str, Any]:
    return {
        **_COMMON,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "tie_word_embeddings": tied,
    }


# The shapes that the config.json files of Qwen/Qwen3-0.6B, -4B and -32B give.
SHAPES: Mapping[str, dict[str, Any]] = {
    "0.6B": _shape(28, 1024, 3072, 16, tied=True),
    "4B": _shape(36, 2560, 9728, 32, tied=True),
    "32B": _shape(64, 5120, 25600, 64, tied=False),
}
FILLED_ROWS = 4096  # of the embedding of a sparse checkpoint: use token ids below this
_CHUNK = 1 << 24
Tensors = dict[str, tuple[int, ...]]


def tensors(config: Mapping[str, Any]) -> Tensors:
    """Return the shape of every tensor of a checkpoint with this config, in the order of the layers."""
    hidden, inner, width = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * width, config["num_key_value_heads"] * width
    found: Tensors = {"model.embed_tokens.weight": (config["vocab_size"], hidden)}
    for layer in range(config["num_hidden_layers"]):
        shapes = {
            "input_layernorm": (hidden,),
            "self_attn.q_proj": (queries, hidden),
            "self_attn.k_proj": (keys, hidden),
            "self_attn.v_proj": (keys, hidden),
            "self_attn.o_proj": (hidden, queries),
            "self_attn.q_norm": (width,),
            "self_attn.k_norm": (width,),
            "post_attention_layernorm": (hidden,),
            "mlp.gate_proj": (inner, hidden),
            "mlp.up_proj": (inner, hidden),
            "mlp.down_proj": (hidden, inner),
        }
        found |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in shapes.items()}
    found["model.norm.weight"] = (hidden,)
    if not config["tie_word_embeddings"]:
        found["lm_head.weight"] = (config["vocab_size"], hidden)
    return found


def write(
    folder: Path, config: Mapping[str, Any], *, layers: Collection[int] | None = None, shard: int | None = 4_000_000_000
) -> Path:
    """Write a bfloat16 checkpoint and return its folder.

    ``layers`` are those that hold numbers (None: the whole checkpoint does); ``shard`` is the largest file in bytes
    (None: one file, whatever its size).
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    files = list(_files(tensors(config), shard))
    names = [
        "model.safetensors" if len(files) == 1 else f"model-{n:05}-of-{len(files):05}.safetensors"
        for n in range(1, len(files) + 1)
    ]
    random = np.random.default_rng(0)
    for name, part in zip(names, files, strict=True):
        _write_file(folder / name, part, layers, random)
    if len(files) > 1:
        placed = {tensor: name for name, part in zip(names, files, strict=True) for tensor in part}
        index = {"metadata": {"total_size": _bytes(tensors(config))}, "weight_map": placed}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    return folder


def _files(every: Tensors, shard: int | None) -> Iterator[Tensors]:
    part: Tensors = {}
    for name, shape in every.items():
        if shard is not None and part and _bytes({**part, name: shape}) > shard:
            yield part
            part = {}
        part[name] = shape
    yield part


def _bytes(part: Tensors) -> int:
    return sum(2 * int(np.prod(shape)) for shape in part.values())


def _write_file(path: Path, part: Tensors, layers: Collection[int] | None, random: np.random.Generator) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in part.items():
        start, end = end, end + 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, shape in part.items():
            file.seek(8 + len(text) + header[name]["data_offsets"][0])
            for numbers in _numbers(name, shape, layers, random):
                file.write(numbers)
        file.truncate(8 + len(text) + end)


def _numbers(
    name: str, shape: tuple[int, ...], layers: Collection[int] | None, random: np.random.Generator
) -> Iterator[bytes]:
    """Yield the bytes of a tensor from its beginning; nothing, or less than all of it, where it is to be sparse."""
    count = int(np.prod(shape))
    if layers is not None:
        if name == "model.embed_tokens.weight":
            count = FILLED_ROWS * shape[1]
        elif not any(name.startswith(f"model.layers.{layer}.") for layer in layers):
            return
    middle, spread = (1.0, 0.1) if "norm" in name else (0.0, 1.0 if "embed" in name else shape[-1] ** -0.5)
    for start in range(0, count, _CHUNK):
        values = random.standard_normal(min(_CHUNK, count - start), dtype=np.float32) * np.float32(spread)
        yield ((values + np.float32(middle)).view("<u4") >> 16).astype("<u2").tobytes()


def main() -> None:
    """Write one checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--layers", type=int, nargs="*", help="only these hold numbers (default: all)")
    parser.add_argument("--one-file", action="store_true", help="not in shards of 4 GB")
    asked = parser.parse_args()
    print(
        write(asked.folder, SHAPES[asked.shape], layers=asked.layers, shard=None if asked.one_file else 4_000_000_000)
    )


if __name__ == "__main__":
    main()
