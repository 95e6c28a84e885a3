"""The steps of a trace in the layout that every code base's are compared in. Must not know: engines, distances."""

from tracer.compare.records import Value
from tracer.order import in_order
from tracer.records import LayerTrace
from tracer.saved.axes import tokens_first

_PACKED = "qkv"  # one product's result, whose parts are steps of their own in every code base: q_proj, k_proj, v_proj


def values(trace: LayerTrace) -> dict[str, Value]:
    """Return every step of a trace in the common layout: [T, …] without a batch axis; lse stays [H, T]."""
    layer = trace.request.layer
    found = {
        name: Value(layer, name, tokens_first(capture.array, capture.axes, name), capture.site)
        for name, capture in trace.captures.items()
        if name != _PACKED
    }
    kernel = trace.kernel
    found["output"] = Value(layer, "output", kernel.output, kernel.site)
    if kernel.lse is not None:
        found["lse"] = Value(layer, "lse", kernel.lse, kernel.site)
    return {name: found[name] for name in in_order(found)}
