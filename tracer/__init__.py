"""tracer: run a model's real attention source, tie every number to the expression that made it, and prove it.

    import tracer
    trace = tracer.trace(layer=0, head=2)
    trace.checks, trace.layer.captures["q"].array.float64()
    tracer.assert_attention(model)  # any live Qwen3 model, in a test of your own

Importing this package imports nothing else: each name is looked up when it is first used.
"""

TYPE_CHECKING = False  # typing's own would be imported first, and with it a tenth of the standard library
if TYPE_CHECKING:
    from tracer.api import assert_attention, trace, verify
    from tracer.errors import InputError, TracerError, Unsupported

__all__ = ["InputError", "TracerError", "Unsupported", "assert_attention", "trace", "verify"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tracer import api, errors

    found = globals()[name] = getattr(api if hasattr(api, name) else errors, name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
