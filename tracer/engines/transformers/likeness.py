"""What a module runs, to tell which modules run the very same code on different weights.

Must not know: what is concluded from that.
"""

from collections.abc import Iterator, Mapping
from types import MethodType
from typing import Any

from tracer.engines.transformers.compiled import original

# Attributes that number a layer and do nothing else in transformers' code.
_NUMBERS = frozenset({"layer_idx"})
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def likeness(module: Any) -> tuple[object, ...]:
    """Return what ``module`` runs: equal for two modules where they and all their parts are of the same classes, run
    the same functions and hooks, and have the same attributes. Weights are left out, and the layer's own number.

    What cannot be compared by its value is compared by identity: two modules may count as different without being so,
    never as alike. Compare only while the modules live.
    """
    return tuple(found for name, part in module.named_modules() for found in _of(name, original(part)))


def _of(name: str, part: Any) -> Iterator[object]:
    yield name, type(part), _value(part.forward, part)
    for attribute, value in sorted(vars(part).items()):
        if attribute in ("_parameters", "_buffers"):
            yield tuple((key, *_shape(tensor)) for key, tensor in value.items())
        elif attribute != "_modules" and attribute not in _NUMBERS:
            yield attribute, _value(value, part)


def _shape(tensor: Any) -> tuple[object, ...]:
    return () if tensor is None else (type(tensor), tuple(tensor.shape), tensor.dtype, str(tensor.device))


def _value(value: Any, part: Any) -> object:
    """Return what an attribute of ``part`` is compared by: containers by what they hold, one level deep."""
    if isinstance(value, tuple | list | set | frozenset):
        return type(value), tuple(_single(item, part) for item in value)
    if isinstance(value, Mapping):  # a hook's key is its number in the process: it is the functions that count
        return type(value), tuple((key if isinstance(key, str) else None, _single(value[key], part)) for key in value)
    return _single(value, part)


def _single(value: Any, part: Any) -> object:
    if isinstance(value, _PLAIN):
        return type(value), value
    own = isinstance(value, MethodType) and value.__self__ is part
    return id(value.__func__ if own else value)
