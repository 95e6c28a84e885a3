"""The parameters of the attention functions, in the order of a positional call, by provider.

flash-attn 2.1 to 2.8 agree up to ``causal``; 2.1 and 2.2 have no ``window_size``. FlashAttention-3 has no dropout, and
vLLM's build puts each ``max_seqlen`` before its ``cu_seqlens``. Must not know: calls.
"""

from dataclasses import dataclass

_TAIL = "window_size softcap alibi_slopes deterministic return_attn_probs"
_THREE = "q_descale k_descale v_descale window_size attention_chunk softcap num_splits pack_gqa deterministic sm_margin"
_LENGTHS = "cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k"
_CACHE = "q k_cache v_cache k v"


@dataclass(frozen=True)
class Signature:
    """One function of one provider. ``scale`` and ``causal`` name those parameters; ``aligned`` says where the causal
    mask of unequal lengths ends: bottom (right) or top (left)."""

    provider: str
    function: str
    names: tuple[str, ...]
    scale: str
    causal: str
    aligned: str = "bottom"

    @property
    def title(self) -> str:
        """``flash-attn 2.1–2.8: flash_attn_func``."""
        return f"{self.provider}: {self.function}"


def _flash(provider: str, function: str, names: str) -> Signature:
    return Signature(provider, function, tuple(names.split()), "softmax_scale", "causal")


TWO, FLASH_THREE, VLLM, TORCH = "flash-attn 2.1–2.8", "flash-attn 3", "vLLM's flash-attn", "torch"
_ALL = (
    _flash(TWO, "flash_attn_func", f"q k v dropout_p softmax_scale causal {_TAIL}"),
    _flash(TWO, "flash_attn_varlen_func", f"q k v {_LENGTHS} dropout_p softmax_scale causal {_TAIL} block_table"),
    _flash(TWO, "flash_attn_qkvpacked_func", f"qkv dropout_p softmax_scale causal {_TAIL}"),
    _flash(TWO, "flash_attn_kvpacked_func", f"q kv dropout_p softmax_scale causal {_TAIL}"),
    _flash(
        TWO, "flash_attn_varlen_qkvpacked_func", f"qkv cu_seqlens max_seqlen dropout_p softmax_scale causal {_TAIL}"
    ),
    _flash(TWO, "flash_attn_varlen_kvpacked_func", f"q kv {_LENGTHS} dropout_p softmax_scale causal {_TAIL}"),
    _flash(
        TWO,
        "flash_attn_with_kvcache",
        f"{_CACHE} rotary_cos rotary_sin cache_seqlens cache_batch_idx cache_leftpad block_table softmax_scale causal "
        "window_size softcap rotary_interleaved alibi_slopes num_splits return_softmax_lse",
    ),
    _flash(FLASH_THREE, "flash_attn_func", f"q k v softmax_scale causal qv {_THREE}"),
    _flash(
        FLASH_THREE,
        "flash_attn_varlen_func",
        f"q k v {_LENGTHS} seqused_q seqused_k softmax_scale causal qv {_THREE}",
    ),
    _flash(
        FLASH_THREE,
        "flash_attn_with_kvcache",
        f"{_CACHE} qv rotary_cos rotary_sin cache_seqlens cache_batch_idx cache_leftpad page_table cu_seqlens_q "
        "cu_seqlens_k_new max_seqlen_q rotary_seqlens q_descale k_descale v_descale softmax_scale causal window_size",
    ),
    _flash(
        VLLM,
        "flash_attn_varlen_func",
        "q k v max_seqlen_q cu_seqlens_q max_seqlen_k cu_seqlens_k seqused_k q_v dropout_p softmax_scale causal "
        "window_size softcap alibi_slopes deterministic return_attn_probs block_table",
    ),
    Signature(
        TORCH,
        "scaled_dot_product_attention",
        ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa"),
        "scale",
        "is_causal",
        "top",
    ),
)
NAMES = frozenset(signature.function for signature in _ALL)


def known(name: str, full: str) -> Signature | None:
    """Return the signature of the kernel called ``name`` whose full dotted name is ``full``; None for another name."""
    fitting = [signature for signature in _ALL if signature.function == name]
    if not fitting:
        return None
    provider = TWO
    if full.startswith(("flash_attn_interface", "flash_attn_3", "hopper", "sgl_kernel")):
        provider = FLASH_THREE
    elif "vllm" in full.split(".")[0]:
        provider = VLLM
    return next((each for each in fitting if each.provider == provider), fitting[0])
