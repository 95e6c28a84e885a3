"""Models to look at while they run: any live Qwen3 model, or one built from a checkpoint whose layers come and go.

Must not know: what is looked for.
"""

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tracer.capture.recorder import Recorder
from tracer.capture.turn import turn
from tracer.checkpoint.checkpoint import Checkpoint
from tracer.engines.ambient import plain
from tracer.engines.arrays import dtype_name, torch_dtype
from tracer.engines.transformers import streaming
from tracer.engines.transformers.calls import EVERYTHING, PARTS, Call
from tracer.engines.transformers.compiled import is_compiled, is_wrapped, original
from tracer.engines.transformers.lending import lent, quiet_cast
from tracer.engines.transformers.roles import registered
from tracer.engines.transformers.watching import PlacedKernel, Watch
from tracer.errors import InputError, Unsupported
from tracer.kernels.adapter import Adapted
from tracer.kernels.choose import ChosenKernel
from tracer.kernels.interfaces import implementing
from tracer.records import ModelFacts

Ints = NDArray[np.int64]
_UTILS = "transformers.modeling_flash_attention_utils"
_FLEX = "flex_attention"  # compiles itself
# Layers of up to this many bytes are kept for all passes.
_RESIDENT = 2 << 30


@dataclass(frozen=True, eq=False)
class Inputs:
    """One forward pass: ids [B, T]; mask [B, S] (1: a real token, S counts a cache's too) or None; positions [B, T] or
    None (the model's own); starts of packed sequences, and the total, or ()."""

    ids: Ints
    mask: Ints | None = None
    positions: Ints | None = None
    starts: tuple[int, ...] = ()


class Live:
    """A model that can be run and watched. ``attentions`` are the attention modules by layer."""

    def __init__(self, model: Any, kernel: ChosenKernel | None = None) -> None:
        """Take a live model; raises InputError where it has no layers with attention, Unsupported unless it is Qwen3.

        ``kernel`` is lent to transformers' flash path; None leaves the model to whatever it uses.
        """
        self._given, self.model = model, original(model)
        self.base = _base(model)
        self.config = self.base.config
        if getattr(self.config, "model_type", None) != "qwen3":
            raise Unsupported("verify.not_qwen3", found=str(getattr(self.config, "model_type", None)))
        self.kernel = kernel
        self.attentions: Mapping[int, Any] = {i: original(layer.self_attn) for i, layer in enumerate(self.base.layers)}
        _refuse_shared(self.attentions)
        self._stop_after: int | None = None

    @property
    def compiled(self) -> bool:
        """Whether the model, a part of it or its attention function is meant to run through torch.compile."""
        return is_compiled(self._given) or is_wrapped(registered(self.implementation)) or self.implementation == _FLEX

    @property
    def hooked(self) -> Mapping[str, tuple[int, ...]]:
        """The layers whose attention, or a part of it, by name, has hooks of the user's own."""
        found: dict[str, list[int]] = {}
        for layer, attention in self.attentions.items():
            for name in ("", *PARTS):
                module = original(getattr(attention, name, None)) if name else attention
                if getattr(module, "_forward_hooks", None) or getattr(module, "_forward_pre_hooks", None):
                    found.setdefault(f"self_attn.{name}".rstrip("."), []).append(layer)
        return {name: tuple(layers) for name, layers in found.items()}

    @property
    def implementation(self) -> str:
        """transformers' name of the attention implementation that the config names."""
        return str(self.config._attn_implementation)

    @property
    def dtype(self) -> str:
        """The dtype of the model's parameters, as safetensors names it."""
        return dtype_name(next(p for p in self.base.parameters() if p.is_floating_point()).dtype)

    @property
    def device(self) -> Any:
        """The device that inputs go to."""
        return next(p for p in self.base.parameters()).device

    def facts(self, layer: int) -> ModelFacts:
        """Return the shape of the model and of one layer, as the config has them."""
        config = self.config
        kind = config.layer_types[layer]
        return ModelFacts(
            layers=config.num_hidden_layers,
            heads=config.num_attention_heads,
            kv_heads=config.num_key_value_heads,
            head_dim=getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
            hidden_size=config.hidden_size,
            layer_type=kind,
            window=config.sliding_window if kind == "sliding_attention" else None,
            max_positions=config.max_position_embeddings,
            norm_eps=config.rms_norm_eps,
            rope=dict(config.rope_parameters),
        )

    def new_cache(self) -> Any:
        """Return an empty cache of the kind that generate would use."""
        from transformers import DynamicCache

        return DynamicCache(config=self.config)

    @staticmethod
    def held(cache: Any, layer: int) -> int:
        """Return how many tokens of ``layer`` a cache has been given so far."""
        return int(cache.layers[layer].get_seq_length()) if layer < len(cache.layers) else 0

    @contextmanager
    def watched(
        self, layers: set[int], consumer: Callable[[Call], None], keep: frozenset[str] = EVERYTHING
    ) -> Iterator[None]:
        """Hand every call of the attention of ``layers`` to ``consumer``, for one ``with``; leaves nothing behind.

        ``keep`` names what is kept of a call beside hidden states and output. Runs without gradients, autocast and
        torch.compile: it is the Python source that is watched.
        Raises Unsupported where another thread traces or verifies meanwhile.
        """
        recorder = Recorder()
        with ExitStack() as stack:
            stack.enter_context(turn())
            stack.enter_context(plain(str(self.device)))
            stack.enter_context(torch.compiler.set_stance("force_eager"))  # hooks cannot be compiled, nor the mode
            stack.enter_context(torch.random.fork_rng(devices=_cuda_devices(self.device)))
            kernels = stack.enter_context(self._kernels(recorder))
            watched = {i: module for i, module in self.attentions.items() if i in layers}
            rotary = original(getattr(self.base, "rotary_emb", None))
            watch = Watch(watched, rotary, consumer, recorder, kernels, self._stop_after, keep)
            stack.enter_context(watch.on())
            yield

    def forward(self, inputs: Inputs, cache: Any = None) -> None:
        """Run the model once; what it returns is not looked at."""
        with suppress(streaming.Reached):
            self._forward(inputs, cache)

    def _forward(self, inputs: Inputs, cache: Any) -> None:
        given = self._common(inputs, cache)
        if "logits_to_keep" in _parameters(self.model):
            given["logits_to_keep"] = 1  # the whole vocabulary for every position is not needed
        self.model(input_ids=torch.from_numpy(inputs.ids).to(self.device), **given)

    def _common(self, inputs: Inputs, cache: Any) -> dict[str, Any]:
        given: dict[str, Any] = {"use_cache": cache is not None}
        if inputs.mask is not None:
            given["attention_mask"] = torch.from_numpy(inputs.mask).to(self.device)
        if inputs.positions is not None:
            given["position_ids"] = torch.from_numpy(inputs.positions).to(self.device)
        if cache is not None:
            given["cache" if "cache" in _parameters(self.base) else "past_key_values"] = cache
        return given

    @contextmanager
    def _kernels(self, recorder: Recorder) -> Iterator[tuple[PlacedKernel, ...]]:
        """Lend the chosen kernel, or watch the flash functions that transformers has loaded, for one ``with``."""
        varlen, dense = self._functions()
        if varlen is None or dense is None:
            yield ()
            return
        utils = importlib.import_module(_UTILS)
        watched = (PlacedKernel(varlen, recorder), PlacedKernel(dense, recorder))
        path = self.implementation if self.kernel is None else self.kernel.attn_implementation
        before = getattr(utils, "_flash_fn", None)
        with lent(utils, watched[0], watched[1].lent(before), path), quiet_cast(utils):
            yield watched

    def _functions(self) -> tuple[Any, Any]:
        if self.kernel is not None:
            return self.kernel.varlen, self.kernel.dense
        version = implementing(self.implementation)
        if version is None:
            return None, None
        utils = importlib.import_module(_UTILS)
        utils.lazy_import_flash_attention(self.implementation)
        try:
            varlen = Adapted(utils._flash_varlen_fn, version.kind, "flash_attn_varlen_func")
            dense = Adapted(utils._flash_fn, version.kind, "flash_attn_func")
        except Unsupported:  # a build that does not tell its arguments is not watched, and no check says it was
            return None, None
        return (varlen, dense) if varlen.gives_lse and dense.gives_lse else (None, None)


class FromCheckpoint(Live):
    """transformers' own Qwen3Model on a checkpoint, cut after layer ``last``; layers are read as their turn comes."""

    def __init__(self, checkpoint: Checkpoint, last: int, kernel: ChosenKernel, dtype: str) -> None:
        """Build the model. Raises InputError where a needed tensor is missing."""
        checkpoint.require_layers(last)
        model = streaming.build(checkpoint, last, kernel.attn_implementation, kernel.device)
        self._checkpoint = checkpoint
        self._dtype = dtype
        self._fill(model, checkpoint, last, torch_dtype(dtype), kernel.device)
        super().__init__(model, kernel if kernel.varlen is not None else None)
        self._device = kernel.device
        self._stop_after = last

    @staticmethod
    def _fill(model: Any, checkpoint: Checkpoint, last: int, dtype: Any, device: str) -> None:
        """Read all weights now where they are few, for many passes to share; else as each layer's turn comes."""
        numbers = sum(parameter.numel() for layer in model.layers for parameter in layer.parameters())
        if numbers * dtype.itemsize > _RESIDENT:
            streaming.fill_on_demand(model, checkpoint, dtype, device)
        else:
            streaming.fill_now(model, checkpoint, dtype, device)

    @property
    def dtype(self) -> str:
        """The dtype the run is in."""
        return self._dtype

    @property
    def device(self) -> Any:
        """The device the run is on."""
        return self._device

    def facts(self, layer: int) -> ModelFacts:
        """Return the shape of the model and of one layer, as the checkpoint's config has them."""
        return self._checkpoint.model_facts(layer)

    def _forward(self, inputs: Inputs, cache: Any) -> None:
        flat = [int(id) for id in inputs.ids.reshape(-1)]
        rows = self._checkpoint.embedding_rows(flat, torch_dtype(self._dtype)).to(self._device)
        given = self._common(inputs, cache)
        if self.kernel is not None and inputs.mask is None and cache is None and inputs.ids.shape[0] == 1:
            given |= _bounds(inputs.starts or (0, inputs.ids.shape[1]), self._device)
        self.model(inputs_embeds=rows.reshape(*inputs.ids.shape, -1), **given)


def _bounds(starts: tuple[int, ...], device: Any) -> dict[str, Any]:
    """Return what makes transformers' flash path call the varlen kernel with these sequences."""
    bounds = torch.tensor(starts, dtype=torch.int32, device=device)
    longest = max(b - a for a, b in pairwise(starts))
    return {"cu_seq_lens_q": bounds, "cu_seq_lens_k": bounds, "max_length_q": longest, "max_length_k": longest}


def _base(model: Any) -> Any:
    if not isinstance(model, torch.nn.Module):
        raise InputError("verify.not_a_module", found=type(model).__name__)
    for module in map(original, model.modules()):
        layers = getattr(module, "layers", None)
        if isinstance(layers, torch.nn.ModuleList) and len(layers) and all(hasattr(x, "self_attn") for x in layers):
            return module
    raise InputError("verify.no_layers", found=type(model).__name__)


def _refuse_shared(attentions: Mapping[int, Any]) -> None:
    """Raise Unsupported where one module is the attention of two layers: a call does not tell of which."""
    first: dict[int, int] = {}
    for layer, module in attentions.items():
        other = first.setdefault(id(module), layer)
        if other != layer:
            raise Unsupported("verify.shared_attention", layer=layer, other=other)


def _parameters(module: Any) -> Mapping[str, Any]:
    return inspect.signature(inspect.unwrap(type(module).forward)).parameters


def _cuda_devices(device: Any) -> list[Any]:
    return [device] if str(device).startswith("cuda") else []
