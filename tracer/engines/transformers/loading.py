"""A whole Qwen3 model, or its first layers, as transformers' own ``from_pretrained`` places it: over several devices,
or over the processes that torchrun started.

Every tensor is read by the checkpoint's own reader, when transformers asks for it: no file of the checkpoint is opened
by transformers, and of a hub id only the shards that are needed come. Must not know: probes, kernels, which process
this is.
"""

import importlib.util
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tracer.checkpoint.checkpoint import Checkpoint
from tracer.engines.arrays import torch_dtype
from tracer.engines.transformers.definitions import MODEL, Code
from tracer.engines.transformers.streaming import config_cut
from tracer.errors import Unsupported


def load(checkpoint: Checkpoint, dtype: str, attention: str, code: Code, last: int | None = None, **placed: Any) -> Any:
    """Return transformers' own model of ``checkpoint`` in ``dtype`` (as safetensors names it), in eval mode.

    A Qwen3ForCausalLM; where ``last`` is given, a Qwen3Model that ends with that layer. ``placed`` is what
    from_pretrained is told of where things go. ``attention`` is set afterwards: transformers refuses a flash
    implementation where the flash-attn package is not installed.
    """
    cut = last is not None
    config = config_cut(checkpoint.config, checkpoint.settings.layers - 1 if last is None else last, code)
    made: Any = getattr(code.modules[MODEL], "Qwen3Model" if cut else "Qwen3ForCausalLM")
    with _quiet():
        model = made.from_pretrained(
            None, config=config, state_dict=_state(checkpoint, config, cut), dtype=torch_dtype(dtype), **placed
        )
    base_of(model).config._attn_implementation = attention
    return model.eval()


def base_of(model: Any) -> Any:
    """Return the part of a model that holds its layers and rotary embedding."""
    return getattr(model, "model", model)


def _state(checkpoint: Checkpoint, config: Any, cut: bool) -> dict[str, "_Stored"]:
    """Return the tensors that a model of ``config`` has a place for, by the model's names, none of them read yet."""
    lock = threading.Lock()  # transformers asks from several threads
    found = {}
    for name in checkpoint.tensors:
        number = name.removeprefix("model.layers.").partition(".")[0]
        if number.isdecimal() and int(number) >= config.num_hidden_layers:
            continue
        if name == "lm_head.weight" and (cut or config.tie_word_embeddings):
            continue
        if name.endswith("rotary_emb.inv_freq"):  # older exports keep it; the model computes it anew
            continue
        found[name.removeprefix("model.") if cut else name] = _Stored(checkpoint, name, lock)
    return found


class _Stored:
    """A stored tensor that is read when it is indexed, as safetensors' own slices are, which transformers expects."""

    def __init__(self, checkpoint: Checkpoint, name: str, lock: threading.Lock) -> None:
        self._checkpoint = checkpoint
        self._name = name
        self._lock = lock

    def get_shape(self) -> list[int]:
        """Return the stored shape."""
        return list(self._checkpoint.tensors[self._name].shape)

    def get_dtype(self) -> str:
        """Return the stored dtype, as safetensors names it."""
        return self._checkpoint.tensors[self._name].dtype

    def __getitem__(self, index: Any) -> Any:
        """Return that part of the tensor."""
        with self._lock:
            return self._checkpoint.load([self._name])[self._name][index]


@contextmanager
def _quiet() -> Iterator[None]:
    """Let transformers draw no bar for one ``with``."""
    from transformers.utils import logging

    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if bars:
            logging.enable_progress_bar()


def layer_devices(model: Any) -> list[str]:
    """Return for each layer of a model where its weights lie: cpu, cuda:0, disk …"""
    noted = {part.removeprefix("model."): where for part, where in getattr(model, "hf_device_map", {}).items()}
    found = []
    for number, layer in enumerate(base_of(model).layers):
        name = f"layers.{number}"
        where = next((noted[part] for part in (name, "layers", "model", "") if part in noted), None)
        found.append(_device(next(layer.parameters()).device if where is None else where))
    return found


def running_devices(model: Any) -> list[str]:
    """Return for each layer of a model the device it runs on; its weights may lie elsewhere and come when needed."""
    hooks = [getattr(layer, "_hf_hook", None) for layer in base_of(model).layers]
    given = [getattr(hook, "execution_device", None) for hook in hooks]
    return [lies if runs is None else _device(runs) for runs, lies in zip(given, layer_devices(model), strict=True)]


def accelerator() -> str | None:
    """Return the kind of device beside the CPU that torch finds (cuda, mps, xpu), or None."""
    import torch

    found = torch.accelerator.current_accelerator(check_available=True)
    return None if found is None else str(found.type)


def require_accelerate(text: str) -> None:
    """Raise Unsupported with ``text`` where accelerate, with which transformers places models, is not installed."""
    if not has_accelerate():
        raise Unsupported(text)


def has_accelerate() -> bool:
    """Return whether the package accelerate is installed."""
    return importlib.util.find_spec("accelerate") is not None


def _device(where: Any) -> str:
    return f"cuda:{where}" if isinstance(where, int) else str(where)
