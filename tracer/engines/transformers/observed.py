"""What was seen of one call of a live attention module: plain records without torch, in one layout whatever ran.

Axis letters as in tracer.records; heads come before tokens ([B, H, T, D]) as at transformers' attention interface.
Must not know: how it was seen, what it should have been.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracer.arrays import Array, Floats

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Place:
    """An expression while it ran: its file, its function's qualified name, and where it stands (columns in UTF-8 bytes,
    as code objects have them), None where the code object does not say."""

    file: str
    function: str
    lines: tuple[int, int] | None
    bytes: tuple[int, int] | None


@dataclass(frozen=True, eq=False)
class ModuleCall:
    """One call of a part of the attention module (``q_proj``, ``q_norm`` …) and the expression that made it."""

    name: str
    given: Array
    gave: Array
    place: Place | None


@dataclass(frozen=True, eq=False)
class InterfaceCall:
    """The call of an attention function: query [B, H, Tq, D], key and value [B, K, Tk, D], output [B, Tq, H, D].

    ``mask`` is None or broadcasts to [B, 1, Tq, Tk]; ``weights`` [B, H, Tq, Tk] only where the function gave them.
    ``same_scale`` tells whether ``scaling`` was the module's own ``scaling`` object, ``same_mask`` whether ``mask`` was
    the very mask that the module was given; ``dropout`` is the argument and ``dropped`` the share that torch's dropout
    really took.
    """

    function: str
    code: Place
    place: Place | None
    query: Array
    key: Array
    value: Array
    mask: Array | None
    same_mask: bool
    scaling: float | None
    same_scale: bool
    dropout: float
    dropped: float
    sliding_window: int | None
    output: Array
    weights: Array | None


@dataclass(frozen=True, eq=False)
class KernelCall:
    """The call of the kernel under the attention function. ``lse`` [B, H, Tq] (natural log), NaN where no row went in.

    ``causal`` and ``window`` are None where this kernel has no such argument; ``mask`` says whether it was given one.
    """

    function: str
    place: Place | None
    scale: float | None
    causal: bool | None
    window: tuple[int, int] | None
    mask: bool
    dropout: float
    lse: Floats | None


@dataclass(frozen=True, eq=False)
class Parts:
    """The module's own parameters and attributes, as they stand. Weights that are not plain are left out."""

    weights: Mapping[str, Array]  # "q_proj", "q_norm" … [out, in] or [D]
    biases: Mapping[str, Array]
    attributes: Mapping[str, Any]  # scaling, is_causal, sliding_window, q_norm.eps, k_norm.eps, training …


@dataclass(frozen=True, eq=False)
class AttentionSeen:
    """One call of one layer's attention: hidden and output [B, T, C], cos and sin [B, T, D] as it received them."""

    layer: int
    hidden: Array
    output: Array
    cos: Array | None
    sin: Array | None
    positions: Ints | None  # [B, T], as the rotary embedding received them
    masked: bool  # whether the module was given a mask
    modules: tuple[ModuleCall, ...]
    interface: InterfaceCall | None
    kernel: KernelCall | None
    parts: Parts
    unread: tuple[str, str] | None = None  # the cache came by the first name, which its code has not; by another it has

    def call(self, name: str) -> ModuleCall | None:
        """Return the first call of the part ``name``, or None."""
        return next((call for call in self.modules if call.name == name), None)
