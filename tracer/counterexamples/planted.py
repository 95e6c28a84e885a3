"""A trace as it would be had its kernel computed one head with a fault: only what the kernel gave back is replaced.

What the kernel was *told* (scale, flag) stays as it was, so what notices the fault notices it by effect. Must not know:
wording.
"""

from dataclasses import replace

import numpy as np

from tracer.arrays import HELD_AS, Array, Floats
from tracer.counterexamples.faults import Attention, Inputs, Outcome
from tracer.records import Capture, LayerTrace


def rounded(values: Floats, dtype: str) -> Array:
    """Return ``values`` rounded to ``dtype`` (bfloat16: to nearest, ties to even; NaN stays NaN)."""
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype != "BF16":
            return Array(dtype, values.astype(HELD_AS[dtype]))
        narrow = np.ascontiguousarray(values, dtype="<f4")
        bits = narrow.view("<u4").astype(np.uint64)
        up = (bits + 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)
    return Array(dtype, np.where(np.isnan(narrow), 0x7FC0, up).astype("<u2"))


def planted(layer: LayerTrace, head: int, attention: Attention, given: Inputs) -> LayerTrace:
    """Return ``layer`` as if its kernel had computed query head ``head`` by ``attention`` from ``given``.

    Output, logsumexp, the kernel's own weights where it makes any, and what changing tokens moves are all computed
    anew; everything else is kept.
    """
    outcome = attention(given)
    kernel = layer.kernel
    output = _with_head(kernel.output, head, 1, outcome.output)
    lse = None if kernel.lse is None else _with_head(kernel.lse, head, 0, outcome.lse)
    captures = dict(layer.captures)
    if "kernel_weights" in captures:
        captures["kernel_weights"] = _weights(captures["kernel_weights"], head, outcome)
    changed = moved(attention, given, [token for token, _, _ in layer.effects.changed], kernel.output.dtype)
    return replace(
        layer,
        captures=captures,
        kernel=replace(kernel, output=output, lse=lse),
        effects=replace(layer.effects, changed=changed),
    )


def moved(
    attention: Attention, given: Inputs, tokens: list[int], dtype: str
) -> tuple[tuple[int, int | None, bool], ...]:
    """Return for each of ``tokens``: the first earlier row whose bits move when that token's q, k and v are negated, as
    they are when its hidden state is (None: no row), and whether its own row moves."""
    before = rounded(attention(given).output, dtype)
    found = []
    for token in tokens:
        q, k, v = given.q.copy(), given.k.copy(), given.v.copy()
        for x in (q, k, v):
            x[token] = -x[token]
        after = rounded(attention(replace(given, q=q, k=k, v=v)).output, dtype)
        rows = [row for row in range(token + 1) if not before[row].same_bits(after[row])]
        earlier = [row for row in rows if row < token]
        found.append((token, earlier[0] if earlier else None, token in rows))
    return tuple(found)


def _with_head(array: Array, head: int, axis: int, values: Floats) -> Array:
    bits = array.bits.copy()
    index: list[object] = [slice(None)] * bits.ndim
    index[axis] = head
    bits[tuple(index)] = rounded(values, array.dtype).bits  # type: ignore[index]
    return Array(array.dtype, bits)


def _weights(capture: Capture, head: int, outcome: Outcome) -> Capture:
    bits = capture.array.bits.copy()
    bits[0, head] = rounded(outcome.weights, capture.array.dtype).bits
    return replace(capture, array=Array(capture.array.dtype, bits))
