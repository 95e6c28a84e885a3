"""tracer: run a model's real attention source, tie every number to the expression that made it, and prove it.

    import tracer
    trace = tracer.trace(layer=0, head=2)
    trace.checks, trace.layer.captures["q"].array.float64()
    tracer.assert_attention(model)  # any live Qwen3 model, in a test of your own

Importing this package imports neither torch nor transformers.
"""

from tracer.api import assert_attention, trace, verify
from tracer.errors import InputError, TracerError, Unsupported

__all__ = ["InputError", "TracerError", "Unsupported", "assert_attention", "trace", "verify"]
