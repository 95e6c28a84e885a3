"""flash-attn's functions on a CPU: the same names, signatures, layouts and mask alignment, computed by torch's own CPU
flash attention kernel, one sequence at a time.

Must not know: models, tracing, what becomes of the results. Importing this module imports torch.

What is kept of flash-attn (2.1 and later): causal is aligned to the bottom right of each sequence; windows; grouped
heads; paged caches through ``block_table``; a row with no allowed key has output exactly zero. What differs: the
logsumexp of such a row is -inf here (the sum over nothing), where flash-attn stores +inf and torch's kernel 0.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from tracer.errors import InputError, Unsupported

# Rows of queries for which a mask exists at one time: bounds the mask's memory at _ROWS · Tk · 4 bytes.
_ROWS = 256
_DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)

Result = Tensor | tuple[Tensor, Tensor, None]


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: Tensor | None = None,
) -> Result:
    """Return attention over sequences packed one after another: out [total_q, H, D] in q's dtype.

    q [total_q, H, D]; k, v [total_k, K, D], or [blocks, page, K, D] with ``block_table`` [sequences, blocks each];
    cu_seqlens_*: where each sequence starts, and the total. With ``return_attn_probs`` the result is
    (out, lse [H, total_q] fp32, None): the third, flash-attn's S_dmask, is for its own tests and is never made.
    ``deterministic`` concerns the backward pass only. Raises Unsupported for dropout, softcap and ALiBi, InputError
    where flash-attn would read or leave out the wrong rows.
    """
    _refuse(dropout_p=dropout_p, softcap=softcap, alibi_slopes=alibi_slopes)
    _same_kind(q, k, v)
    starts_q = _starts("cu_seqlens_q", cu_seqlens_q, q.shape[0], max_seqlen_q)
    starts_k = _starts("cu_seqlens_k", cu_seqlens_k, None if block_table is not None else k.shape[0], max_seqlen_k)
    if len(starts_q) != len(starts_k):
        raise InputError("kernels.sequences", queries=len(starts_q) - 1, keys=len(starts_k) - 1)
    _table_of(block_table, len(starts_q) - 1)
    bounds = _Bounds.of(causal, window_size)
    out = q.new_zeros(q.shape)
    lse = _no_sums(q)
    for n, ((a, b), (c, d)) in enumerate(zip(pairwise(starts_q), pairwise(starts_k), strict=True)):
        if block_table is None:
            keys, values = k[c:d], v[c:d]
        else:
            keys, values = (_pages(cache, block_table[n], d - c) for cache in (k, v))
        out[a:b], lse[:, a:b] = _one_sequence(q[a:b], keys, values, _scale(q, softmax_scale), bounds)
    return (out, lse, None) if return_attn_probs else out


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Result:
    """Return attention over a batch of sequences of one length: out [B, Tq, H, D] in q's dtype.

    q [B, Tq, H, D]; k, v [B, Tk, K, D]. With ``return_attn_probs``: (out, lse [B, H, Tq] fp32, None).
    Raises Unsupported for dropout, softcap and ALiBi.
    """
    _refuse(dropout_p=dropout_p, softcap=softcap, alibi_slopes=alibi_slopes)
    _same_kind(q, k, v)
    _same_batch(q, k)
    bounds = _Bounds.of(causal, window_size)
    parts = [_one_sequence(*qkv, _scale(q, softmax_scale), bounds) for qkv in zip(q, k, v, strict=True)]
    out, lse = (torch.stack(part) for part in zip(*parts, strict=True))
    return (out, lse, None) if return_attn_probs else out


def flash_attn_with_kvcache(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    k: Tensor | None = None,
    v: Tensor | None = None,
    rotary_cos: Tensor | None = None,
    rotary_sin: Tensor | None = None,
    cache_seqlens: int | Tensor | None = None,
    cache_batch_idx: Tensor | None = None,
    cache_leftpad: Tensor | None = None,
    block_table: Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: Tensor | None = None,
    num_splits: int = 0,
    return_softmax_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return attention of new queries over a cache of keys and values: out [B, Tq, H, D] in q's dtype.

    q [B, Tq, H, D]; caches [B, S, K, D], or [blocks, page, K, D] with ``block_table``; ``cache_seqlens``: how many
    entries of each cache count (all of S where None). New k, v [B, Tn, K, D] are first written into the caches behind
    those entries, in place, and count too. With ``return_softmax_lse``: (out, lse [B, H, Tq] fp32).
    ``num_splits`` changes how flash-attn shares the work, not what is computed. Raises Unsupported for rotary embedding
    inside the kernel, cache_batch_idx, cache_leftpad, softcap and ALiBi, InputError for lengths and pages that the
    caches do not have.
    """
    _refuse(
        softcap=softcap,
        alibi_slopes=alibi_slopes,
        rotary_cos=rotary_cos,
        rotary_sin=rotary_sin,
        cache_batch_idx=cache_batch_idx,
        cache_leftpad=cache_leftpad,
    )
    _same_kind(q, k_cache, v_cache)
    if block_table is None:
        _same_batch(q, k_cache)
    _table_of(block_table, q.shape[0])
    lengths = _cache_lengths(q.shape[0], k_cache, cache_seqlens, block_table)
    if (k is None) != (v is None):
        raise InputError("kernels.half_new")
    if k is not None and v is not None:
        _new(q, k_cache, k, v)
        for cache, new in ((k_cache, k), (v_cache, v)):
            _append(cache, new, lengths, block_table)
        lengths = [length + k.shape[1] for length in lengths]
    bounds = _Bounds.of(causal, window_size)
    parts = []
    for n, length in enumerate(lengths):
        keys, values = (
            cache[n, :length] if block_table is None else _pages(cache, block_table[n], length)
            for cache in (k_cache, v_cache)
        )
        parts.append(_one_sequence(q[n], keys, values, _scale(q, softmax_scale), bounds))
    out, lse = (torch.stack(part) for part in zip(*parts, strict=True))
    return (out, lse) if return_softmax_lse else out


# ------------------------------------------------------------------------------------------------- one sequence


@dataclass(frozen=True)
class _Bounds:
    """How far to the left and right of its own place a query sees; None is without end."""

    left: int | None
    right: int | None

    @classmethod
    def of(cls, causal: bool, window: tuple[int, int]) -> "_Bounds":
        left, right = (None if side < 0 else side for side in window)
        return cls(left, 0 if causal else right)


def _one_sequence(q: Tensor, k: Tensor, v: Tensor, scale: float, bounds: _Bounds) -> tuple[Tensor, Tensor]:
    """Return out [Tq, H, D] and lse [H, Tq] fp32 for q [Tq, H, D] and k, v [Tk, K, D]."""
    tq, tk = q.shape[0], k.shape[0]
    if bounds.left is not None and bounds.left >= tk - 1:
        bounds = _Bounds(None, bounds.right)  # a window as long as the sequence hides nothing
    if bounds.left is None and bounds.right == 0 and tq == tk and tq > 0:
        return _kernel(q, k, v, scale, causal=True)  # the one masked case that the kernel does without a mask
    out = q.new_zeros(q.shape)
    lse = _no_sums(q)
    for rows, keys, allowed in _blocks(tq, tk, bounds):
        block, sums = _kernel(q[rows], k[keys], v[keys], scale, allowed=None if bool(allowed.all()) else allowed)
        empty = ~allowed.any(dim=1)
        out[rows] = block.masked_fill(empty[:, None, None], 0)
        lse[:, rows] = sums.masked_fill(empty, -torch.inf)
    return out, lse


def _blocks(tq: int, tk: int, bounds: _Bounds) -> Iterator[tuple[slice, slice, Tensor]]:
    """Yield rows, the keys that any of them may see, and which may see which; blocks that see nothing are left out."""
    offset = tk - tq  # bottom right: the last query stands at the last key
    step = tq if bounds == _Bounds(None, None) else _ROWS
    for a in range(0, tq, max(step, 1)):
        b = min(a + step, tq)
        low = 0 if bounds.left is None else max(0, a + offset - bounds.left)
        high = tk if bounds.right is None else min(tk, b + offset + bounds.right)
        if low >= high:
            continue
        distance = torch.arange(low, high)[None, :] - (torch.arange(a, b)[:, None] + offset)
        allowed = torch.ones_like(distance, dtype=torch.bool)
        if bounds.left is not None:
            allowed &= distance >= -bounds.left
        if bounds.right is not None:
            allowed &= distance <= bounds.right
        yield slice(a, b), slice(low, high), allowed


def _kernel(
    q: Tensor, k: Tensor, v: Tensor, scale: float, *, causal: bool = False, allowed: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    mask = None
    if allowed is not None:
        # In q's own dtype: torch takes a float32 mask for float64 queries too, and then reads it wrongly.
        mask = torch.zeros(allowed.shape, dtype=q.dtype).masked_fill(~allowed, -torch.inf)[None, None]
    heads_first = (x.transpose(0, 1)[None] for x in (q, k, v))
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        *heads_first, 0.0, causal, attn_mask=mask, scale=scale
    )
    # lse in float32 for every dtype, as flash-attn has it; torch's kernel gives float64 for float64
    return out[0].transpose(0, 1).contiguous(), lse[0].float().contiguous()


def _no_sums(q: Tensor) -> Tensor:
    """Return -inf for every head and query, [H, Tq] fp32."""
    return q.new_full((q.shape[1], q.shape[0]), -torch.inf, dtype=torch.float32)


def _scale(q: Tensor, softmax_scale: float | None) -> float:
    return float(q.shape[-1] ** -0.5) if softmax_scale is None else float(softmax_scale)


# ---------------------------------------------------------------------------------------------------- the caches


def _pages(cache: Tensor, table: Tensor, length: int) -> Tensor:
    """Return the first ``length`` entries [length, K, D] of the sequence whose pages ``table`` lists in order."""
    return cache[_listed(cache, table, length)].flatten(0, 1)[:length]


def _listed(cache: Tensor, table: Tensor, length: int) -> Tensor:
    """Return the places of the pages that ``length`` entries need, int64; what ``table`` lists beyond is never read."""
    blocks, page = cache.shape[:2]
    needed = -(-length // page)
    if needed > table.shape[0]:
        raise InputError("kernels.pages", needed=needed, length=length, page=page, listed=table.shape[0])
    places = table[:needed].long()
    if bool(((places < 0) | (places >= blocks)).any()):
        raise InputError("kernels.places", found=places.tolist(), last=blocks - 1)
    return places


def _append(cache: Tensor, new: Tensor, lengths: Sequence[int], table: Tensor | None) -> None:
    """Write new [B, Tn, K, D] into the cache behind each sequence's ``lengths`` entries, in place."""
    for n, length in enumerate(lengths):
        end = length + new.shape[1]
        if table is None:
            if end > cache.shape[1]:
                raise InputError("kernels.cache_full", length=length, new=new.shape[1], size=cache.shape[1])
            cache[n, length:end] = new[n]
            continue
        page, entries = cache.shape[1], torch.arange(length, end)
        cache[_listed(cache, table[n], end)[entries // page], entries % page] = new[n]


def _cache_lengths(batch: int, cache: Tensor, lengths: int | Tensor | None, table: Tensor | None) -> list[int]:
    """Return how many entries of each sequence's cache count; raises InputError for numbers that no cache here has."""
    size = cache.shape[1] if table is None else table.shape[1] * cache.shape[1]
    if lengths is None:
        return [size] * batch
    found = [lengths] * batch if isinstance(lengths, int) else [int(length) for length in lengths.flatten().tolist()]
    if len(found) != batch or not all(0 <= length <= size for length in found):
        raise InputError("kernels.lengths", batch=batch, size=size, found=found)
    return found


# ------------------------------------------------------------------------------------------------------ refusals


def _refuse(**arguments: float | Tensor | None) -> None:
    for name, value in arguments.items():
        if value is not None and not (isinstance(value, int | float) and value == 0):
            given = str(value) if isinstance(value, int | float) else f"a tensor of shape {tuple(value.shape)}"
            raise Unsupported("kernels.argument", name=name, given=given)


def _same_kind(q: Tensor, k: Tensor, v: Tensor) -> None:
    if {x.device.type for x in (q, k, v)} != {"cpu"}:
        raise Unsupported("kernels.not_cpu", devices=", ".join(str(x.device) for x in (q, k, v)))
    if q.dtype not in _DTYPES or not q.dtype == k.dtype == v.dtype:
        raise Unsupported("kernels.dtypes", found=", ".join(str(x.dtype).removeprefix("torch.") for x in (q, k, v)))
    if k.shape != v.shape or q.shape[-1] != k.shape[-1] or q.shape[-2] % k.shape[-2]:
        raise InputError("kernels.shapes", q=tuple(q.shape), k=tuple(k.shape), v=tuple(v.shape))


def _same_batch(q: Tensor, k: Tensor) -> None:
    if q.shape[0] != k.shape[0] or not q.shape[0]:
        raise InputError("kernels.batch", queries=q.shape[0], keys=k.shape[0])


def _table_of(table: Tensor | None, sequences: int) -> None:
    if table is not None and (table.dim() != 2 or table.shape[0] != sequences):
        raise InputError("kernels.table", found=tuple(table.shape), sequences=sequences)


def _new(q: Tensor, cache: Tensor, k: Tensor, v: Tensor) -> None:
    """Refuse new keys and values that would be cast or spread out to fit into the cache."""
    _same_kind(q, k, v)
    wanted = (q.shape[0], k.shape[1], *cache.shape[2:])
    if tuple(k.shape) != wanted:
        raise InputError("kernels.new", found=tuple(k.shape), wanted=wanted)


def _starts(name: str, starts: Tensor, total: int | None, longest: int) -> list[int]:
    """Return the starts as numbers, or raise InputError where flash-attn would read or leave out the wrong rows."""
    found = [int(start) for start in starts.tolist()]
    lengths = [b - a for a, b in pairwise(found)]
    if found[:1] != [0] or min(lengths, default=-1) < 0 or (total is not None and found[-1] != total):
        raise InputError("kernels.starts", name=name, found=found, total="…" if total is None else total)
    if max(lengths) > longest:
        raise InputError("kernels.longest", name=name, given=int(longest), longest=max(lengths))
    return found
