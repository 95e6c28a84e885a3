"""The order in which an attention layer's steps run, for everything that goes through them one by one.

Must not know: what the steps are, which engine ran them.
"""

from collections.abc import Iterable

_ORDER = (
    "cos",
    "sin",
    "hidden",
    "qkv",
    "q_proj",
    "q_norm",
    "k_proj",
    "k_norm",
    "v_proj",
    "q_rope",
    "k_rope",
    "q",
    "k",
    "v",
    "scores",
    "row_max",
    "lse",
    "weights",
    "kernel_weights",
    "output",
    "merged",
    "o_proj",
)
_PLACE = {name: place for place, name in enumerate(_ORDER)}


def in_order(names: Iterable[str]) -> list[str]:
    """Return ``names`` in the order their steps run; names not known here keep their own order, at the end."""
    return sorted(names, key=lambda name: _PLACE.get(name, len(_ORDER)))
