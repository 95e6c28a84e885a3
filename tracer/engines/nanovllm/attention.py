"""The kernel call of nano-vllm as a record, in the layout of every engine: q [Tq, H, D], k and v [Tk, K, D].

Must not know: how the model is run, what is shown.
"""

from collections.abc import Sequence

from tracer.engines.transformers.attention import Attention, plain
from tracer.engines.transformers.lending import KernelSeen
from tracer.errors import Unsupported
from tracer.source.anchors import Table

_LETTERS = ("q", "k", "v")


def from_kernel(table: Table, calls: Sequence[tuple[str, KernelSeen]]) -> Attention:
    """Return the one kernel call that an asked layer made; ``calls`` come with the function's name.

    With a block table keys and values are the cached ones of the only sequence, in its order. Raises
    Unsupported unless there was exactly one call.
    """
    if len(calls) != 1:
        raise Unsupported("engine.kernel_calls", count=len(calls))
    ((function, seen),) = calls
    given = dict(seen.arguments)
    decode = function == "flash_attn_with_kvcache"
    q, k, v = (given.pop(name) for name in (("q", "k_cache", "v_cache") if decode else _LETTERS))
    output, lse = seen.output, seen.lse
    if decode:
        q, output, lse = q[0], output[0], lse[0]
    pages = given.get("block_table")  # FlashAttention 3 has no such argument here
    if pages is not None:
        length = int(given["cache_seqlens"][0]) if decode else int(given["cu_seqlens_k"][-1])
        k, v = (cache[pages[0].long()].flatten(0, 1)[:length] for cache in (k, v))
    way = "decode" if decode else "kernel"
    return Attention(
        function=function,
        q=q,
        k=k,
        v=v,
        output=output,
        lse=lse,
        scale=given["softmax_scale"],
        causal=given["causal"],
        arguments={name: plain(value) for name, value in given.items()},
        site=table.site(f"{way}.call"),
        sites={name: table.site(f"{way}.{name}") for name in _LETTERS},
    )
