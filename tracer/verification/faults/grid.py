"""No false alarm: transformers' real code on random checkpoints of many shapes, in every dtype and scenario.

Must not know: how the result is shown.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracer.records import Status
from tracer.verification.entry import verify_checkpoint
from tracer.verification.records import Verification

DTYPES = ("float32", "bfloat16", "float16")
# Column → the config it needs and the scenarios it is looked at in.
COLUMNS: Mapping[str, tuple[Mapping[str, Any], tuple[str, ...]]] = {
    "plain": ({}, ("plain",)),
    "left_pad": ({}, ("plain", "left_pad")),
    "right_pad": ({}, ("plain", "right_pad")),
    "packed": ({}, ("plain", "packed")),
    "sliding": ({"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1}, ("plain", "cached")),
    "yarn": (
        {
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 10000.0,
                "factor": 4.0,
                "original_max_position_embeddings": 64,
            },
            "max_position_embeddings": 256,
        },
        ("plain", "decode"),
    ),
    "decode": ({}, ("plain", "decode", "chunk")),
}
_LENGTH = 29


@dataclass(frozen=True)
class Shape:
    """The shape of a random checkpoint; head_dim is never hidden / heads."""

    heads: int
    kv_heads: int
    head_dim: int
    layers: int

    @property
    def name(self) -> str:
        """``6 heads, 2 KV, head_dim 16, 2 layers`` in short: ``6/2×16, 2L``."""
        return f"{self.heads}/{self.kv_heads}×{self.head_dim}, {self.layers}L"

    @property
    def config(self) -> dict[str, Any]:
        """What a Qwen3Config is made from."""
        return {
            "num_hidden_layers": self.layers,
            "hidden_size": 40,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "intermediate_size": 48,
            "vocab_size": 101,
            "max_position_embeddings": 512,
            "tie_word_embeddings": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        }


SHAPES = (Shape(4, 4, 16, 2), Shape(6, 2, 32, 2), Shape(8, 1, 8, 3), Shape(2, 2, 64, 1))


@dataclass(frozen=True)
class Cell:
    """One verification of the grid."""

    shape: Shape
    dtype: str
    column: str
    found: Verification

    @property
    def passed(self) -> bool:
        """Whether something passed and nothing failed."""
        return self.found.exit_code == 0

    @property
    def tested(self) -> int:
        """How many checks passed."""
        return sum(outcome.check.status is Status.PASS for outcome in self.found.outcomes)


def cells(
    shapes: tuple[Shape, ...] = SHAPES,
    dtypes: tuple[str, ...] = DTYPES,
    columns: tuple[str, ...] = tuple(COLUMNS),
    kernel: str = "cpu-flash",
) -> Iterator[Cell]:
    """Yield every cell of the grid, made and verified one after the other."""
    for shape in shapes:
        number = SHAPES.index(shape) if shape in SHAPES else 0
        for column in columns:
            changes, scenarios = COLUMNS[column]
            with checkpoint(shape, changes, seed=number) as folder:
                for dtype in dtypes:
                    found = verify_checkpoint(
                        str(folder),
                        layers=None,
                        tokens=_prompt(number),
                        kernel=kernel,
                        device="cpu",
                        dtype=dtype,
                        scenarios=scenarios,
                    )
                    yield Cell(shape, dtype, column, found)


@contextmanager
def checkpoint(shape: Shape, changes: Mapping[str, Any], seed: int = 0) -> Iterator[Path]:
    """Yield the folder of a random checkpoint in float32; norm weights are never ones."""
    import torch
    from safetensors.torch import save_file
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(**{**shape.config, **changes})
    generator = torch.Generator().manual_seed(seed)
    with torch.device("meta"):
        names = {name: p.shape for name, p in Qwen3ForCausalLM(config).named_parameters() if "lm_head" not in name}
    tensors = {}
    for name, size in names.items():
        norm = "norm" in name
        random = torch.rand(size, generator=generator) + 0.5 if norm else torch.randn(size, generator=generator) * 0.2
        tensors[name] = random
    with tempfile.TemporaryDirectory(prefix="tracer-grid-") as folder:
        save_file(tensors, Path(folder) / "model.safetensors", metadata={"format": "pt"})
        raw = {**shape.config, **changes, "model_type": "qwen3", "rms_norm_eps": 1e-6, "dtype": "float32"}
        (Path(folder) / "config.json").write_text(json.dumps(raw), encoding="utf-8")
        yield Path(folder)


def _prompt(seed: int) -> list[int]:
    return [(7 + 31 * n + seed * n * n) % 101 for n in range(_LENGTH)]
