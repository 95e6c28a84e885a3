"""A trace as it would be had its kernel computed one head with a fault: only what the kernel gave back is replaced.

What the kernel was *told* (scale, flag) stays as it was, so what notices the fault notices it by effect. The weights of
the fault are laid before the checks too, where a flash kernel hands none out: what they measure is then what is shown.
Must not know: wording.
"""

from dataclasses import replace

import numpy as np

from tracer.arrays import HELD_AS, Array, Floats
from tracer.counterexamples.faults import Attention, Inputs, Outcome
from tracer.records import Capture, LayerTrace

WEIGHTS = "kernel_weights"


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

    Output, logsumexp, weights, and what changing tokens moves are all computed anew; everything else is kept.
    """
    outcome = attention(given)
    kernel, effects = layer.kernel, layer.effects
    output = _with_head(kernel.output, head, 1, outcome.output)
    lse = None if kernel.lse is None else _with_head(kernel.lse, head, 0, outcome.lse)
    changed = moved(attention, given, [token for token, _, _ in effects.changed], kernel.output.dtype)
    return replace(
        layer,
        captures={**layer.captures, WEIGHTS: _weights(layer, head, outcome)},
        kernel=replace(kernel, output=output, lse=lse),
        effects=replace(effects, changed=changed),
    )


def with_eager(layer: LayerTrace, head: int, given: Inputs) -> LayerTrace:
    """Return ``layer`` with what plain matrix products in its dtype give for query head ``head`` of ``given``.

    Needed wherever ``given`` is not what ran: the tolerance of the output is twice the error of that very path.
    """
    effects = layer.effects
    if head not in effects.eager_heads:
        return layer
    place = effects.eager_heads.index(head)
    return replace(
        layer, effects=replace(effects, eager=_with_head(effects.eager, place, 1, eager(given, effects.eager.dtype)))
    )


def eager(given: Inputs, dtype: str) -> Floats:
    """Return plain attention [Tq, Dv] with every step rounded to ``dtype`` as the eager path rounds it: the products,
    the scaled scores, the weights (softmax in float32 at least), the output. A row without keys is zero."""
    visible = given.visibility.rows(0, given.visibility.tq)
    dots = rounded(_product(given.q, given.k.T, dtype), dtype).float64()
    scores = rounded(dots * given.scale, dtype).float64()
    wide = np.dtype(np.float64 if dtype == "F64" else np.float32)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        masked = np.where(visible, scores, -np.inf).astype(wide)
        shares = np.exp(masked - masked.max(axis=1, keepdims=True))
        weights = shares / shares.sum(axis=1, keepdims=True)
    held = rounded(np.where(visible, weights, 0.0).astype(np.float64), dtype).float64()
    return rounded(_product(held, given.v, dtype), dtype).float64()


def _product(a: Floats, b: Floats, dtype: str) -> Floats:
    """Return a·b as matrix products in ``dtype`` add it up: in float32 at least."""
    wide = np.dtype(np.float64 if dtype == "F64" else np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        product: Floats = (a.astype(wide) @ b.astype(wide)).astype(np.float64)
    return product


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


def _weights(layer: LayerTrace, head: int, outcome: Outcome) -> Capture:
    """Return the weights [1, H, Tq, Tk] with those of ``head`` replaced: the kernel's own, or, where it hands none out,
    float32 ones: one of the faults is computed in no finer numbers."""
    capture = layer.captures.get(WEIGHTS)
    if capture is None:
        values = np.zeros((1, layer.model.heads, *outcome.weights.shape))
        values[0, head] = outcome.weights
        return Capture(WEIGHTS, "A", ("B", "H", "Tq", "Tk"), rounded(values, "F32"), layer.kernel.site, "A")
    bits = capture.array.bits.copy()
    bits[0, head] = rounded(outcome.weights, capture.array.dtype).bits
    return replace(capture, array=Array(capture.array.dtype, bits))
