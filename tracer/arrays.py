"""Array: a tensor's exact bits held in NumPy, whatever its dtype, so that nothing after the run needs torch.

NumPy has no bfloat16: such tensors are held as uint16 bit patterns and widened on request, which loses nothing.
Must not know: torch, files.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracer.errors import InputError

Floats = NDArray[np.float64]

# safetensors' dtype names → how the bits are held here
HELD_AS: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "BOOL": np.dtype("?"),
}
NARROW = ("F16", "BF16")  # 11 bits of precision or fewer: beside their rounding, what float32 computes is exact
# The distance from 1 to the next number, for each dtype a model may run in.
SPACING = {"F64": 2.0**-52, "F32": 2.0**-23, "F16": 2.0**-10, "BF16": 2.0**-7}


@dataclass(frozen=True, eq=False)
class Array:
    """A tensor's bits and dtype. ``bits`` has the tensor's shape and the NumPy dtype that HELD_AS gives."""

    dtype: str
    bits: NDArray[Any]

    def __post_init__(self) -> None:
        if self.dtype not in HELD_AS or self.bits.dtype != HELD_AS[self.dtype]:
            raise InputError("arrays.dtype", dtype=self.dtype, held=str(self.bits.dtype), known=", ".join(HELD_AS))
        self.bits.setflags(write=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """The tensor's shape."""
        return self.bits.shape

    def numbers(self) -> NDArray[Any]:
        """Return the values in the narrowest NumPy dtype that holds them exactly (float32 for bfloat16)."""
        if self.dtype == "BF16":
            return (self.bits.astype("<u4") << 16).view("<f4")
        return self.bits

    def float64(self) -> Floats:
        """Return the values as float64, same shape."""
        return self.numbers().astype(np.float64)

    def float32(self) -> NDArray[np.float32]:
        """Return the values as float32, same shape: exactly, where the dtype has 16 bits."""
        return self.numbers().astype(np.float32, copy=False)

    def nonfinite(self) -> int:
        """Return how many of the values are NaN or infinite."""
        if self.dtype == "BF16":  # an exponent of ones, told from the bits
            return int(np.count_nonzero((self.bits & 0x7FFF) >= 0x7F80))
        return int(np.count_nonzero(~np.isfinite(self.bits)))

    def __getitem__(self, index: Any) -> "Array":
        """Return the part of this tensor that ``index`` (as NumPy has it) selects."""
        cut = self.bits[index]
        return Array(self.dtype, np.ascontiguousarray(cut).reshape(cut.shape))

    def same_bits(self, other: "Array") -> bool:
        """Return whether both hold the same dtype, shape and bits (NaN equals the same NaN; 0.0 differs from -0.0)."""
        return self.dtype == other.dtype and self.shape == other.shape and equal_bits(self.bits, other.bits)


def equal_bits(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Return whether two arrays of one dtype have the same shape and bits: NaN equals the same NaN."""
    first, second = (np.ascontiguousarray(x).view(f"u{a.itemsize}") for x in (a, b))
    return np.array_equal(first, second)


def taken(vectors: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    """Return these rows, as they are where they follow one another: of a long prompt that is much to copy."""
    if rows.size and (np.diff(rows) == 1).all():
        return vectors[rows[0] : rows[-1] + 1]
    return vectors[rows]
