"""Rotary position embedding's parameters, from either form that config.json may have them in.

Before transformers 5: ``rope_theta`` beside an optional ``rope_scaling``; since: one dictionary ``rope_parameters``.
Source: RotaryEmbeddingConfigMixin of transformers. Must not know: the rest of the config.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tracer.checkpoint.wording import shown
from tracer.errors import InputError, Unsupported
from tracer.texts import Message, message

DEFAULT_THETA = 10000.0  # what transformers 5 takes, in silence, where the config has none
TYPES = ("default", "linear", "dynamic", "yarn", "llama3", "longrope")
NESTED = ("full_attention", "sliding_attention")

_POSITIVE = (
    "rope_theta",
    "factor",
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "low_freq_factor",
    "high_freq_factor",
    "mscale",
    "mscale_all_dim",
)
_LISTS = ("short_factor", "long_factor")
_PRETRAINED = "original_max_position_embeddings"
_PARTIAL = "partial_rotary_factor"
_KNOWN = {"rope_type", *_POSITIVE, *_LISTS, _PRETRAINED, _PARTIAL, "truncate"}
_EXTENDING = ("yarn", "llama3", "longrope")  # these compare with the length the model was pretrained for
_REQUIRED = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor",),
    "yarn": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
    "longrope": ("short_factor", "long_factor"),
}


def read_rope(
    config: Mapping[str, Any], head_dim: int, max_positions: int, file: Path
) -> tuple[dict[str, object], tuple[Message, ...]]:
    """Return the parameters under transformers' names (``rope_theta``, ``rope_type``, ``factor`` …), and warnings.

    Raises InputError for a value that cannot be meant, Unsupported for a rope type that Qwen3's code does not take.
    """
    written = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if not isinstance(written, dict):
        raise InputError("checkpoint.rope_kind", file=str(file), found=shown(written))
    if any(key in written for key in NESTED):
        raise Unsupported("checkpoint.rope_nested", file=str(file))
    parameters = {key: value for key, value in written.items() if value is not None and key in _KNOWN}
    parameters["rope_type"] = written.get("rope_type", written.get("type", "default"))
    if config.get(_PARTIAL) is not None:
        parameters.setdefault(_PARTIAL, config[_PARTIAL])
    if parameters["rope_type"] in _EXTENDING:
        parameters.setdefault(_PRETRAINED, max_positions)
    outer = config.get("rope_theta")
    warnings: list[Message] = []
    if "rope_theta" not in parameters:
        if outer is None:
            warnings.append(message("checkpoint.rope_theta_default", file=str(file), value=DEFAULT_THETA))
        parameters["rope_theta"] = DEFAULT_THETA if outer is None else outer
    elif outer is not None and outer != parameters["rope_theta"]:
        used = parameters["rope_theta"]
        warnings.append(message("checkpoint.rope_theta_two", file=str(file), used=shown(used), other=shown(outer)))
    _check(parameters, head_dim, file)
    return parameters, tuple(warnings)


def _check(parameters: Mapping[str, Any], head_dim: int, file: Path) -> None:
    rope_type = parameters["rope_type"]
    if rope_type not in TYPES:
        raise Unsupported("checkpoint.rope_type", file=str(file), found=shown(rope_type), known=", ".join(TYPES))
    for name in _REQUIRED[rope_type]:
        if name not in parameters:
            raise InputError("checkpoint.rope_missing", file=str(file), field=name, type=rope_type)
    for name in _POSITIVE:
        if name in parameters and not _positive(parameters[name]):
            raise InputError("checkpoint.rope_number", file=str(file), field=name, found=shown(parameters[name]))
    for name in _LISTS:
        factors = parameters.get(name, [1.0] * (head_dim // 2))
        if not isinstance(factors, list) or len(factors) != head_dim // 2 or not all(map(_positive, factors)):
            raise InputError("checkpoint.rope_list", file=str(file), field=name, count=head_dim // 2)
    original = parameters.get(_PRETRAINED, 1)
    if type(original) is not int or not 1 <= original < 1 << 31:
        raise InputError("checkpoint.rope_number", file=str(file), field=_PRETRAINED, found=shown(original))
    if not isinstance(parameters.get("truncate", True), bool):
        raise InputError(
            "checkpoint.config_flag", file=str(file), field="truncate", found=shown(parameters["truncate"])
        )
    if parameters.get(_PARTIAL, 1) != 1:
        # Qwen3's own code rotates every dimension: it would ignore the factor for some types and fail for others.
        raise Unsupported("checkpoint.rope_partial", file=str(file), found=shown(parameters[_PARTIAL]))


def _positive(value: object) -> bool:
    # NaN and both infinities fail the comparison too.
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e300
