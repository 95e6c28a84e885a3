"""A Qwen3 checkpoint's config.json, checked field by field and read the way transformers 5 reads it.

Nothing in the file is trusted. Must not know: transformers, weights, tokens.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tracer.checkpoint import rope, windows
from tracer.checkpoint.wording import shown
from tracer.errors import InputError, Unsupported
from tracer.texts import Message, message

MODEL_TYPE = "qwen3"
ACTIVATIONS = ("silu", "swish", "gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "quick_gelu", "relu")
DTYPES = ("float32", "float16", "bfloat16", "float64")


@dataclass(frozen=True)
class _Field:
    """A whole number of config.json: its bounds, and what transformers 5 takes where it is absent (None: required)."""

    name: str
    low: int
    high: int
    default: int | None = None


# Upper bounds are some ten times what any published model has: beyond them a file is damaged or hostile.
_FIELDS = (
    _Field("vocab_size", 1, 1 << 22),
    _Field("hidden_size", 1, 1 << 17),
    _Field("intermediate_size", 1, 1 << 19),
    _Field("num_hidden_layers", 1, 1024),
    _Field("num_attention_heads", 1, 2048),
    _Field("num_key_value_heads", 1, 2048, default=32),
    _Field("head_dim", 2, 2048, default=128),
    _Field("max_position_embeddings", 1, 1 << 28, default=32768),
)


@dataclass(frozen=True)
class Settings:
    """The values of config.json that shape the model. ``window`` is how many keys a sliding layer sees (itself too)."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    max_positions: int
    norm_eps: float
    tied: bool
    attention_bias: bool
    layer_types: tuple[str, ...]
    window: int | None
    rope: Mapping[str, object]
    dtype: str | None
    warnings: tuple[Message, ...]


def read_settings(config: Mapping[str, Any], file: Path) -> Settings:
    """Return the checked settings in ``config``, the content of ``file``.

    Raises Unsupported for a model other than Qwen3, InputError for whatever else is wrong; both name the field.
    """
    check_model_type(config, file)
    _refuse_quantised(config, file)
    warnings: list[Message] = []
    numbers = {field.name: _whole(config, field, file, warnings) for field in _FIELDS}
    heads, kv_heads = numbers["num_attention_heads"], numbers["num_key_value_heads"]
    if heads % kv_heads:
        raise InputError("checkpoint.config_groups", file=str(file), heads=heads, kv_heads=kv_heads)
    if numbers["head_dim"] % 2:
        raise InputError("checkpoint.config_odd_head_dim", file=str(file), found=numbers["head_dim"])
    _check_choices(config, file)
    _note_remote_code(config, file, warnings)
    layer_types, window, window_warnings = windows.read_windows(config, numbers["num_hidden_layers"], file)
    rope_parameters, rope_warnings = rope.read_rope(
        config, numbers["head_dim"], numbers["max_position_embeddings"], file
    )
    return Settings(
        vocab_size=numbers["vocab_size"],
        hidden_size=numbers["hidden_size"],
        intermediate_size=numbers["intermediate_size"],
        layers=numbers["num_hidden_layers"],
        heads=heads,
        kv_heads=kv_heads,
        head_dim=numbers["head_dim"],
        max_positions=numbers["max_position_embeddings"],
        norm_eps=_norm_eps(config, file, warnings),
        tied=_flag(config, "tie_word_embeddings", file),
        attention_bias=_flag(config, "attention_bias", file),
        layer_types=layer_types,
        window=window,
        rope=MappingProxyType(rope_parameters),
        dtype=_dtype(config, file),
        warnings=(*warnings, *window_warnings, *rope_warnings),
    )


def model_arguments(config: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """Return what to build transformers' Qwen3Config from: the checked fields alone, a new dictionary each time.

    The rest of the file is left behind on purpose. Qwen3Config takes any key as an attribute, and some of them change
    what runs: ``attn_implementation`` may even name a kernel to download.
    """
    return {
        "model_type": MODEL_TYPE,
        "vocab_size": settings.vocab_size,
        "hidden_size": settings.hidden_size,
        "intermediate_size": settings.intermediate_size,
        "num_hidden_layers": settings.layers,
        "num_attention_heads": settings.heads,
        "num_key_value_heads": settings.kv_heads,
        "head_dim": settings.head_dim,
        "hidden_act": config.get("hidden_act", "silu"),
        "max_position_embeddings": settings.max_positions,
        "rms_norm_eps": settings.norm_eps,
        "tie_word_embeddings": settings.tied,
        "attention_bias": settings.attention_bias,
        "attention_dropout": config.get("attention_dropout", 0.0),
        "use_sliding_window": settings.window is not None,
        "sliding_window": settings.window,
        "layer_types": list(settings.layer_types),
        "rope_parameters": copy.deepcopy(dict(settings.rope)),
        "dtype": settings.dtype,
    }


def check_model_type(config: Mapping[str, Any], file: Path) -> None:
    """Raise Unsupported where ``config`` is of another kind of model, InputError where it does not say which."""
    model_type = config.get("model_type")
    if model_type == MODEL_TYPE:
        return
    if isinstance(model_type, str) and model_type:
        raise Unsupported("checkpoint.other_model", file=str(file), found=shown(model_type))
    text_id = "checkpoint.no_model_type" if model_type is None else "checkpoint.bad_model_type"
    raise InputError(text_id, file=str(file), found=shown(model_type))


def _refuse_quantised(config: Mapping[str, Any], file: Path) -> None:
    for name in ("quantization_config", "compression_config"):
        found = config.get(name)
        if found is not None:
            method = found.get("quant_method", found) if isinstance(found, dict) else found
            raise InputError("checkpoint.quantised_config", file=str(file), field=name, found=shown(method))


def _whole(config: Mapping[str, Any], field: _Field, file: Path, warnings: list[Message]) -> int:
    if field.name not in config:
        if field.default is None:
            raise InputError("checkpoint.config_missing", file=str(file), field=field.name)
        warnings.append(message("checkpoint.config_default", file=str(file), field=field.name, value=field.default))
        return field.default
    value = config[field.name]
    if value is None and field.name == "num_key_value_heads":
        return int(config["num_attention_heads"])  # transformers reads null as: as many as query heads
    if type(value) is not int or not field.low <= value <= field.high:
        raise InputError(
            "checkpoint.config_whole",
            file=str(file),
            field=field.name,
            found=shown(value),
            low=field.low,
            high=field.high,
        )
    return value


def _norm_eps(config: Mapping[str, Any], file: Path, warnings: list[Message]) -> float:
    if "rms_norm_eps" not in config:
        warnings.append(message("checkpoint.config_default", file=str(file), field="rms_norm_eps", value=1e-6))
        return 1e-6
    value = config["rms_norm_eps"]
    if type(value) not in (int, float) or not 0 <= value < 1:
        raise InputError("checkpoint.config_eps", file=str(file), found=shown(value))
    return float(value)


def _flag(config: Mapping[str, Any], name: str, file: Path) -> bool:
    value = config.get(name, False)
    if not isinstance(value, bool):
        raise InputError("checkpoint.config_flag", file=str(file), field=name, found=shown(value))
    return value


def _check_choices(config: Mapping[str, Any], file: Path) -> None:
    activation = config.get("hidden_act", "silu")
    if activation not in ACTIVATIONS:
        _raise_choice(file, "hidden_act", activation, ACTIVATIONS)
    dropout = config.get("attention_dropout", 0.0)
    if type(dropout) not in (int, float) or not 0 <= dropout < 1:
        raise InputError("checkpoint.config_dropout", file=str(file), found=shown(dropout))


def _dtype(config: Mapping[str, Any], file: Path) -> str | None:
    """Return the dtype in either spelling of the field (``dtype``; before transformers 5 ``torch_dtype``)."""
    field = "dtype" if config.get("dtype") is not None else "torch_dtype"
    value = config.get(field)
    if value is None:
        return None
    name = value.removeprefix("torch.") if isinstance(value, str) else value
    if name not in DTYPES:
        _raise_choice(file, field, value, DTYPES)
    return str(name)


def _raise_choice(file: Path, field: str, found: object, known: tuple[str, ...]) -> None:
    raise InputError(
        "checkpoint.config_choice", file=str(file), field=field, found=shown(found), known=", ".join(known)
    )


def _note_remote_code(config: Mapping[str, Any], file: Path, warnings: list[Message]) -> None:
    if config.get("auto_map"):
        warnings.append(message("checkpoint.remote_code", file=str(file)))
