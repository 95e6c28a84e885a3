"""From torch tensors to arrays without torch, bit for bit.

Must not know: what a tensor stands for.
"""

from typing import Any

import numpy as np

from tracer.arrays import Array
from tracer.errors import Unsupported

_NAMES = {
    "torch.float64": "F64",
    "torch.float32": "F32",
    "torch.float16": "F16",
    "torch.bfloat16": "BF16",
    "torch.int64": "I64",
    "torch.int32": "I32",
    "torch.bool": "BOOL",
}


def dtype_name(dtype: Any) -> str:
    """Return safetensors' name of a torch dtype; raises Unsupported for one no trace can hold."""
    name = _NAMES.get(str(dtype))
    if name is None:
        raise Unsupported("arrays.torch_dtype", dtype=str(dtype), known=", ".join(_NAMES))
    return name


def torch_dtype(name: str) -> Any:
    """Return the torch dtype that safetensors calls ``name``."""
    import torch

    return getattr(torch, next(long for long, short in _NAMES.items() if short == name).removeprefix("torch."))


def to_array(tensor: Any, *, owned: bool = False) -> Array:
    """Return the tensor's bits as an Array of the same shape, on the CPU: a copy, unless the tensor is ``owned`` by
    the caller, who will not write into it again."""
    import torch

    name = dtype_name(tensor.dtype)
    tensor = tensor.detach().cpu().contiguous()
    bits = tensor.view(torch.uint16).numpy() if name == "BF16" else tensor.numpy()
    return Array(name, bits if owned else np.array(bits, copy=True))


def to_tensor(array: Array) -> Any:
    """Return the array as a torch tensor of its own dtype and shape, on the CPU; a copy, so that it may be written."""
    import torch

    tensor = torch.from_numpy(np.array(array.bits, copy=True))
    return tensor.view(torch.bfloat16) if array.dtype == "BF16" else tensor
