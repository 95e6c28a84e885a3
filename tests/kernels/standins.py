"""Stand-ins for versions of flash-attn: their own signatures (names, order and defaults as their releases have them),
their own way of handing out the logsumexp, and torch's CPU kernel to compute. What a version is given beyond what the
CPU kernel does must be what it would do nothing with.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from collections.abc import Callable
from itertools import pairwise
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from tracer.kernels import cpu_flash

_COMPUTES = {
    "flash_attn_varlen_func": cpu_flash.flash_attn_varlen_func,
    "flash_attn_func": cpu_flash.flash_attn_func,
    "flash_attn_with_kvcache": cpu_flash.flash_attn_with_kvcache,
}
_KNOWN = {
    "q", "k", "v", "cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k", "k_cache", "v_cache",
    "cache_seqlens", "softmax_scale", "causal", "window_size",
}  # fmt: skip
calls: list[dict[str, Any]] = []


def _compute(name: str, given: dict[str, Any], table: str | None = None) -> tuple[Tensor, Tensor]:
    """Return (out, lse); refuses types that stand where they cannot, as a real extension module would."""
    calls.append(dict(given))
    for length in ("max_seqlen_q", "max_seqlen_k"):
        if not isinstance(given.get(length, 1), int):
            raise TypeError(f"{length} must be an int, not {type(given[length]).__name__}")
    if not isinstance(given["causal"], bool):
        raise TypeError("causal must be a bool")
    known = {key: value for key, value in given.items() if key in _KNOWN}
    if table is not None:
        known["block_table"] = given[table]
    ask = "return_softmax_lse" if name == "flash_attn_with_kvcache" else "return_attn_probs"
    output, lse, *_ = _COMPUTES[name](**known, **{ask: True})
    return output, lse


# ---------------------------------------------------------------------------------------------- flash-attn 2


def two_1(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0, softmax_scale=None,
          causal=False, return_attn_probs=False):  # fmt: skip
    output, lse = _compute("flash_attn_varlen_func", locals())
    return (output, _padded(lse, cu_seqlens_q, max_seqlen_q), None) if return_attn_probs else output


def two_5(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0, softmax_scale=None,
          causal=False, window_size=(-1, -1), alibi_slopes=None, deterministic=False, return_attn_probs=False,
          block_table=None):  # fmt: skip
    output, lse = _compute("flash_attn_varlen_func", locals(), "block_table")
    return (output, _padded(lse, cu_seqlens_q, max_seqlen_q), None) if return_attn_probs else output


def two_8(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0, softmax_scale=None,
          causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None, deterministic=False,
          return_attn_probs=False, block_table=None):  # fmt: skip
    output, lse = _compute("flash_attn_varlen_func", locals(), "block_table")
    return (output, lse, None) if return_attn_probs else output


def two_8_dense(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
                alibi_slopes=None, deterministic=False, return_attn_probs=False):  # fmt: skip
    output, lse = _compute("flash_attn_func", locals())
    return (output, lse, None) if return_attn_probs else output


def two_8_cache(q, k_cache, v_cache, k=None, v=None, rotary_cos=None, rotary_sin=None, cache_seqlens=None,
                cache_batch_idx=None, cache_leftpad=None, block_table=None, softmax_scale=None, causal=False,
                window_size=(-1, -1), softcap=0.0, rotary_interleaved=True, alibi_slopes=None, num_splits=0,
                return_softmax_lse=False):  # fmt: skip
    output, lse = _compute("flash_attn_with_kvcache", locals(), "block_table")
    return (output, lse) if return_softmax_lse else output


def _padded(lse: Tensor, starts: Tensor, longest: int) -> Tensor:
    """Until 2.6 the logsumexp of packed sequences was [B, H, max_seqlen_q], the rest of it never written."""
    bounds = starts.tolist()
    padded = torch.full((len(bounds) - 1, lse.shape[0], longest), torch.nan)
    for n, (a, b) in enumerate(pairwise(bounds)):
        padded[n, :, : b - a] = lse[:, a:b]
    return padded


# ------------------------------------------------------------------------------------------ FlashAttention 3


def three(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, seqused_q=None, seqused_k=None,
          softmax_scale=None, causal=False, qv=None, q_descale=None, k_descale=None, v_descale=None,
          window_size=(-1, -1), attention_chunk=0, softcap=0.0, num_splits=1, pack_gqa=None, deterministic=False,
          sm_margin=0, return_attn_probs=False):  # fmt: skip
    output, lse = _compute("flash_attn_varlen_func", locals())
    return (output, lse) if return_attn_probs else output


def three_dense(q, k, v, softmax_scale=None, causal=False, qv=None, q_descale=None, k_descale=None, v_descale=None,
                window_size=(-1, -1), attention_chunk=0, softcap=0.0, num_splits=1, pack_gqa=None,
                deterministic=False, sm_margin=0, return_attn_probs=False):  # fmt: skip
    output, lse = _compute("flash_attn_func", locals())
    return (output, lse) if return_attn_probs else output


def three_cache(q, k_cache, v_cache, k=None, v=None, qv=None, rotary_cos=None, rotary_sin=None, cache_seqlens=None,
                cache_batch_idx=None, cache_leftpad=None, page_table=None, cu_seqlens_q=None, cu_seqlens_k_new=None,
                max_seqlen_q=None, rotary_seqlens=None, q_descale=None, k_descale=None, v_descale=None,
                softmax_scale=None, causal=False, window_size=(-1, -1), attention_chunk=0, softcap=0.0,
                rotary_interleaved=True, scheduler_metadata=None, num_splits=0, pack_gqa=None, sm_margin=0,
                return_softmax_lse=False):  # fmt: skip
    given = {name: value for name, value in locals().items() if name not in ("cu_seqlens_q", "max_seqlen_q")}
    output, lse = _compute("flash_attn_with_kvcache", given, "page_table")
    return (output, lse, None, None) if return_softmax_lse else output


# ------------------------------------------------------------------------------------------ FlashAttention 4


def four_first(q, k, v, cu_seqlens_q=None, cu_seqlens_k=None, max_seqlen_q=None, max_seqlen_k=None, seqused_q=None,
               seqused_k=None, page_table=None, softmax_scale=None, causal=False, window_size=(None, None),
               learnable_sink=None, softcap=0.0, num_splits=1, pack_gqa=None, deterministic=False, score_mod=None,
               aux_tensors=None, return_lse=False):  # fmt: skip
    return _four("flash_attn_varlen_func", locals())


def four(q, k, v, qv=None, cu_seqlens_q=None, cu_seqlens_k=None, max_seqlen_q=None, max_seqlen_k=None,
         min_seqlen_k=None, seqused_q=None, seqused_k=None, gather_kv_indices=None, page_table=None,
         softmax_scale=None, causal=False, window_size=(None, None), learnable_sink=None, softcap=0.0, num_splits=1,
         pack_gqa=None, deterministic=False, score_mod=None, score_mod_bwd=None, mask_mod=None,
         block_sparse_tensors=None, aux_tensors=None, aux_scalars=None, return_lse=False, scheduler_metadata=None,
         seqlen_k_per_split=None, disable_scheduler_metadata=False):  # fmt: skip
    return _four("flash_attn_varlen_func", locals())


def four_dense(q, k, v, qv=None, gather_kv_indices=None, softmax_scale=None, causal=False, window_size=(None, None),
               learnable_sink=None, softcap=0.0, num_splits=1, pack_gqa=None, deterministic=False, score_mod=None,
               score_mod_bwd=None, mask_mod=None, aux_tensors=None, aux_scalars=None, block_sparse_tensors=None,
               block_sparse_tensors_bwd=None, return_lse=False):  # fmt: skip
    return _four("flash_attn_func", locals())


def _four(name: str, given: dict[str, Any]) -> tuple[Tensor, Tensor | None]:
    """Always a pair; an open side of the window is None, and a negative number is a bound like any other."""
    left, right = given["window_size"]
    if any(side is not None and side < 0 for side in (left, right)):
        raise ValueError(f"a negative window_size means something else here: {(left, right)}")
    window = (-1 if left is None else left, -1 if right is None else right)
    output, lse = _compute(name, {**given, "window_size": window})
    return output, lse if given["return_lse"] else None


# ------------------------------------------------------------------------------------------------- the modules


def module(name: str, version: str | None = None, **functions: Callable[..., Any]) -> ModuleType:
    """Return a module that looks like the one of that name."""
    made = ModuleType(name)
    for function, value in functions.items():
        setattr(made, function, value)
    if version is not None:
        made.__version__ = version
    return made


MODULES = {
    "flash-attn": module(
        "flash_attn",
        "2.8.3",
        flash_attn_varlen_func=two_8,
        flash_attn_func=two_8_dense,
        flash_attn_with_kvcache=two_8_cache,
    ),
    "flash-attn-3": module(
        "flash_attn_interface",
        flash_attn_varlen_func=three,
        flash_attn_func=three_dense,
        flash_attn_with_kvcache=three_cache,
    ),
    "flash-attn-4": module("flash_attn.cute", "0.0.0", flash_attn_varlen_func=four, flash_attn_func=four_dense),
}
VERSIONS = {"flash-attn": "2.8.3", "flash-attn-3": "3.0.0", "flash-attn-4": "4.0.0b27"}
