"""A trace whose numbers fit in one's head: two tokens, one head of two dimensions.

q = [1, 0] for both queries, k₀ = [1, 0], k₁ = [0, 1], v₀ = [1, 0], v₁ = [0, 2]. For the second query by hand: scores
1/√2 and 0, weights 0.6698 and 0.3302, output [0.6698, 0.6605].
"""

from dataclasses import replace

import numpy as np

from tests.invented_trace import array, invented
from tracer.records import LayerTrace
from tracer.result import Trace, look_at

Q = ((1.0, 0.0), (1.0, 0.0))
K = ((1.0, 0.0), (0.0, 1.0))
V = ((1.0, 0.0), (0.0, 2.0))


def lesson(q: object = Q, k: object = K, v: object = V) -> Trace:
    """Return the trace of one head with these numbers, [tokens, dimensions] each."""
    return look_at(layer(q, k, v), 0)


def layer(q: object = Q, k: object = K, v: object = V) -> LayerTrace:
    """Return a layer of one head with these numbers."""
    given = {name: np.asarray(values, dtype=np.float64)[:, None, :] for name, values in (("q", q), ("k", k), ("v", v))}
    count, _, width = given["q"].shape
    base = invented(count)
    model = replace(base.model, heads=1, kv_heads=1, head_dim=width)
    captures = {**base.captures}
    for name, values in given.items():
        captures[name] = replace(captures[name], array=array(values))
    shaped = replace(
        base,
        model=model,
        captures=captures,
        request=replace(base.request, head=0),
        scale=replace(base.scale, value=width**-0.5),
    )
    output = look_at(shaped_kernel(shaped, np.zeros_like(given["v"])), 0).reference.output[:, None, :]
    return shaped_kernel(shaped, output)


def shaped_kernel(base: LayerTrace, output: np.ndarray) -> LayerTrace:
    """Return ``base`` with a kernel that gave ``output`` [T, 1, D]."""
    count = output.shape[0]
    kernel = replace(base.kernel, output=array(output), lse=array(np.zeros((1, count))))
    effects = replace(base.effects, eager=array(output), eager_heads=(0,))
    return replace(base, kernel=kernel, effects=effects)
