"""Which functions a live model's attention consists of, by the role each has.

Must not know: what they are looked up for.
"""

import importlib
import inspect
from types import FunctionType
from typing import TYPE_CHECKING, Any

from tracer.engines.transformers.compiled import original

if TYPE_CHECKING:
    from tracer.engines.transformers.live import Live

_UTILS = "transformers.modeling_flash_attention_utils"
_EAGER, _TABLE = "eager_attention_forward", "ALL_ATTENTION_FUNCTIONS"


def roles(live: "Live", layer: int) -> dict[str, FunctionType]:
    """Return the live functions that make up the attention of ``layer``, by role, decorators taken off; those that it
    does not run are left out."""
    attention = live.attentions[layer]
    rotary = original(getattr(live.base, "rotary_emb", None))
    norm = original(getattr(attention, "q_norm", None))
    forward = _function(type(attention), "forward")
    names = forward.__globals__ if forward is not None else {}
    apply = _plain(names.get("apply_rotary_pos_emb"))
    found = {
        "attention_init": _function(type(attention), "__init__"),
        "attention_forward": _plain(getattr(attention.forward, "__func__", attention.forward)),
        "model_forward": _function(type(live.base), "forward"),
        "rotary_init": _function(type(rotary), "__init__"),
        "rotary_forward": _function(type(rotary), "forward"),
        "rotary_default": _function(type(rotary), "compute_default_rope_parameters"),
        "norm_forward": _function(type(norm), "forward"),
        "rope_apply": apply,
        "rope_half": _plain(apply.__globals__.get("rotate_half")) if apply is not None else None,
        **_functions_of(live, forward),
    }
    return {role: function for role, function in found.items() if function is not None}


def _functions_of(live: "Live", forward: FunctionType | None) -> dict[str, FunctionType | None]:
    """Return the attention function that runs, by role, and what it calls."""
    if live.implementation.startswith("flash_attention"):
        flash = importlib.import_module("transformers.integrations.flash_attention")
        utils = importlib.import_module(_UTILS)
        return {
            "flash_forward": _plain(flash.flash_attention_forward),
            "flash_utils": _plain(utils._flash_attention_forward),
            "flash_kwargs": _plain(utils._process_flash_attention_kwargs),
        }
    names = forward.__globals__ if forward is not None else {}
    own = forward is not None and _EAGER in forward.__code__.co_names and _TABLE not in forward.__code__.co_names
    eager = _plain(registered(live.implementation))
    if eager is None and (own or live.implementation == "eager"):
        eager = _plain(names.get(_EAGER))
    if eager is not None:
        return {"eager_forward": eager, "repeat_kv": _plain(eager.__globals__.get("repeat_kv"))}
    if live.implementation == "sdpa":
        sdpa = importlib.import_module("transformers.integrations.sdpa_attention")
        return {"sdpa_forward": _plain(sdpa.sdpa_attention_forward), "repeat_kv": _plain(sdpa.repeat_kv)}
    return {}


def registered(implementation: str) -> Any:
    """Return a custom attention function registered under that name, None for transformers' own names."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    found = ALL_ATTENTION_FUNCTIONS.get(implementation)
    return None if found is None or (getattr(found, "__module__", "") or "").startswith("transformers.") else found


def _function(owner: Any, name: str) -> FunctionType | None:
    return _plain(getattr(owner, name, None)) if owner is not type(None) else None


def _plain(function: Any) -> FunctionType | None:
    function = inspect.unwrap(getattr(function, "__func__", function)) if function is not None else None
    return function if isinstance(function, FunctionType) else None
