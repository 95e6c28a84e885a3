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
from tracer.engines.transformers.calls import INTERFACE, Call, Collected
from tracer.engines.transformers.effects import same_bits


@dataclass(frozen=True, eq=False)
class Weights:
    """Effective weights [B, H, Tq, columns] for the keys ``columns`` (indices into the kernel's keys): float32, or
    float64 for a run in that."""

    columns: NDArray[np.int64]
    values: NDArray[Any]


def repeats(call: Call) -> bool:
    """Return whether making the same call again gives the same bits."""
    output, _ = call.again()
    return same_bits(output, call.output)


def moved_rows(call: Call, changed: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    """Negate the hidden states of some tokens (batch row, position) and return which output rows moved: [B, T] bool.

    Negation is exact, keeps every magnitude and moves query, key and value.
    """
    hidden = call.given.clone()
    for row, position in changed:
        hidden[row, position] = -hidden[row, position]
    output, _ = call.again(hidden)
    moved: NDArray[np.bool_] = (_bits(output) != _bits(call.output)).any(-1).cpu().numpy()
    return moved


def _bits(tensor: Any) -> Any:
    """Return the tensor's bits as integers, same shape: NaN differs from itself, its bits do not."""
    return tensor.contiguous().view({2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()])


def weights(call: Call, keys: int, head_dim: int, heads: int, columns: Sequence[int]) -> Weights | None:
    """Return the weights that this attention gives the keys ``columns``; None where values cannot be put in.

    ``keys`` is how many keys the kernel sees, those of a cache first.
    """
    found: list[Any] = []
    for start in range(0, len(columns), head_dim):
        part = list(columns[start : start + head_dim])
        units = torch.zeros(1, 1, keys, head_dim, dtype=call.hidden.dtype, device=call.hidden.device)
        units[0, 0, part, range(len(part))] = 1
        output = _with_values(call, units)
        if output is None or output.shape[2] != heads:
            return None
        shares = output[..., : len(part)].transpose(1, 2)
        found.append(shares.to("cpu", torch.float64 if shares.dtype == torch.float64 else torch.float32))
    return Weights(np.array(columns, dtype=np.int64), torch.cat(found, -1).numpy())


def value_heads(call: Call, keys: int, kv_heads: int, head_dim: int, rows: NDArray[np.bool_]) -> tuple[int, ...] | None:
    """Return for each query head the key/value head whose values it reads, −1 where that is none alone.

    ``rows`` [B, Tq] are those to look at. None where values cannot be put in, or head_dim cannot number the heads.
    """
    if kv_heads > head_dim:
        return None
    own = torch.zeros(1, kv_heads, 1, head_dim, dtype=call.hidden.dtype, device=call.hidden.device)
    own[0, range(kv_heads), 0, range(kv_heads)] = 1
    output = _with_values(call, own.expand(1, kv_heads, keys, head_dim))
    if output is None:
        return None
    shares = output[torch.from_numpy(rows).to(output.device)].float()[..., :kv_heads]  # [rows, H, K]
    mean = shares.mean(0)
    best = mean.argmax(-1)
    alone = mean.gather(-1, best[:, None])[:, 0] > 0.9
    return tuple(int(head) if sure else -1 for head, sure in zip(best, alone, strict=True))


def loud(call: Call, factor: float) -> Array | None:
    """Return the attention function's output [B, Tq, H, D] for queries ``factor`` times as large; None where it was not
    seen."""
    seen = _seen(call.collected)
    return to_array(seen["attend"](seen["query"] * factor, None)) if seen else None


@dataclass(frozen=True, eq=False)
class Changed:
    """What an attention made of changed input: projections [B, T, ·], query and key as at the attention function; each
    None where it is not to be seen."""

    q_proj: Array | None
    k_proj: Array | None
    query: Array | None
    key: Array | None


def quiet(call: Call, scale: float) -> Changed:
    """Make the call again with hidden states ``scale`` times as large (a power of two: exact)."""
    _, collected = call.again(call.given * scale, keep=("q_proj", "k_proj", INTERFACE), attended=_attended(call))

    def array(tensor: Any) -> Array | None:
        return None if tensor is None else to_array(tensor)

    seen = _seen(collected)
    made = (collected.gave("q_proj"), collected.gave("k_proj"), seen.get("query"), seen.get("key"))
    return Changed(*(array(tensor) for tensor in made))


def _attended(call: Call) -> Any:
    """Return what the attention function gave, copied, so that it need not be computed where it is of no interest; None
    where the function was not called just once with the usual results."""
    if len(call.collected.interfaces) != 1 or call.collected.interfaces[0]["results"] > 2:
        return None
    (own,) = call.collected.interfaces
    output, weights = (None if own[name] is None else own[name].clone() for name in ("output", "weights"))
    return output if own["results"] == 1 else (output, weights)


# A stack of score matrices holds at most this many numbers at one time.
_MOST_SCORES = 1 << 24


def eager(
    query: Array,
    key: Array,
    value: Array,
    scale: float,
    visible: NDArray[np.bool_],
    heads: Sequence[int],
    factor: float = 1.0,
) -> Array:
    """Return attention by plain matrix products in the arrays' own dtype, [Tq, heads, D]; queries times ``factor``.

    query [H, Tq, D], key and value [K, Tk, D]; ``visible`` [Tq, Tk]. Rows without a visible key are NaN.
    """
    group = query.shape[0] // key.shape[0]
    hidden = ~torch.from_numpy(visible)
    queries, keys, values = (to_tensor(array) for array in (query, key, value))
    queries = queries if factor == 1 else queries * factor
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


def _with_values(call: Call, values: Any) -> Any:
    """Return the attention's output [B, Tq, H, D] with ``values`` (broadcast to [B, K, keys, D]) in place of its own.

    Its attention function is called again with them. Where that was not seen, or is given values that are repeated
    already, the whole module is, with v_proj giving them; None where v_proj is not called either, or where it
    makes another number of heads.
    """
    seen = _seen(call.collected)
    heads = seen["value"].shape[1] if seen else 0
    if seen and (values.shape[1] == 1 or (len(call.collected.interfaces) == 1 and values.shape[1] == heads)):
        given = heads if len(call.collected.interfaces) == 1 else 1
        return seen["attend"](None, values.expand(len(seen["value"]), given, *values.shape[2:]).contiguous())
    made = call.collected.gave("v_proj")
    if made is None:
        return None
    batch, new = made.shape[:2]
    head_dim, keys = values.shape[-1], values.shape[2]
    if values.shape[1] not in (1, made.shape[-1] // head_dim):
        return None
    whole = values.expand(batch, made.shape[-1] // head_dim, keys, head_dim)
    fresh = whole[:, :, keys - new :].transpose(1, 2).reshape(made.shape)
    cached = whole[:, :, : keys - new].contiguous() if keys > new else None
    _, collected = call.again(replace={"v_proj": _in_pieces(fresh)}, values=cached, keep=(INTERFACE, "o_proj"))
    again = _seen(collected)
    if again:
        return again["output"]
    merged = collected.took("o_proj")
    return None if merged is None else merged.reshape(*merged.shape[:2], -1, head_dim)


def _in_pieces(whole: Any) -> Callable[[Any], Any]:
    """Return a function that gives ``whole`` [B, T, ·] in place of what a projection gives, piece by piece where it is
    called for some tokens, some rows, or tokens in one line at a time."""
    given = 0

    def stand_in(own: Any) -> Any:
        nonlocal given
        source, axis = (whole.flatten(0, 1), 0) if own.ndim == 2 else (whole, int(own.shape[0] == whole.shape[0]))
        size, total = own.shape[axis], source.shape[axis]
        start = given if given + size <= total else 0  # asked for anew from the first token
        given = (start + size) % total
        return source.narrow(axis, start, size).clone()

    return stand_in


def _seen(collected: Collected) -> Mapping[str, Any]:
    """Return query, key, value [B, heads, T, D] and output [B, T, H, D] at the interface, or nothing."""
    if len(collected.interfaces) == 1:
        return collected.interfaces[0]
    if len(collected.sdpa) == 1 and not collected.interfaces:
        given = collected.sdpa[0]
        return {**given, "output": given["output"].transpose(1, 2)}
    return {}
