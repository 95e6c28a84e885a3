"""Modules and functions that went through torch.compile, and what they were before.

Must not know: what they are for.
"""

from typing import Any


def original(module: Any) -> Any:
    """Return the module that ``torch.compile`` wrapped; any other module as it is."""
    return getattr(module, "_orig_mod", module) if type(module).__name__ == "OptimizedModule" else module


def is_compiled(model: Any) -> bool:
    """Return whether the model, or a module in it, was given to the compiler."""
    return any(
        original(module) is not module
        or getattr(module, "_compiled_call_impl", None) is not None
        or is_wrapped(module.forward)
        for module in model.modules()
    )


def is_wrapped(function: Any) -> bool:
    """Return whether ``function`` came out of the compiler."""
    return hasattr(function, "_torchdynamo_orig_callable")
