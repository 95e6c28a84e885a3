"""nano-vllm's model on a checkpoint: built without memory, layers filled as their turn comes by its own weight loaders.

q, k and v go into one packed parameter, gate and up into another: nano-vllm's own table says which. Must not know:
probes, kernels, which layer is asked for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

from tracer.checkpoint import layout
from tracer.checkpoint.checkpoint import Checkpoint
from tracer.checkpoint.settings import Settings
from tracer.errors import Unsupported

MODEL = "nanovllm.models.qwen3"
# Rows of the table of cosines: a row does not depend on how many there are, and a model may claim 2^28 positions.
_POSITIONS = 1 << 17


def config(settings: Settings, raw: Mapping[str, Any], layers: int, length: int) -> SimpleNamespace:
    """Return the config that nano-vllm's classes read: its flat names, whichever form config.json has them in.

    ``rope_scaling`` is None whatever the checkpoint says: nano-vllm has none, and fails for anything else. Raises
    Unsupported for an activation that it does not have.
    """
    if raw["hidden_act"] != "silu":
        raise Unsupported("nanovllm.activation", found=raw["hidden_act"])
    return SimpleNamespace(
        vocab_size=settings.vocab_size,
        hidden_size=settings.hidden_size,
        intermediate_size=settings.intermediate_size,
        num_hidden_layers=layers,
        num_attention_heads=settings.heads,
        num_key_value_heads=settings.kv_heads,
        head_dim=settings.head_dim,
        max_position_embeddings=max(length, min(settings.max_positions, _POSITIONS)),
        rms_norm_eps=settings.norm_eps,
        attention_bias=settings.attention_bias,
        hidden_act="silu",
        tie_word_embeddings=settings.tied,
        rope_theta=settings.rope["rope_theta"],
        rope_scaling=None,
    )


@dataclass(frozen=True)
class Built:
    """A model whose layers are empty until they run; ``unread``: tensors of the checkpoint that it has no place for."""

    model: Any
    modules: Mapping[str, ModuleType]
    checkpoint: Checkpoint
    dtype: Any
    device: str
    unread: list[str] = field(default_factory=list)

    def embed(self, ids: tuple[int, ...]) -> Any:
        """Give the model the embedding of ``ids`` alone, and return the ids [T] by which it knows them now."""
        import torch

        unique = sorted(set(ids))
        embedding = self.modules["nanovllm.layers.embed_head"].VocabParallelEmbedding(len(unique), self._width)
        rows = self.checkpoint.embedding_rows(unique, self.dtype).to(self.device)
        embedding.weight = torch.nn.Parameter(rows, requires_grad=False)
        self.model.embed_tokens = embedding
        place = {id: index for index, id in enumerate(unique)}
        return torch.tensor([place[id] for id in ids], device=self.device)

    def fill_on_demand(self) -> None:
        """Make each layer read its weights just before it runs and let go of them after it.

        Of the last only what its attention needs is read, and that stays.
        """
        last = len(self.model.layers) - 1
        for index, layer in enumerate(self.model.layers):
            part = index == last
            layer.register_forward_pre_hook(lambda layer, _, index=index, part=part: self._fill(layer, index, part))
            if index < last:
                layer.register_forward_hook(lambda layer, *_: _empty(layer))

    def give_caches(self, page: int, pages: tuple[int, ...]) -> None:
        """Give every layer a cache of keys and values, [pages, page, K, D], that reaches to the last of ``pages``."""
        import torch

        settings = self.checkpoint.settings
        shape = (max(pages) + 1, page, settings.kv_heads, settings.head_dim)
        for layer in self.model.layers:
            attention = layer.self_attn.attn
            attention.k_cache, attention.v_cache = (
                torch.zeros(shape, dtype=self.dtype, device=self.device) for _ in range(2)
            )

    @property
    def _width(self) -> int:
        return self.checkpoint.settings.hidden_size

    def _fill(self, layer: Any, index: int, attention_only: bool) -> None:
        if next(layer.parameters()).device.type != "meta":
            return  # the last layer stays filled while a prompt comes in parts
        _allocate(layer, self.dtype, self.device)
        parameters = dict(layer.named_parameters())
        prefix = layout.layer_prefix(index)
        names = layout.layer_shapes(self.checkpoint.settings, index, attention_only=attention_only)
        loaded: set[str] = set()
        for full in names:
            target, shard = self._place(full.removeprefix(prefix))
            if target not in parameters:
                if full not in self.unread:
                    self.unread.append(full)
                continue
            tensor = self.checkpoint.load([full], self.dtype)[full].to(self.device)
            parameter = parameters[target]
            loader = getattr(parameter, "weight_loader", lambda held, given: held.data.copy_(given))
            loader(parameter, tensor, *shard)
            loaded.add(target)
        needed = ("input_layernorm.", "self_attn.") if attention_only else ("",)
        missing = sorted(name for name in parameters if name.startswith(needed) and name not in loaded)
        if missing:
            raise Unsupported("nanovllm.unfilled", layer=index, missing=", ".join(missing))

    def _place(self, name: str) -> tuple[str, tuple[Any, ...]]:
        """Return the parameter that a tensor of the checkpoint goes into, and which shard of it (empty: all of it)."""
        packed: Mapping[str, tuple[str, Any]] = self.modules[MODEL].Qwen3ForCausalLM.packed_modules_mapping
        for part, (whole, shard) in packed.items():
            if part in name:
                return name.replace(part, whole), (shard,)
        return name, ()


def build(
    checkpoint: Checkpoint, modules: Mapping[str, ModuleType], last: int, length: int, dtype: Any, device: str
) -> Built:
    """Return nano-vllm's Qwen3Model with layers 0 to ``last``, in eval mode, its weights not yet read."""
    import torch

    settings = checkpoint.settings
    wanted = config(settings, checkpoint.config, last + 1, length)
    rotary = modules["nanovllm.layers.rotary_embedding"]
    with torch.device("meta"):
        model = modules[MODEL].Qwen3Model(wanted)
    # Its table of cosines is computed, not stored: on the meta device it would have no values.
    rotary.get_rope.cache_clear()
    size = settings.head_dim
    rope = rotary.get_rope(size, size, wanted.max_position_embeddings, wanted.rope_theta, wanted.rope_scaling)
    for layer in model.layers:
        layer.self_attn.rotary_emb = rope.to(device)
    return Built(model.eval(), modules, checkpoint, dtype, device)


def _allocate(layer: Any, dtype: Any, device: str) -> None:
    """Give every parameter of ``layer`` memory, its weight loader kept."""
    import torch

    for module in layer.modules():
        for name, old in list(module.named_parameters(recurse=False)):
            new = torch.nn.Parameter(torch.empty(old.shape, dtype=dtype, device=device), requires_grad=False)
            if hasattr(old, "weight_loader"):
                setattr(new, "weight_loader", old.weight_loader)  # noqa: B010
            setattr(module, name, new)


def _empty(layer: Any) -> None:
    for module in layer.modules():
        for name, old in list(module.named_parameters(recurse=False)):
            empty = type(old)(old.data.to("meta"), requires_grad=False)
            if hasattr(old, "weight_loader"):
                setattr(empty, "weight_loader", old.weight_loader)  # noqa: B010
            setattr(module, name, empty)
