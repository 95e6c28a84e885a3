"""The CPU kernel does what flash-attn's signature promises, seen against plain matrix products in float64."""

import inspect
import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tracer.errors import InputError, Unsupported
from tracer.kernels.cpu_flash import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache

# The largest difference of an output and of a logsumexp, in each dtype, for inputs of about 1.
CLOSE = {
    torch.float64: (1e-12, 5e-6),
    torch.float32: (5e-6, 5e-6),
    torch.bfloat16: (3e-2, 1e-4),
    torch.float16: (4e-3, 1e-4),
}


def allowed_pairs(tq: int, tk: int, causal: bool, window: tuple[int, int]) -> Tensor:
    """Which query sees which key, as flash-attn's documentation words it: bottom right, both ends of a window seen."""
    place = torch.arange(tq)[:, None] + tk - tq
    key = torch.arange(tk)[None, :]
    left = torch.tensor(window[0] < 0) | (key >= place - window[0])
    right = key <= place if causal else torch.tensor(window[1] < 0) | (key <= place + window[1])
    return (left & right).expand(tq, tk)


def plain(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    group = q.shape[1] // k.shape[1]
    q, k, v = q.double(), k.double().repeat_interleave(group, 1), v.double().repeat_interleave(group, 1)
    scores = torch.einsum("ihd,jhd->hij", q, k) * scale
    scores = scores.masked_fill(~allowed, -torch.inf)
    lse = scores.logsumexp(-1)
    weights = torch.where(allowed, (scores - lse[..., None]).exp(), 0.0)
    return torch.einsum("hij,jhd->ihd", weights, v), lse


def random(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def starts(lengths: list[int]) -> Tensor:
    return torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32)


@pytest.mark.parametrize("dtype", CLOSE, ids=str)
@pytest.mark.parametrize("heads", [(4, 2), (6, 1)], ids=str)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [(-1, -1), (3, -1), (3, 2), (0, 0), (500, 500)], ids=str)
@pytest.mark.parametrize(
    "lengths",
    [([7], [7]), ([3], [9]), ([9], [3]), ([1], [12]), ([5, 1, 8], [5, 6, 3]), ([300, 4], [300, 290])],
    ids=str,
)
def test_it_agrees_with_plain_products(
    dtype: torch.dtype,
    heads: tuple[int, int],
    causal: bool,
    window: tuple[int, int],
    lengths: tuple[list[int], list[int]],
) -> None:
    queries, keys = lengths
    q = random(sum(queries), heads[0], 16, dtype=dtype, seed=1)
    k, v = (random(sum(keys), heads[1], 16, dtype=dtype, seed=s) for s in (2, 3))
    out, lse, never = flash_attn_varlen_func(
        q,
        k,
        v,
        starts(queries),
        starts(keys),
        max(queries),
        max(keys),
        softmax_scale=0.3,
        causal=causal,
        window_size=window,
        return_attn_probs=True,
    )
    assert never is None
    assert (out.dtype, out.shape, out.is_contiguous()) == (dtype, q.shape, True)
    assert (lse.dtype, lse.shape) == (torch.float32, (heads[0], q.shape[0]))
    a = c = 0
    for tq, tk in zip(queries, keys, strict=True):
        allowed = allowed_pairs(tq, tk, causal, window)
        expected, sums = plain(q[a : a + tq], k[c : c + tk], v[c : c + tk], allowed, 0.3)
        torch.testing.assert_close(out[a : a + tq].double(), expected, atol=CLOSE[dtype][0], rtol=0)
        torch.testing.assert_close(lse[:, a : a + tq].double(), sums, atol=CLOSE[dtype][1], rtol=0)
        empty = ~allowed.any(1)
        assert bool((out[a : a + tq][empty] == 0).all())
        assert bool((lse[:, a : a + tq][:, empty] == -torch.inf).all())
        a, c = a + tq, c + tk


def seen_keys(q_len: int, k_len: int) -> list[str]:
    """Read the mask off the kernel itself: values are one-hot, so a key that is seen has weight above zero."""
    q, k = torch.zeros(q_len, 1, 8), torch.zeros(k_len, 1, 8)
    v = torch.eye(k_len, 8)[:, None]
    out = flash_attn_varlen_func(q, k, v, starts([q_len]), starts([k_len]), q_len, k_len, causal=True)
    return ["".join("1" if weight > 0 else "0" for weight in row[:k_len]) for row in out[:, 0].tolist()]


def test_causal_is_aligned_bottom_right() -> None:
    assert seen_keys(2, 5) == ["11110", "11111"]


def test_more_queries_than_keys_leaves_rows_without_a_key_and_these_are_zero() -> None:
    assert seen_keys(5, 2) == ["00", "00", "00", "10", "11"]


@pytest.mark.parametrize(("queries", "keys"), [([0, 3], [0, 3]), ([2, 3], [0, 3]), ([0], [4])], ids=str)
def test_sequences_without_queries_or_keys_are_done_and_not_handed_to_torch(
    queries: list[int], keys: list[int]
) -> None:
    q, k = random(sum(queries), 2, 8), random(sum(keys), 2, 8, seed=1)
    out = flash_attn_varlen_func(q, k, k, starts(queries), starts(keys), max(queries), max(keys), causal=True)
    assert out.shape == q.shape
    if keys[0] == 0:
        assert bool((out[: queries[0]] == 0).all())


def test_changing_a_token_moves_no_earlier_row() -> None:
    q, k, v = (random(40, 2, 16, seed=s) for s in range(3))
    run = lambda k, v: flash_attn_varlen_func(q, k, v, starts([40]), starts([40]), 40, 40, causal=True)  # noqa: E731
    other_k, other_v = k.clone(), v.clone()
    other_k[20], other_v[20] = 7.0, -7.0
    before, after = run(k, v), run(other_k, other_v)
    assert torch.equal(before[:20], after[:20])
    assert not torch.equal(before[20], after[20])


def test_the_default_scale_is_one_over_the_root_of_head_dim() -> None:
    q, k, v = (random(6, 2, 32, seed=s) for s in range(3))
    arguments = (q, k, v, starts([6]), starts([6]), 6, 6)
    told = flash_attn_varlen_func(*arguments, causal=True, softmax_scale=32**-0.5)
    assert torch.equal(flash_attn_varlen_func(*arguments, causal=True), told)


def test_one_sequence_dense_and_packed_give_the_same_bits() -> None:
    q, k, v = random(2, 9, 4, 16), random(2, 9, 2, 16, seed=1), random(2, 9, 2, 16, seed=2)
    dense, dense_lse, _ = flash_attn_func(q, k, v, causal=True, return_attn_probs=True)
    packed, packed_lse, _ = flash_attn_varlen_func(
        *(x.flatten(0, 1) for x in (q, k, v)), starts([9, 9]), starts([9, 9]), 9, 9, causal=True, return_attn_probs=True
    )
    assert torch.equal(dense.flatten(0, 1), packed)
    assert dense_lse.shape == (2, 4, 9)
    assert torch.equal(dense_lse[1], packed_lse[:, 9:])


def paged(x: Tensor, page: int, order: list[int]) -> Tensor:
    """Lay [T, K, D] out in pages, page n of the sequence at place order[n]; the rest is NaN, which nothing may read."""
    cache = torch.full((max(order) + 2, page, *x.shape[1:]), torch.nan)
    for n, place in enumerate(order):
        part = x[n * page : (n + 1) * page]
        cache[place, : part.shape[0]] = part
    return cache


def test_pages_are_read_in_the_order_of_the_block_table() -> None:
    q, k, v = random(3, 4, 16), random(10, 2, 16, seed=1), random(10, 2, 16, seed=2)
    order = [2, 0, 3]
    arguments = (starts([3]), starts([10]), 3, 10)
    table = torch.tensor([order], dtype=torch.int32)
    from_pages = flash_attn_varlen_func(
        q, paged(k, 4, order), paged(v, 4, order), *arguments, causal=True, block_table=table
    )
    assert torch.equal(from_pages, flash_attn_varlen_func(q, k, v, *arguments, causal=True))


def test_a_block_table_that_is_too_short_is_named() -> None:
    q, k = random(1, 2, 16), random(10, 2, 16, seed=1)
    table = torch.tensor([[0, 1]], dtype=torch.int32)
    with pytest.raises(InputError, match="10 cached tokens needs 3 pages of 4, but its row of block_table lists 2"):
        flash_attn_varlen_func(q, paged(k, 4, [0, 1, 2]), paged(k, 4, [0, 1, 2]), starts([1]), starts([10]), 1, 10,
                               block_table=table)  # fmt: skip


@pytest.mark.parametrize("pages", [None, [2, 0, 3]], ids=["dense cache", "paged cache"])
@pytest.mark.parametrize("given", ["already in the cache", "handed to the call"])
def test_decoding_over_a_cache_gives_the_last_row_of_the_prefill(pages: list[int] | None, given: str) -> None:
    q, k, v = random(10, 4, 16), random(10, 2, 16, seed=1), random(10, 2, 16, seed=2)
    whole, lse, _ = flash_attn_func(q[None], k[None], v[None], causal=True, return_attn_probs=True)
    new = given == "handed to the call"
    held = 9 if new else 10
    if pages is None:
        caches = [torch.full((1, 16, 2, 16), torch.nan) for _ in "kv"]
        for cache, x in zip(caches, (k, v), strict=True):
            cache[0, :held] = x[:held]
        table = None
    else:
        caches = [paged(x[:held], 4, pages) for x in (k, v)]
        table = torch.tensor([pages], dtype=torch.int32)
    out, sums = flash_attn_with_kvcache(
        q[None, 9:],
        *caches,
        *((k[None, 9:], v[None, 9:]) if new else (None, None)),
        cache_seqlens=torch.tensor([held], dtype=torch.int32),
        block_table=table,
        causal=True,
        return_softmax_lse=True,
    )
    torch.testing.assert_close(out[0, 0], whole[0, 9], atol=1e-6, rtol=0)
    torch.testing.assert_close(sums[0, :, 0], lse[0, :, 9], atol=1e-6, rtol=0)
    if new:  # the cache now holds the new key
        place = caches[0][0, 9] if pages is None else caches[0][pages[2], 1]
        assert torch.equal(place, k[9])


def test_a_full_cache_is_named() -> None:
    cache, new = torch.zeros(1, 4, 2, 16), torch.zeros(1, 1, 2, 16)
    with pytest.raises(InputError, match="room for 4 tokens; 1 new ones do not fit behind the 4"):
        flash_attn_with_kvcache(torch.zeros(1, 1, 2, 16), cache, cache.clone(), new, new, cache_seqlens=4)
    with pytest.raises(InputError, match="only one of k and v"):
        flash_attn_with_kvcache(torch.zeros(1, 1, 2, 16), cache, cache.clone(), new, cache_seqlens=3)


PAGED = {"k_cache": torch.zeros(3, 8, 2, 16), "v_cache": torch.zeros(3, 8, 2, 16)}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"cache_seqlens": 20}, r"from 0 to the 8 entries that a cache holds\. Found \[20, 20\]"),
        ({"cache_seqlens": -3}, r"Found \[-3, -3\]"),
        ({"cache_seqlens": torch.tensor([3])}, r"one length for each of the 2 sequences.*Found \[3\]"),
        ({"cache_seqlens": torch.tensor([3, 9])}, r"Found \[3, 9\]"),
        ({**PAGED, "block_table": torch.tensor([[0, -1], [1, 2]]), "cache_seqlens": 9}, r"lists pages \[0, -1\]"),
        ({**PAGED, "block_table": torch.tensor([[0, 3], [1, 2]]), "cache_seqlens": 9}, "has the pages 0 to 2"),
        ({**PAGED, "block_table": torch.tensor([[0, 1]])}, r"one row for each of the 2 sequences.*\(1, 2\)"),
        ({**PAGED}, "q holds 2 sequences, and k and v hold 3"),
        (
            {"k": torch.zeros(2, 1, 1, 16), "v": torch.zeros(2, 1, 1, 16)},
            r"shape \(2, 1, 2, 16\).*Found \(2, 1, 1, 16\)",
        ),
        ({"k": torch.zeros(1, 1, 2, 16), "v": torch.zeros(1, 1, 2, 16)}, r"Found \(1, 1, 2, 16\)"),
        ({"k": torch.zeros(2, 1, 2, 16).half(), "v": torch.zeros(2, 1, 2, 16).half()}, "float32, float16, float16"),
    ],
    ids=lambda given: given if isinstance(given, str) else ",".join(given),
)
def test_lengths_and_pages_that_the_caches_do_not_have_are_errors(change: dict[str, object], error: str) -> None:
    cache = torch.zeros(2, 8, 2, 16)
    right = {"q": torch.zeros(2, 1, 2, 16), "k_cache": cache, "v_cache": cache.clone(), "cache_seqlens": 7}
    flash_attn_with_kvcache(**right)
    with pytest.raises((InputError, Unsupported), match=error):
        flash_attn_with_kvcache(**(right | change))


def test_entries_of_a_block_table_behind_a_sequence_are_never_read() -> None:
    table = torch.tensor([[1, -1]])  # what is not in use is −1 upstream
    found = flash_attn_with_kvcache(torch.zeros(1, 1, 2, 16), **PAGED, cache_seqlens=8, block_table=table)
    assert found.shape == (1, 1, 2, 16)


def test_dense_batches_of_unlike_size_are_an_error() -> None:
    q = torch.zeros(2, 4, 2, 8)
    with pytest.raises(InputError, match="q holds 2 sequences, and k and v hold 1"):
        flash_attn_func(q, q[:1], q[:1])


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"dropout_p": 0.1}, "dropout_p = 0.1"),
        ({"softcap": 30.0}, "softcap = 30.0"),
        ({"alibi_slopes": torch.zeros(2)}, r"alibi_slopes = a tensor of shape \(2,\)"),
    ],
)
def test_what_it_cannot_do_is_refused_by_name(arguments: dict[str, object], named: str) -> None:
    q = random(4, 2, 8)
    with pytest.raises(Unsupported, match=f"does not do .* {named}"):
        flash_attn_varlen_func(q, q, q, starts([4]), starts([4]), 4, 4, **arguments)
    with pytest.raises(Unsupported, match=named):
        flash_attn_func(q[None], q[None], q[None], **arguments)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"cu_seqlens_q": torch.tensor([1, 4])}, "cu_seqlens_q must start at 0"),
        ({"cu_seqlens_k": torch.tensor([0, 3])}, r"end at the number of rows \(4\)"),
        ({"cu_seqlens_q": torch.tensor([0, 3, 2, 4])}, "never go down"),
        ({"max_seqlen_q": 3}, "a sequence of 4 tokens, but the call says that none is longer than 3"),
        ({"cu_seqlens_k": torch.tensor([0, 2, 4])}, "cu_seqlens_q describes 1 sequences and cu_seqlens_k 2"),
        ({"k": torch.zeros(4, 3, 8), "v": torch.zeros(4, 3, 8)}, "the key heads divide"),
        ({"v": torch.zeros(4, 2, 8).half()}, "Found float32, float32, float16"),
    ],
)
def test_calls_that_flash_attn_would_answer_wrongly_are_errors(change: dict[str, object], error: str) -> None:
    q = random(4, 2, 8)
    right = {"q": q, "k": q, "v": q, "cu_seqlens_q": starts([4]), "cu_seqlens_k": starts([4])}
    right |= {"max_seqlen_q": 4, "max_seqlen_k": 4}
    flash_attn_varlen_func(**right)
    with pytest.raises((InputError, Unsupported), match=error):
        flash_attn_varlen_func(**(right | change))


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (
            flash_attn_varlen_func,
            "q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p, softmax_scale, causal, "
            "window_size, softcap, alibi_slopes, deterministic, return_attn_probs, block_table",
        ),
        (
            flash_attn_func,
            "q, k, v, dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic, "
            "return_attn_probs",
        ),
        (
            flash_attn_with_kvcache,
            "q, k_cache, v_cache, k, v, rotary_cos, rotary_sin, cache_seqlens, cache_batch_idx, cache_leftpad, "
            "block_table, softmax_scale, causal, window_size, softcap, rotary_interleaved, alibi_slopes, num_splits, "
            "return_softmax_lse",
        ),
    ],
    ids=["varlen", "dense", "cache"],
)
def test_the_signatures_are_flash_attns_own(function: Callable[..., object], parameters: str) -> None:
    assert ", ".join(inspect.signature(function).parameters) == parameters
