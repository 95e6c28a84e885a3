"""What Qwen3's q/k norm and rotary embedding should give, in NumPy, from weights and config alone: in float64, or for
numbers that come as float32 in that.

Independent of torch and of the code that is judged. Must not know: what was measured, tolerances.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracer.arrays import Floats

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Rope:
    """Rotary embedding as a config asks for it: angle = position · ``frequencies`` [D/2], cos and sin × ``factor``."""

    frequencies: Floats
    factor: float
    theta: float
    kind: str


def rms_norm(x: NDArray[Any], weight: Floats | None, eps: float) -> NDArray[Any]:
    """Return x ⊙ weight / √(mean(x²) + eps) over the last axis (weight None: ones), in the dtype of x."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        square = np.vecdot(x, x)[..., None] / x.shape[-1]
        normed: NDArray[Any] = x / np.sqrt(square + eps)
        if weight is not None:
            normed *= weight.astype(x.dtype)
    return normed


def rope(parameters: Mapping[str, object], head_dim: int, max_positions: int, length: int) -> Rope | None:
    """Return the rotary embedding for ``parameters`` (rope_parameters of the config), or None for a kind without a
    reference here (longrope, and dynamic beyond the trained length).

    Sources: RoFormer, arXiv:2104.09864; YaRN, arXiv:2309.00071, equations 17 to 23; Llama 3.1's smoothing as published.
    """
    kind, theta = str(parameters.get("rope_type", "default")), _number(parameters, "rope_theta", 10000.0)
    plain = theta ** -(np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    if kind == "default" or (kind == "dynamic" and length <= max_positions):
        return Rope(plain, 1.0, theta, kind)
    factor = _number(parameters, "factor", 1.0)
    if kind == "linear":
        return Rope(plain / factor, 1.0, theta, kind)
    if kind == "yarn":
        return Rope(_yarn(parameters, plain, factor, theta, head_dim), _yarn_factor(parameters, factor), theta, kind)
    if kind == "llama3":
        return Rope(_llama3(parameters, plain, factor), 1.0, theta, kind)
    return None


def angles(rope: Rope, positions: Ints) -> Floats:
    """Return the angle of each pair, positions.shape + [D/2]."""
    turned: Floats = positions[..., None].astype(np.float64) * rope.frequencies
    return turned


def rotate(x: NDArray[Any], turned: Floats, factor: float) -> NDArray[Any]:
    """Return x [..., D] with each pair (i, i + D/2) turned by ``turned`` [..., D/2], times ``factor``, in x's dtype."""
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    cos, sin = ((factor * f(turned)).astype(x.dtype) for f in (np.cos, np.sin))
    turned_pairs: NDArray[Any] = x * np.concatenate([cos, cos], axis=-1)
    turned_pairs[..., :half] -= b * sin
    turned_pairs[..., half:] += a * sin
    return turned_pairs


def rotate_neighbours(x: Floats, turned: Floats, factor: float) -> Floats:
    """Return x [..., D] with each pair (2i, 2i + 1) turned instead: the other convention, wrong for Qwen3."""
    a, b = x[..., 0::2], x[..., 1::2]
    cos, sin = np.cos(turned), np.sin(turned)
    pairs = np.stack([a * cos - b * sin, b * cos + a * sin], axis=-1)
    turned_pairs: Floats = factor * pairs.reshape(x.shape)
    return turned_pairs


def mixed_neighbours(x: Floats, turned: Floats, factor: float) -> Floats:
    """Return what results when only rotate_half pairs neighbours while cos and sin are laid out in halves."""
    doubled = np.concatenate([turned, turned], axis=-1)
    other = np.stack([-x[..., 1::2], x[..., 0::2]], axis=-1).reshape(x.shape)
    mixed: Floats = factor * (x * np.cos(doubled) + other * np.sin(doubled))
    return mixed


def _yarn(parameters: Mapping[str, object], plain: Floats, factor: float, theta: float, head_dim: int) -> Floats:
    trained = _number(parameters, "original_max_position_embeddings", 1.0)

    def pair_of(turns: float) -> float:
        return head_dim * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low = pair_of(_number(parameters, "beta_fast", 32.0))
    high = pair_of(_number(parameters, "beta_slow", 1.0))
    if parameters.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    ramp = np.clip((np.arange(head_dim // 2) - low) / max(high - low, 0.001), 0.0, 1.0)
    mixed: Floats = (plain / factor) * ramp + plain * (1 - ramp)
    return mixed


def _yarn_factor(parameters: Mapping[str, object], factor: float) -> float:
    given = parameters.get("attention_factor")
    if isinstance(given, int | float):
        return float(given)

    def grown(by: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * by * math.log(factor) + 1.0

    one, every = parameters.get("mscale"), parameters.get("mscale_all_dim")
    if one and every:
        return grown(_number(parameters, "mscale", 1.0)) / grown(_number(parameters, "mscale_all_dim", 1.0))
    return grown(1.0)


def _llama3(parameters: Mapping[str, object], plain: Floats, factor: float) -> Floats:
    trained = _number(parameters, "original_max_position_embeddings", 8192.0)
    low, high = (_number(parameters, f"{end}_freq_factor", default) for end, default in (("low", 1.0), ("high", 4.0)))
    length = 2 * math.pi / plain
    smooth = np.clip((trained / length - low) / (high - low), 0.0, 1.0)
    mixed: Floats = (1 - smooth) * plain / factor + smooth * plain
    return mixed


def _number(parameters: Mapping[str, object], name: str, default: float) -> float:
    value = parameters.get(name)
    return float(value) if isinstance(value, int | float) else default
