"""Wrong attention kernels with flash-attn's signatures: plain matrix products with one thing wrong.

Must not know: models, checks. Importing this module imports torch.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

See = Callable[[Tensor, Tensor, int, int], Tensor]


def _bottom_right(query: Tensor, key: Tensor, tq: int, tk: int) -> Tensor:
    return key <= query + tk - tq


def _any(query: Tensor, key: Tensor, _tq: int, _tk: int) -> Tensor:
    return (query + key) >= 0


@dataclass(frozen=True)
class Wrong:
    """What a kernel does differently; every default is right."""

    sees: See = _bottom_right  # with causal=True
    scale: Callable[[float], float] = float
    key_head: Callable[[int, int, int], int] | None = None  # (head, heads, kv heads) → key head
    value_head: Callable[[int, int, int], int] | None = None
    lse: Callable[[Tensor], Tensor] | None = None
    one_sequence: bool = False
    window: bool = True
    empty: float = 0.0


CHANGES: dict[str, Wrong] = {
    "causal_ignored": Wrong(sees=_any),
    "top_left": Wrong(sees=lambda query, key, tq, tk: key <= query),
    "diagonal_high": Wrong(sees=lambda query, key, tq, tk: key <= query + tk - tq + 1),
    "diagonal_low": Wrong(sees=lambda query, key, tq, tk: key < query + tk - tq),
    "scale_ignored": Wrong(scale=lambda scale: scale * 1.25),
    "heads_tiled": Wrong(key_head=lambda h, _n, kv: h % kv, value_head=lambda h, _n, kv: h % kv),
    "value_head": Wrong(value_head=lambda h, n, kv: (h // (n // kv) + 1) % kv),
    "lse_base_two": Wrong(lse=lambda lse: lse / math.log(2)),
    "lse_unscaled": Wrong(lse=lambda lse: lse * 2),
    "packing_ignored": Wrong(one_sequence=True),
    "window_ignored": Wrong(window=False),
    "empty_nan": Wrong(empty=math.nan),
}


def varlen(wrong: Wrong, right: Callable[..., Any]) -> Callable[..., Any]:
    """Return a varlen kernel that is ``wrong``, with the signature of ``right``."""

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
    ) -> Any:
        starts_q, starts_k = cu_seqlens_q.tolist(), cu_seqlens_k.tolist()
        if wrong.one_sequence:
            starts_q, starts_k = [0, q.shape[0]], [0, k.shape[0]]
        parts = [
            _attend(wrong, q[a:b], k[c:d], v[c:d], softmax_scale, causal, window_size)
            for (a, b), (c, d) in zip(pairwise(starts_q), pairwise(starts_k), strict=True)
        ]
        output, lse = torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts], 1)
        return (output, lse, None) if return_attn_probs else output

    flash_attn_varlen_func.__doc__ = right.__doc__
    return flash_attn_varlen_func


def dense(wrong: Wrong, right: Callable[..., Any]) -> Callable[..., Any]:
    """Return a dense kernel that is ``wrong``, with the signature of ``right``."""

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
    ) -> Any:
        parts = [_attend(wrong, *qkv, softmax_scale, causal, window_size) for qkv in zip(q, k, v, strict=True)]
        output, lse = (torch.stack(part) for part in zip(*parts, strict=True))
        return (output, lse, None) if return_attn_probs else output

    flash_attn_func.__doc__ = right.__doc__
    return flash_attn_func


def _attend(
    wrong: Wrong, q: Tensor, k: Tensor, v: Tensor, scale: float | None, causal: bool, window: tuple[int, int]
) -> tuple[Tensor, Tensor]:
    """Return output [Tq, H, D] and logsumexp [H, Tq] of one sequence."""
    tq, tk, heads, kv_heads = q.shape[0], k.shape[0], q.shape[1], k.shape[1]
    factor = wrong.scale(q.shape[-1] ** -0.5 if scale is None else scale)
    query, key = torch.arange(tq, device=q.device)[:, None], torch.arange(tk, device=q.device)[None, :]
    seen = wrong.sees(query, key, tq, tk) if causal else _any(query, key, tq, tk)
    if wrong.window and window[0] >= 0:
        seen = seen & (key >= query + tk - tq - window[0])
    outputs, sums = [], []
    for head in range(heads):
        own = head // (heads // kv_heads)
        at_k = own if wrong.key_head is None else wrong.key_head(head, heads, kv_heads)
        at_v = own if wrong.value_head is None else wrong.value_head(head, heads, kv_heads)
        scores = (q[:, head].float() @ k[:, at_k].float().T * factor).masked_fill(~seen, -torch.inf)
        total = torch.logsumexp(scores, -1)
        weights = torch.softmax(scores, -1).masked_fill(~seen.any(-1, keepdim=True), wrong.empty)
        outputs.append((weights @ v[:, at_v].float()).to(q.dtype))
        sums.append(total if wrong.lse is None else wrong.lse(total))
    return torch.stack(outputs, 1), torch.stack(sums)
