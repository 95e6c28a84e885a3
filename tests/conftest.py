"""What several parts test with: small random Qwen3 checkpoints, made by transformers itself.

Norm weights are never ones, key/value heads never equal, and heads · head_dim never hidden_size: each of these
hides faults.
"""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SHAPE: dict[str, Any] = {
    "num_hidden_layers": 3,
    "hidden_size": 48,
    "num_attention_heads": 6,
    "num_key_value_heads": 3,
    "head_dim": 16,
    "intermediate_size": 64,
    "vocab_size": 97,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
}


def pytest_configure() -> None:
    """Let Ctrl-C through where the shell has switched it off, as it does for what it starts in the background: the
    commands that tests start and interrupt inherit it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def random_model(dtype: str = "float32", seed: int = 0, **changes: Any) -> Any:
    """Return a random Qwen3ForCausalLM in eval mode."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(Qwen3Config(**{**SHAPE, **changes})).eval()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "norm" in name:
                    parameter.copy_(torch.rand_like(parameter) + 0.5)
                else:
                    parameter.copy_(torch.randn_like(parameter) * 0.2)
        for parameter in model.parameters():  # not model.to(): that would round the rotary frequencies too
            parameter.data = parameter.data.to(getattr(torch, dtype))
    return model


@pytest.fixture(scope="session")
def make_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that makes a checkpoint folder of a random model; equal arguments give the same folder."""
    made: dict[str, Path] = {}

    def make(dtype: str = "float32", seed: int = 0, **changes: Any) -> Path:
        key = repr((dtype, seed, sorted(changes.items())))
        if key not in made:
            folder = tmp_path_factory.mktemp("checkpoint")
            random_model(dtype, seed, **changes).save_pretrained(folder)
            made[key] = folder
        return made[key]

    return make


@pytest.fixture(scope="session")
def nano_vllm_files() -> None:
    """nano-vllm's own files, which are not part of this repository: brought once where they are missing, as by
    ``trace vendor sync nano-vllm``; every later run is offline."""
    from tracer.vendoring.sync import sync

    sync(["nano-vllm"])
