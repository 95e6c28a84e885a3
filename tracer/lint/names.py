"""What names in attention code usually stand for. A name is evidence only where nothing better is there.

Must not know: syntax trees beyond a name's last part.
"""

import ast

HEAD_DIM = frozenset((
    "head_dim", "head_size", "headdim", "dim_head", "d_head", "dim_per_head", "head_width", "attention_head_size",
    "attention_head_dim", "d_k", "qk_head_dim", "head_features", "per_head_dim", "hidden_size_per_attention_head",
    "hidden_size_per_head", "size_per_head", "key_dim", "qk_dim", "head_embed_dim", "kv_channels", "d_kv",
    "attn_head_size", "hd", "head_hidden_size", "qk_nope_rope_head_dim",
))  # fmt: skip
HIDDEN = frozenset((
    "hidden_size", "embed_dim", "d_model", "dim", "n_embd", "hidden_dim", "embedding_dim", "model_dim", "emb_dim",
    "n_embed", "embed_size", "emb_size", "hidden_features", "n_state", "width", "all_head_size", "embed_dims",
))  # fmt: skip
HEADS = frozenset((
    "num_heads", "num_attention_heads", "n_heads", "n_head", "heads", "nhead", "num_query_heads", "nheads",
    "total_num_heads", "num_head", "nh", "num_q_heads", "n_q_heads", "encoder_attention_heads",
    "decoder_attention_heads", "attention_heads",
))  # fmt: skip
_CONFIG = ("config", "cfg", "args", "hparams", "params", "model_args", "hf_config")


def last(node: ast.AST) -> str:
    """Return the last part of a plain or dotted name, or of what ``getattr`` asks for; "" for another expression."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
        field = node.args[1] if len(node.args) > 1 else None
        return field.value if isinstance(field, ast.Constant) and isinstance(field.value, str) else ""
    return ""


def stem(node: ast.AST) -> str:
    """Return the last part of a name without leading underscores, in lower case."""
    return last(node).lstrip("_").lower()


def is_query(node: ast.AST) -> bool:
    """Whether an expression is named like queries."""
    name = _tensor_name(node)
    return name in ("q", "xq", "qs") or name.startswith(("query", "q_")) or name.endswith(("_q", "_query", "queries"))


def is_key(node: ast.AST) -> bool:
    """Whether an expression is named like keys."""
    name = _tensor_name(node)
    return name in ("k", "xk", "ks") or name.startswith(("key", "k_")) or name.endswith(("_k", "_key", "keys"))


def is_value(node: ast.AST) -> bool:
    """Whether an expression is named like values."""
    name = _tensor_name(node)
    return name in ("v", "xv", "vs") or name.startswith(("value", "v_")) or name.endswith(("_v", "_value", "values"))


def is_mask(node: ast.AST) -> bool:
    """Whether an expression is named like a mask."""
    return "mask" in stem(node)


def is_config(node: ast.AST) -> bool:
    """Whether an expression is named like a configuration."""
    return stem(node) in _CONFIG or stem(node).endswith(("config", "_cfg", "_args"))


def _tensor_name(node: ast.AST) -> str:
    """The name of a tensor under the calls that only rearrange it."""
    while True:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        elif isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr in ("T", "mT", "data")):
            node = node.value
        else:
            return stem(node)
