"""Which layers slide and how far they see: transformers 5's rule for Qwen3, and a warning where it surprises.

Source: Qwen3Config.__post_init__ and Qwen3Attention.__init__. Must not know: the rest of the config.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tracer.checkpoint.wording import shown
from tracer.errors import InputError
from tracer.texts import Message, message

FULL, SLIDING = "full_attention", "sliding_attention"
DEFAULT_WINDOW = 4096
DEFAULT_FIRST_SLIDING_LAYER = 28
LARGEST_WINDOW = 1 << 28


def read_windows(
    config: Mapping[str, Any], layers: int, file: Path
) -> tuple[tuple[str, ...], int | None, tuple[Message, ...]]:
    """Return each layer's type, the window of the sliding ones (None: no layer may slide), and warnings.

    A window set without ``use_sliding_window``, or with a ``max_window_layers`` that no layer reaches, has no effect;
    the reader who set it is told. Raises InputError for values of the wrong kind.
    """
    use = config.get("use_sliding_window", False)
    if not isinstance(use, bool):
        raise InputError("checkpoint.config_flag", file=str(file), field="use_sliding_window", found=shown(use))
    written = _number(config, "sliding_window", DEFAULT_WINDOW, 1, file)
    first = _number(config, "max_window_layers", DEFAULT_FIRST_SLIDING_LAYER, 0, file)
    window = written if use else None
    types = config.get("layer_types")
    if types is None:
        # max_window_layers counts the *full* layers at the bottom, whatever its name suggests.
        slides = [window is not None and first is not None and layer >= first for layer in range(layers)]
        types = [SLIDING if slide else FULL for slide in slides]
    else:
        _check_types(types, layers, window, file)
    if SLIDING in types:
        return tuple(types), window, ()
    return tuple(types), window, _unused(config, window, first, layers, file)


def _number(config: Mapping[str, Any], field: str, default: int, low: int, file: Path) -> int | None:
    value = config.get(field, default)
    if value is None and field == "sliding_window":
        return None
    if type(value) is not int or not low <= value <= LARGEST_WINDOW:
        raise InputError(
            "checkpoint.config_whole", file=str(file), field=field, found=shown(value), low=low, high=LARGEST_WINDOW
        )
    return value


def _check_types(types: Any, layers: int, window: int | None, file: Path) -> None:
    if not isinstance(types, list) or len(types) != layers:
        raise InputError("checkpoint.config_layer_count", file=str(file), found=shown(types), layers=layers)
    for layer, layer_type in enumerate(types):
        if layer_type not in (FULL, SLIDING):
            raise InputError("checkpoint.config_layer_type", file=str(file), layer=layer, found=shown(layer_type))
    if SLIDING in types and window is None:
        raise InputError("checkpoint.config_no_window", file=str(file), layer=types.index(SLIDING))


def _unused(
    config: Mapping[str, Any], window: int | None, first: int | None, layers: int, file: Path
) -> tuple[Message, ...]:
    if window is None:
        written = config.get("sliding_window")
        if written is None:
            return ()
        return (message("checkpoint.window_off", file=str(file), window=written),)
    if config.get("layer_types") is not None:
        return (message("checkpoint.window_all_full", file=str(file), window=window),)
    return (message("checkpoint.window_unreached", file=str(file), window=window, first=first, layers=layers),)
