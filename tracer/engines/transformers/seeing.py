"""From a watched call's live tensors to plain records in one layout.

Must not know: what the numbers should be.
"""

import inspect
from typing import Any

import numpy as np
import torch

from tracer.arrays import Floats
from tracer.engines.arrays import to_array
from tracer.engines.transformers.calls import PARTS, Call
from tracer.engines.transformers.compiled import original
from tracer.engines.transformers.frames import place_of_function
from tracer.engines.transformers.lending import KernelSeen
from tracer.engines.transformers.observed import AttentionSeen, InterfaceCall, KernelCall, ModuleCall, Parts, Place
from tracer.engines.transformers.watching import CACHE_NAMES, cache_name

_NORMS = ("q_norm", "k_norm")
_ATTRIBUTES = ("scaling", "is_causal", "sliding_window", "head_dim", "attention_dropout", "training", "layer_type")


def seen(call: Call, weights: bool = True) -> AttentionSeen:
    """Return the record of one watched call; ``weights`` adds the projections' weights.

    Weights are not copied: what holds a record longer than until the call has been looked at does without ``parts``.
    """
    cos, sin = call.arguments.get("position_embeddings") or (None, None)
    batch, length = call.hidden.shape[:2]
    positions = None if call.positions is None else _ints(call.positions.expand(batch, -1))
    return AttentionSeen(
        layer=call.layer,
        hidden=to_array(call.hidden),
        output=to_array(call.output),
        cos=None if cos is None else to_array(cos.expand(batch, length, -1)),
        sin=None if sin is None else to_array(sin.expand(batch, length, -1)),
        positions=positions,
        masked=call.arguments.get("attention_mask") is not None,
        modules=tuple(
            ModuleCall(name, to_array(given, owned=True), to_array(gave, owned=True), place)
            for name, given, gave, place in call.collected.modules
        ),
        interface=_interface(call),
        kernel=_kernel(call, batch, length),
        parts=_parts(call.module, PARTS if weights else _NORMS),
        unread=_unread(call),
    )


def _unread(call: Call) -> tuple[str, str] | None:
    """Return the name that a cache was passed by and the one that the module's code has for it, where they differ."""
    given = cache_name(call.arguments)
    try:
        parameters = inspect.signature(inspect.unwrap(call.module.forward)).parameters
    except (TypeError, ValueError):  # compiled code
        return None
    own = next((name for name in CACHE_NAMES if name in parameters), None)
    return None if given is None or own is None or given in parameters else (given, own)


def _interface(call: Call) -> InterfaceCall | None:
    if len(call.collected.interfaces) == 1:
        (given,) = call.collected.interfaces
        mask, weights = given.get("attention_mask"), given["weights"]
        kv_heads = _kv_heads(call, given["key"])  # a module may repeat them before
        return InterfaceCall(
            function=getattr(given["function"], "__qualname__", type(given["function"]).__qualname__),
            code=place_of_function(given["function"]),
            place=given["place"],
            query=to_array(given["query"]),
            key=to_array(_unrepeated(given["key"], kv_heads)),
            value=to_array(_unrepeated(given["value"], kv_heads)),
            mask=to_array(mask) if isinstance(mask, torch.Tensor) else None,
            same_mask=mask is call.arguments.get("attention_mask"),
            scaling=given.get("scaling"),
            same_scale=given.get("scaling") is getattr(call.module, "scaling", None),
            dropout=float(given.get("dropout") or 0.0),
            dropped=call.collected.dropout,
            sliding_window=given.get("sliding_window"),
            output=to_array(given["output"]),
            weights=None if weights is None else to_array(weights),
        )
    if len(call.collected.sdpa) == 1 and not call.collected.interfaces:
        return _direct_sdpa(call, call.collected.sdpa[0])
    return None


def _direct_sdpa(call: Call, given: dict[str, Any]) -> InterfaceCall:
    """Take torch's own attention function, called without transformers' table, as the interface."""
    mask = given.get("attn_mask")
    kv_heads = _kv_heads(call, given["key"])
    return InterfaceCall(
        function="torch.nn.functional.scaled_dot_product_attention",
        code=given["place"],
        place=given["place"],
        query=to_array(given["query"]),
        key=to_array(_unrepeated(given["key"], kv_heads)),
        value=to_array(_unrepeated(given["value"], kv_heads)),
        mask=to_array(mask) if isinstance(mask, torch.Tensor) else None,
        same_mask=mask is call.arguments.get("attention_mask"),
        scaling=given.get("scale"),
        same_scale=given.get("scale") is getattr(call.module, "scaling", None),
        dropout=float(given.get("dropout_p") or 0.0),
        dropped=call.collected.dropout,
        sliding_window=None,
        output=to_array(given["output"].transpose(1, 2)),
        weights=None,
    )


def _kv_heads(call: Call, key: Any) -> int:
    made = call.collected.gave("k_proj")
    config = getattr(call.module, "config", None)
    wanted = getattr(config, "num_key_value_heads", key.shape[1])
    return min(int(key.shape[1]), int(wanted) if made is None else int(made.shape[-1]) // int(key.shape[-1]))


def _unrepeated(tensor: Any, heads: int) -> Any:
    """Return the ``heads`` different heads of repeated keys or values, in the order in which they first appear."""
    if tensor.shape[1] == heads:
        return tensor
    kept: list[int] = []
    for head in range(tensor.shape[1]):
        if not any(torch.equal(tensor[:, head], tensor[:, other]) for other in kept):
            kept.append(head)
    return tensor[:, kept] if len(kept) == heads else tensor[:, :: tensor.shape[1] // heads]


def _kernel(call: Call, batch: int, length: int) -> KernelCall | None:
    if len(call.kernels) == 1:
        return _flash(call, *call.kernels[0], batch, length)
    if len(call.collected.sdpa) == 1:
        (given,) = call.collected.sdpa
        return KernelCall(
            function="torch.nn.functional.scaled_dot_product_attention",
            place=given["place"],
            scale=given.get("scale"),
            causal=bool(given.get("is_causal", False)),
            window=None,
            mask=given.get("attn_mask") is not None,
            dropout=float(given.get("dropout_p") or 0.0),
            lse=None,
        )
    return None


def _flash(call: Call, kernel: KernelSeen, place: Place | None, batch: int, length: int) -> KernelCall:
    given = kernel.arguments
    varlen = "cu_seqlens_q" in given
    window = given.get("window_size")
    return KernelCall(
        function="flash_attn_varlen_func" if varlen else "flash_attn_func",
        place=place,
        scale=given["softmax_scale"],
        causal=given["causal"],
        window=None if window is None else (int(window[0]), int(window[1])),
        mask=False,
        dropout=float(given.get("dropout_p") or 0.0),
        lse=_lse(call, kernel.lse, batch, length),
    )


def _lse(call: Call, lse: Any, batch: int, length: int) -> Floats | None:
    """Return [B, H, Tq]; rows that padding kept out of the kernel are NaN."""
    if lse is None:
        return None
    numbers: Floats = lse.detach().to("cpu", torch.float64).numpy()
    if numbers.ndim == 3:
        return numbers
    heads, rows = numbers.shape
    kept = np.ones(batch * length, dtype=np.bool_)
    mask = call.arguments.get("attention_mask")
    if rows != kept.size and isinstance(mask, torch.Tensor) and mask.ndim == 2:
        kept = mask[:, -length:].bool().cpu().numpy().reshape(-1)
    if int(kept.sum()) != rows:
        return None
    whole = np.full((heads, batch * length), np.nan)
    whole[:, kept] = numbers
    return np.ascontiguousarray(whole.reshape(heads, batch, length).transpose(1, 0, 2))


def _parts(module: Any, names: tuple[str, ...]) -> Parts:
    weights, biases = {}, {}
    for name in names:
        part = original(getattr(module, name, None))
        weight = getattr(part, "weight", None)
        if not isinstance(weight, torch.Tensor) or not weight.is_floating_point() or weight.is_meta:
            continue
        if name.endswith("_proj") and getattr(type(part), "forward", None) is not torch.nn.Linear.forward:
            continue  # an adapter or a quantised layer: its weight is not all it computes with
        weights[name] = to_array(weight, owned=True)
        bias = getattr(part, "bias", None)
        if isinstance(bias, torch.Tensor):
            biases[name] = to_array(bias, owned=True)
    attributes = {name: getattr(module, name) for name in _ATTRIBUTES if hasattr(module, name)}
    for name in _NORMS:
        part = original(getattr(module, name, None))
        if part is not None:
            attributes[f"{name}.class"] = type(part).__name__
        for attribute in ("variance_epsilon", "eps"):
            if hasattr(part, attribute):
                attributes[f"{name}.eps"] = getattr(part, attribute)
    return Parts(weights, biases, attributes)


def _ints(tensor: Any) -> Any:
    return tensor.detach().cpu().numpy().astype(np.int64)
