"""Make one attention call again with chosen inputs, and read off what that shows.

The weights an attention really used are read by giving it values that are unit vectors: the output then *is* a stretch
of the weights, for any kernel. Which key/value head a query head reads shows when each head's value is its own number.
Must not know: what should come out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tracer.arrays import Array
from tracer.engines.arrays import to_array, to_tensor
from tracer.engines.transformers.watching import INTERFACE, Call, Collected

_OUTPUT = (INTERFACE, "o_proj")


@dataclass(frozen=True, eq=False)
class Weights:
    """Effective weights [B, H, Tq, columns] for the keys ``columns`` (indices into the kernel's keys), float32."""

    columns: NDArray[np.int64]
    values: NDArray[np.float32]


def repeats(call: Call) -> bool:
    """Return whether making the same call again gives the same bits."""
    output, _ = call.again()
    return torch.equal(output, call.output)


def moved_rows(call: Call, changed: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    """Negate the hidden states of some tokens (batch row, position) and return which output rows moved: [B, T] bool.

    Negation is exact, keeps every magnitude and moves query, key and value.
    """
    hidden = call.hidden.clone()
    for row, position in changed:
        hidden[row, position] = -hidden[row, position]
    output, _ = call.again(hidden)
    moved: NDArray[np.bool_] = (output != call.output).any(-1).cpu().numpy()
    return moved


def weights(call: Call, keys: int, head_dim: int, heads: int, columns: Sequence[int]) -> Weights | None:
    """Return the weights that this attention gives the keys ``columns``; None where values cannot be put in.

    ``keys`` is how many keys the kernel sees, those of a cache first.
    """
    found: list[Any] = []
    for start in range(0, len(columns), head_dim):
        part = list(columns[start : start + head_dim])
        units = torch.zeros(keys, head_dim, dtype=call.hidden.dtype, device=call.hidden.device)
        units[part, range(len(part))] = 1
        values = _values(call, units[None, None])
        if values is None:
            return None
        _, collected = call.again(replace=values.fresh, values=values.cached, keep=_OUTPUT)
        output = _output(collected, head_dim)
        if output is None or output.shape[2] != heads:
            return None
        found.append(output[..., : len(part)].transpose(1, 2).float().cpu())
    return Weights(np.array(columns, dtype=np.int64), torch.cat(found, -1).numpy())


@dataclass(frozen=True, eq=False)
class Changed:
    """What an attention computed from changed input: projections [B, T, ·], query, key, value and output as at the
    interface; each None where it is not to be seen."""

    q_proj: Array | None
    k_proj: Array | None
    query: Array | None
    key: Array | None
    value: Array | None
    output: Array | None


def quiet(
    call: Call, scale: float, keys: int, kv_heads: int, head_dim: int, rows: NDArray[np.bool_]
) -> tuple[Changed, tuple[int, ...] | None]:
    """Make the call again with hidden states ``scale`` times as large (a power of two: exact), and with values that
    number their heads.

    Returns what it did, and for each query head the key/value head whose values it reads: −1 where that is none alone,
    None where values cannot be put in or head_dim cannot number the heads. ``rows`` [B, Tq] are those to look at.
    """
    values = None
    if kv_heads <= head_dim:
        own = torch.zeros(1, kv_heads, 1, head_dim, dtype=call.hidden.dtype, device=call.hidden.device)
        own[0, range(kv_heads), 0, range(kv_heads)] = 1
        values = _values(call, own.expand(1, kv_heads, keys, head_dim))
    replace, cached = (values.fresh, values.cached) if values is not None else ({}, None)
    keep = ("q_proj", "k_proj", *_OUTPUT)
    _, collected = call.again(call.hidden * scale, replace=replace, values=cached, keep=keep)
    output = _output(collected, head_dim)
    read = None if output is None or values is None else _heads_read(output, kv_heads, rows)
    return _changed(collected), read


def loud(call: Call, factor: float) -> Changed | None:
    """Make the call again with what q_norm gives times ``factor``; None where q_norm is not called as a module."""
    if call.collected.gave("q_norm") is None:
        return None
    _, collected = call.again(replace={"q_norm": lambda output: output * factor}, keep=(INTERFACE,))
    return _changed(collected)


def _heads_read(output: Any, kv_heads: int, rows: NDArray[np.bool_]) -> tuple[int, ...]:
    shares = output[torch.from_numpy(rows).to(output.device)].float()[..., :kv_heads]  # [rows, H, K]
    mean = shares.mean(0)
    best = mean.argmax(-1)
    alone = mean.gather(-1, best[:, None])[:, 0] > 0.9
    return tuple(int(head) if sure else -1 for head, sure in zip(best, alone, strict=True))


def _changed(collected: Collected) -> Changed:
    def array(tensor: Any) -> Array | None:
        return None if tensor is None else to_array(tensor)

    seen = _seen(collected)
    return Changed(
        q_proj=array(collected.gave("q_proj")),
        k_proj=array(collected.gave("k_proj")),
        query=array(seen.get("query")),
        key=array(seen.get("key")),
        value=array(seen.get("value")),
        output=array(seen.get("output")),
    )


# A stack of score matrices holds at most this many numbers at one time.
_MOST_SCORES = 1 << 24


def eager(
    query: Array, key: Array, value: Array, scale: float, visible: NDArray[np.bool_], heads: Sequence[int]
) -> Array:
    """Return attention by plain matrix products in the arrays' own dtype, [Tq, heads, D].

    query [H, Tq, D], key and value [K, Tk, D]; ``visible`` [Tq, Tk]. Rows without a visible key are NaN.
    """
    group = query.shape[0] // key.shape[0]
    hidden = ~torch.from_numpy(visible)
    queries, keys, values = (to_tensor(array) for array in (query, key, value))
    step = max(1, _MOST_SCORES // max(1, hidden.numel()))
    outputs = []
    for start in range(0, len(heads), step):
        part = list(heads[start : start + step])
        own = [head // group for head in part]
        scores = (queries[part] @ keys[own].transpose(1, 2)) * scale
        share = torch.softmax(scores.masked_fill(hidden, -torch.inf), -1, dtype=torch.float32).to(queries.dtype)
        outputs.append(share @ values[own])
    return to_array(torch.cat(outputs).transpose(0, 1))


def direct(
    function: Callable[..., Any], query: Array, key: Array, tq: int, tk: int, device: Any
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Call a varlen kernel itself, causal, with ``tq`` queries and ``tk`` keys of one head.

    query [H, T, D], key [K, T, D]. Returns the weights [tq, tk] it gave (read through unit vectors as values, so tk is
    at most D), and which rows of its output are exactly zero.
    """
    q, k = (to_tensor(a[0])[:n].to(device)[:, None] for a, n in ((query, tq), (key, tk)))
    v = torch.zeros_like(k)
    v[range(tk), 0, range(tk)] = 1
    bounds = [torch.tensor([0, n], dtype=torch.int32, device=device) for n in (tq, tk)]
    result = function(q, k, v, bounds[0], bounds[1], tq, tk, softmax_scale=q.shape[-1] ** -0.5, causal=True)
    output = (result[0] if isinstance(result, tuple) else result)[:, 0].float().cpu()
    return output[:, :tk].numpy(), (output == 0).all(-1).numpy()


@dataclass(frozen=True)
class _Values:
    """Values to put in: for the part v_proj (``fresh``, as Call.again takes it) and for a cache (``cached``)."""

    fresh: Mapping[str, Callable[[Any], Any]]
    cached: Any


def _values(call: Call, values: Any) -> _Values | None:
    """Return how to give the call ``values`` (broadcast to [B, K, keys, D]), or None where v_proj is not called.

    The last of them stand in for what v_proj gives, those before for what a cache held.
    """
    made = call.collected.gave("v_proj")
    if made is None:
        return None
    batch, new = made.shape[:2]
    kv_heads = made.shape[-1] // values.shape[-1]
    keys = values.shape[2]
    whole = values.expand(batch, kv_heads, keys, values.shape[-1])
    fresh = whole[:, :, keys - new :].transpose(1, 2).reshape(made.shape)
    cached = whole[:, :, : keys - new].contiguous() if keys > new else None
    return _Values({"v_proj": lambda _output: fresh.clone()}, cached)


def _output(collected: Collected, head_dim: int) -> Any:
    """Return the attention's output [B, Tq, H, D] at its interface, or what o_proj was given where there is none."""
    seen = _seen(collected)
    if seen:
        return seen["output"]
    merged = collected.took("o_proj")
    return None if merged is None else merged.reshape(*merged.shape[:2], -1, head_dim)


def _seen(collected: Collected) -> Mapping[str, Any]:
    """Return query, key, value [B, heads, T, D] and output [B, T, H, D] at the interface, or nothing."""
    if len(collected.interfaces) == 1:
        return collected.interfaces[0]
    if len(collected.sdpa) == 1 and not collected.interfaces:
        given = collected.sdpa[0]
        return {**given, "output": given["output"].transpose(1, 2)}
    return {}
