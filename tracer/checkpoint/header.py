"""The header of one safetensors file, read and checked strictly before anything else touches the file.

Format: 8 bytes little-endian header length, a JSON object name → {dtype, shape, data_offsets}, then the tensors' bytes
without holes or overlaps (https://huggingface.co/docs/safetensors). Must not know: torch, what the tensors are for.
"""

import hashlib
import math
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from tracer.checkpoint import strictjson
from tracer.checkpoint.impostors import refuse_impostor
from tracer.checkpoint.wording import listed, shape_text, shown
from tracer.errors import InputError

# The format allows 100 MB. A header of 16 MB describes 100,000 tensors, where Qwen3-32B has 707; a hostile one of
# 100 MB would take gigabytes once parsed.
LONGEST_HEADER = 16 * strictjson.MEGABYTE
LARGEST_RANK = 8
LARGEST_DIMENSION = 1 << 48  # also keeps the product of a hostile shape a number of reasonable size

BITS = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("BOOL", "I8", "U8", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}


@dataclass(frozen=True)
class TensorInfo:
    """Where one tensor lies: ``name`` as this tool calls it, ``stored_name`` as the file does, ``offset`` in it."""

    name: str
    dtype: str  # as safetensors writes it: "F32", "BF16"
    shape: tuple[int, ...]
    file: Path
    offset: int
    nbytes: int
    stored_name: str


@dataclass(frozen=True)
class Header:
    """One file's tensors by stored name, its length in bytes, the sha256 of its header, and what else the header says
    (``metadata``, not checked: texts by name where the writer kept to the format)."""

    file: Path
    size: int
    sha256: str
    tensors: Mapping[str, TensorInfo]
    metadata: object = None


def read_header(path: Path) -> Header:
    """Return the checked header of the safetensors file ``path``; raises InputError that says what is wrong with it."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            start = file.read(512)
            length = _header_length(path, start, size)
            file.seek(8)
            text = file.read(length)
    except OSError as fault:
        raise InputError("checkpoint.unreadable", file=str(path), fault=fault.strerror or str(fault)) from None
    if len(text) < length:
        raise InputError("checkpoint.truncated", file=str(path), expected=8 + length, found=size)
    entries = strictjson.parse_object(text, path)
    metadata = entries.pop("__metadata__", None)
    tensors = {name: _tensor(path, name, entry, 8 + length) for name, entry in entries.items()}
    _check_layout(path, tensors.values(), 8 + length, size)
    return Header(path, size, hashlib.sha256(text).hexdigest(), tensors, metadata)


def _header_length(path: Path, start: bytes, size: int) -> int:
    refuse_impostor(start, path)
    if size < 8:
        raise InputError("checkpoint.truncated", file=str(path), expected=8, found=size)
    length = int(struct.unpack("<Q", start[:8])[0])
    if not 2 <= length <= LONGEST_HEADER:
        raise InputError("checkpoint.header_length", file=str(path), length=length, limit=LONGEST_HEADER)
    if 8 + length > size:
        raise InputError("checkpoint.truncated", file=str(path), expected=8 + length, found=size)
    return length


def _tensor(path: Path, name: str, entry: Any, data_start: int) -> TensorInfo:
    """Return the tensor that a header's entry describes; raises InputError where it is not what the format has."""

    def wrong(text_id: str, found: object) -> InputError:
        return InputError(text_id, file=str(path), tensor=shown(name), found=shown(found))

    if not isinstance(entry, dict):
        raise wrong("checkpoint.header_entry", entry)
    dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in BITS:
        raise wrong("checkpoint.header_dtype", dtype)
    if not _whole_numbers(shape, LARGEST_DIMENSION) or len(shape) > LARGEST_RANK:
        raise wrong("checkpoint.header_shape", shape)
    if not _whole_numbers(offsets, 1 << 63) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise wrong("checkpoint.header_offsets", offsets)
    begin, end = offsets
    if (end - begin) * 8 != math.prod(shape) * BITS[dtype]:
        raise InputError(
            "checkpoint.header_size",
            file=str(path),
            tensor=shown(name),
            shape=shape_text(shape),
            dtype=dtype,
            expected=math.prod(shape) * BITS[dtype] // 8,
            found=end - begin,
        )
    return TensorInfo(name, dtype, tuple(shape), path, data_start + begin, end - begin, name)


def _whole_numbers(value: Any, limit: int) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(number) is int and 0 <= number <= limit for number in value)


def _check_layout(path: Path, tensors: Any, data_start: int, size: int) -> None:
    """Raise InputError unless the tensors fill the rest of the file exactly, one after the other."""
    position, before = data_start, ""
    for tensor in sorted(tensors, key=lambda info: (info.offset, info.nbytes)):
        if tensor.offset != position:
            text_id = "checkpoint.header_overlap" if tensor.offset < position else "checkpoint.header_hole"
            raise InputError(text_id, file=str(path), tensor=shown(tensor.name), before=shown(before))
        position, before = position + tensor.nbytes, tensor.name
    if position > size:
        outside = [info.name for info in tensors if info.offset + info.nbytes > size]
        raise InputError(
            "checkpoint.truncated_tensors", file=str(path), expected=position, found=size, tensors=listed(outside)
        )
    if position < size:
        raise InputError("checkpoint.trailing", file=str(path), expected=position, found=size)
