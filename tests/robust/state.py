"""All of a user's process that a trace or a verification touches or could touch, as values that can be compared.

Must not know: what was run between two looks.
"""

import gc
import logging
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import torch

# The modules whose code is run, and those whose tables and globals say what runs.
WATCHED = (
    "transformers.models.qwen3.modeling_qwen3",
    "transformers.modeling_flash_attention_utils",
    "transformers.integrations.flash_attention",
    "transformers.integrations.sdpa_attention",
    "transformers.masking_utils",
    "transformers.modeling_utils",
    "transformers.modeling_rope_utils",
    "torch.nn.functional",
    "torch.nn.modules.module",
    "torch.nn.init",
)


def look(model: Any = None) -> dict[str, Any]:
    """Return the state, by name; ``model`` is a live model whose modules, hooks and weights belong to it."""
    found: dict[str, Any] = {}
    for name in WATCHED:
        if name in sys.modules:
            for key, value in _module(sys.modules[name]):
                found[f"{name}.{key}"] = value
    found |= {f"torch: {name}": value for name, value in _torch().items()}
    found |= {f"python: {name}": value for name, value in _python().items()}
    if model is not None:
        found |= {f"model: {name}": value for name, value in _model(model)}
    return found


def differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return what is no longer as it was: name → before and after."""
    names = before.keys() | after.keys()
    pairs = {name: (before.get(name, "absent"), after.get(name, "absent")) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _module(module: ModuleType) -> Iterator[tuple[str, Any]]:
    for name, value in list(vars(module).items()):
        if name in ("__builtins__", "__warningregistry__"):
            continue
        yield name, _content(value)
        if isinstance(value, FunctionType):
            yield f"{name} code", _code(value)
        if isinstance(value, type) and value.__module__ == module.__name__:
            for attribute, member in list(vars(value).items()):
                if attribute.startswith("_abc_") or attribute == "__weakref__":
                    continue
                yield f"{name}.{attribute}", _content(member)
                if isinstance(member, FunctionType):
                    yield f"{name}.{attribute} code", _code(member)


def _content(value: Any) -> Any:
    """What is compared of a value: the object itself, and of a table what is in it."""
    if isinstance(value, dict):
        return id(value), [(id(key), id(item)) for key, item in value.items()]
    if isinstance(value, list | set | tuple):
        return id(value), [id(item) for item in value]
    return value if isinstance(value, int | float | str | bool | None) else id(value)


def _code(function: FunctionType) -> Any:
    """The code of a function and of all that it wraps."""
    codes = []
    inner: Any = function
    while isinstance(inner, FunctionType):
        codes += [id(inner.__code__), id(inner.__defaults__)]
        inner = getattr(inner, "__wrapped__", None)
    return tuple(codes)


def _torch() -> dict[str, Any]:
    return {
        "default dtype": torch.get_default_dtype(),
        "default device": str(torch.get_default_device()),
        "gradients": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "autocast": (
            torch.is_autocast_enabled("cpu"),
            torch.get_autocast_dtype("cpu"),
            torch.is_autocast_cache_enabled(),
        ),
        "random": torch.random.get_rng_state().tolist(),
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "precision": torch.get_float32_matmul_precision(),
        "compiler": torch.compile,
        "attention": (torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.math_sdp_enabled()),
        "modes": torch.overrides._len_torch_function_stack()
        if hasattr(torch.overrides, "_len_torch_function_stack")
        else 0,
        "global hooks": [
            len(getattr(torch.nn.modules.module, name))
            for name in ("_global_forward_hooks", "_global_forward_pre_hooks", "_global_backward_hooks")
        ],
    }


def _python() -> dict[str, Any]:
    loggers = [name for name in logging.Logger.manager.loggerDict if name.startswith(("transformers", "torch"))]
    return {
        "warnings": (list(warnings.filters), warnings.showwarning, warnings.warn),
        "logging": (logging.root.level, list(logging.root.handlers), logging.root.manager.disable, logging.lastResort),
        "loggers": [_logger(logging.getLogger(name)) for name in ("", "transformers", *sorted(loggers))],
        "streams": (sys.stdout, sys.stderr),
        "hooks": (sys.excepthook, threading.excepthook, sys.unraisablehook, sys.displayhook),
        "imports": (list(sys.meta_path), list(sys.path_hooks), list(sys.path)),
        "lent modules": sorted(name for name in sys.modules if name.split(".")[0] in ("nanovllm", "flash_attn")),
        "collector": (gc.isenabled(), gc.get_threshold()),
        "environment": dict(os.environ),
        "signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
        "random": random.getstate(),
        "numpy random": [str(part) for part in np.random.get_state()],
        "numpy errors": np.geterr(),
        "recursion": sys.getrecursionlimit(),
        "folder": os.getcwd(),
        "threads": threading.active_count(),
    }


def _logger(logger: logging.Logger) -> Any:
    return logger.name, logger.level, logger.disabled, logger.propagate, list(logger.handlers), list(logger.filters)


def _model(model: Any) -> Iterator[tuple[str, Any]]:
    for name, module in model.named_modules():
        for table in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_forward_hooks_with_kwargs"):
            yield f"{name} {table}", list(getattr(module, table))
        yield f"{name} itself", (id(type(module)), module.training, sorted(key for key in vars(module)))
        yield f"{name} forward", vars(module).get("forward")
    for name, parameter in model.named_parameters():
        values = None if parameter.is_meta else parameter.detach().double().sum().item()
        yield (
            name,
            (id(parameter), parameter.dtype, str(parameter.device), parameter.requires_grad, parameter.grad, values),
        )
    yield "config", str(model.config)
