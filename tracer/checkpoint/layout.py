"""The tensors of Qwen3ForCausalLM and their shapes, as the settings of config.json make them.

Source: Qwen3Attention, Qwen3MLP and Qwen3DecoderLayer. nn.Linear keeps its weight as [out, in]. Must not know: files.
"""

from collections.abc import Mapping

from tracer.checkpoint.settings import Settings

EMBEDDING = "model.embed_tokens.weight"
OUTPUT = "lm_head.weight"


def layer_prefix(layer: int) -> str:
    """Return what the names of layer ``layer``'s tensors begin with."""
    return f"model.layers.{layer}."


def layer_shapes(settings: Settings, layer: int, *, attention_only: bool = False) -> Mapping[str, tuple[int, ...]]:
    """Return name → shape of layer ``layer``'s tensors; ``attention_only``: those its attention's output depends on."""
    hidden, middle, head_dim = settings.hidden_size, settings.intermediate_size, settings.head_dim
    queries, keys = settings.heads * head_dim, settings.kv_heads * head_dim
    shapes: dict[str, tuple[int, ...]] = {
        "input_layernorm.weight": (hidden,),
        "self_attn.q_proj.weight": (queries, hidden),
        "self_attn.k_proj.weight": (keys, hidden),
        "self_attn.v_proj.weight": (keys, hidden),
        "self_attn.o_proj.weight": (hidden, queries),
        "self_attn.q_norm.weight": (head_dim,),
        "self_attn.k_norm.weight": (head_dim,),
    }
    if settings.attention_bias:
        shapes |= {
            "self_attn.q_proj.bias": (queries,),
            "self_attn.k_proj.bias": (keys,),
            "self_attn.v_proj.bias": (keys,),
            "self_attn.o_proj.bias": (hidden,),
        }
    if not attention_only:
        shapes |= {
            "post_attention_layernorm.weight": (hidden,),
            "mlp.gate_proj.weight": (middle, hidden),
            "mlp.up_proj.weight": (middle, hidden),
            "mlp.down_proj.weight": (hidden, middle),
        }
    return {layer_prefix(layer) + name: shape for name, shape in shapes.items()}


def embedding_shape(settings: Settings) -> tuple[int, int]:
    """Return the shape of the token embedding, [vocabulary, C]."""
    return settings.vocab_size, settings.hidden_size
