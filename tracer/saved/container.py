"""The file a trace is kept in: a safetensors file, written and read without torch, bfloat16 included.

Format: 8 bytes little-endian header length, a JSON header, the tensors' bytes (https://huggingface.co/docs/safetensors).
Must not know: what a trace is.
"""

import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracer.arrays import HELD_AS, Array
from tracer.checkpoint.header import LONGEST_HEADER, TensorInfo, read_header
from tracer.checkpoint.wording import shown
from tracer.errors import InputError
from tracer.files import Buffer

_METADATA = "__metadata__"


def pieces(tensors: Mapping[str, Array], metadata: Mapping[str, str]) -> Iterator[Buffer]:
    """Yield the bytes of a safetensors file, tensors without a copy of their bits.

    Wide dtypes come first and the header is padded, so that every tensor lies at a multiple of its own item size.
    Raises InputError where the header would be longer than a reader accepts.
    """
    ordered = sorted(tensors.items(), key=lambda item: -HELD_AS[item[1].dtype].itemsize)
    header: dict[str, object] = {_METADATA: dict(metadata)}
    position = 0
    for name, array in ordered:
        end = position + array.bits.nbytes
        header[name] = {"dtype": array.dtype, "shape": list(array.shape), "data_offsets": [position, end]}
        position = end
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8")
    text += b" " * (-len(text) % 8)
    if len(text) > LONGEST_HEADER:
        raise InputError("saved.too_long", size=len(text), limit=LONGEST_HEADER)
    yield struct.pack("<Q", len(text)) + text
    for _, array in ordered:
        yield np.ascontiguousarray(array.bits).reshape(-1).view(np.uint8).data


def read(path: Path) -> tuple[object, dict[str, Array]]:
    """Return the metadata (unchecked) and the tensors of the safetensors file ``path``, mapped and not yet read.

    Raises InputError where it is not a whole safetensors file, or has a dtype no trace holds.
    """
    if not path.exists():
        raise InputError("saved.no_file", file=str(path))
    if not path.is_file():
        raise InputError("saved.not_a_file", file=str(path))
    header = read_header(path)
    try:
        mapped = np.asarray(np.memmap(path, dtype=np.uint8, mode="r"))
    except (OSError, ValueError) as fault:
        raise InputError("checkpoint.unreadable", file=str(path), fault=str(fault)) from None
    if mapped.size != header.size:  # it was replaced or cut between the two looks
        raise InputError("saved.changed", file=str(path))
    return header.metadata, {name: _array(info, mapped) for name, info in header.tensors.items()}


def _array(info: TensorInfo, mapped: NDArray[Any]) -> Array:
    if info.dtype not in HELD_AS:
        raise InputError(
            "saved.dtype", file=str(info.file), tensor=shown(info.name), found=info.dtype, known=", ".join(HELD_AS)
        )
    bits = mapped[info.offset : info.offset + info.nbytes].view(HELD_AS[info.dtype]).reshape(info.shape)
    return Array(info.dtype, bits)
