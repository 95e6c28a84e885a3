"""One head's reference, from a layer's trace.

What is right is taken from the model's configuration (head_dim, layer type, window), never from what the kernel was
told: a wrong scale or flag must show as a difference. Must not know: checks, wording.
"""

import numpy as np

from tracer.arrays import NARROW, Floats
from tracer.maths.attention import Head, head
from tracer.maths.visibility import Visibility
from tracer.records import LayerTrace


def reference(trace: LayerTrace, head_index: int) -> Head:
    """Return query head ``head_index`` in float64 from the captured q, k, v, scaled by head_dim**-0.5 and causal.

    A long prompt's 16-bit numbers may go through float32, checked against float64 on some rows (see Head.computed).
    """
    q, k, v = (trace.captures[name].array for name in ("q", "k", "v"))
    kv = trace.model.kv_head(head_index)
    return head(
        q[:, head_index].float64(),
        k[:, kv].float64(),
        v[:, kv].float64(),
        trace.model.head_dim**-0.5,
        visibility(trace),
        single=q.dtype in NARROW,
        around=_around(trace, head_index),
    )


def _around(trace: LayerTrace, head_index: int) -> Floats | None:
    """Return about where each row's logsumexp lies: where the kernel says it does. A wrong one costs time only."""
    if trace.kernel.lse is None:
        return None
    lse = trace.kernel.lse[head_index].float64()
    lse = np.where(np.isneginf(lse), 0.0, lse)  # of rows that see no key
    return lse if np.isfinite(lse).all() else None


def visibility(trace: LayerTrace) -> Visibility:
    """Return what each query of the layer may see: earlier keys of its own sequence, inside the window if there is one.

    The sequences are those of the kernel call (cu_seqlens) where several were packed, else all tokens are one.
    """
    tq, tk = trace.captures["q"].array.shape[0], trace.captures["k"].array.shape[0]
    starts_q, starts_k = (_starts(trace.kernel.arguments.get(f"cu_seqlens_{side}")) for side in "qk")
    packed = len(starts_q) > 2 and len(starts_q) == len(starts_k)
    return Visibility(
        tq,
        tk,
        causal=True,
        left=None if trace.model.window is None else trace.model.window - 1,
        starts_q=starts_q if packed else (),
        starts_k=starts_k if packed else (),
    )


def _starts(argument: object) -> tuple[int, ...]:
    return tuple(int(start) for start in argument) if isinstance(argument, list | tuple) else ()
