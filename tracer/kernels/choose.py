"""Choose the kernel that computes attention, and with it the device, and say why.

Must not know: models, tracing. torch and flash-attn are imported only when a choice needs them.
"""

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from tracer.errors import InputError, Unsupported
from tracer.texts import Message, message

KERNELS = ("auto", "flash-attn", "cpu-flash", "sdpa", "eager")
# Before 2.1 flash-attn aligned causal masks to the top left; from 2.1 on to the bottom right.
OLDEST_FLASH_ATTN = (2, 1)
_LARGEST_HEAD_DIM = 256
_OLDEST_CAPABILITY = (8, 0)
_FLASH_DTYPES = ("float16", "bfloat16")
_DEVICES = ("auto", "cpu", "cuda", "mps", "xpu")

Function = Callable[..., Any]


@dataclass(frozen=True)
class ChosenKernel:
    """The kernel a run will use. The functions have flash-attn's signatures; sdpa and eager have none.

    ``reason`` says why this kernel, ``device_reason`` why this device.
    """

    kind: str  # flash-attn | cpu-flash | sdpa | eager
    varlen: Function | None
    dense: Function | None
    with_kvcache: Function | None
    provider: str  # "flash-attn 2.8.3", "torch 2.13.0"
    device: str  # cpu, cuda, cuda:0 …
    reason: Message
    device_reason: Message
    attn_implementation: str  # transformers' name for the path that calls it


class Probes:
    """What this machine has. Tests pass their own in place of asking torch and importing flash-attn."""

    def torch_version(self) -> str:
        """Return torch's version."""
        import torch

        return str(torch.__version__)

    def cuda(self) -> bool:
        """Return whether torch finds a CUDA device."""
        import torch

        return torch.cuda.is_available()

    def capability(self, device: str) -> tuple[int, int]:
        """Return the compute capability of a CUDA device."""
        import torch

        return torch.cuda.get_device_capability(device)

    def flash_attn(self) -> ModuleType:
        """Return the module flash_attn; raises ImportError or OSError where it is absent or built for another torch."""
        return importlib.import_module("flash_attn")


def choose(
    asked: str, *, device: str = "auto", dtype: str, head_dim: int, probes: Probes | None = None
) -> ChosenKernel:
    """Return the kernel for ``asked`` (one of KERNELS) and the device that the whole run goes to.

    ``dtype`` is torch's name (float32, bfloat16, float16). ``auto`` takes flash-attn on CUDA where it is importable,
    2.1 or later, and takes this dtype and head_dim; otherwise the CPU flash kernel, and the whole run goes to the CPU.
    Raises InputError for an unknown kernel or device, Unsupported where what was asked for cannot be had.
    """
    probes = probes or Probes()
    if asked not in KERNELS:
        raise InputError("kernels.unknown_kernel", found=asked, known=", ".join(KERNELS))
    if device.partition(":")[0] not in _DEVICES:
        raise InputError("kernels.unknown_device", found=device)
    if _is_cuda(device) and not probes.cuda():
        raise Unsupported("kernels.no_cuda", device=device, torch=probes.torch_version())
    if asked in ("sdpa", "eager"):
        return _torch_path(asked, device, probes)
    if asked == "cpu-flash":
        if device not in ("auto", "cpu"):
            raise Unsupported("kernels.cpu_flash_device", device=device)
        return _cpu_flash(message("kernels.asked", kernel=asked), device, probes)
    refusal = _why_not_flash_attn(device, dtype, head_dim, probes)
    if refusal is None:
        return _flash_attn(asked, device, dtype, head_dim, probes)
    if asked == "flash-attn":
        raise Unsupported("kernels.impossible", why=refusal)
    return _cpu_flash(message("kernels.cpu_instead", why=refusal), device, probes)


def _why_not_flash_attn(device: str, dtype: str, head_dim: int, probes: Probes) -> Message | None:
    """Return the first reason against flash-attn, cheapest question first, or None."""
    if device == "cpu":
        return message("kernels.why_cpu_asked")
    if device != "auto" and not _is_cuda(device):
        return message("kernels.why_device", device=device)
    if not probes.cuda():
        return message("kernels.why_no_cuda")
    if dtype not in _FLASH_DTYPES:
        return message("kernels.why_dtype", dtype=dtype)
    if head_dim > _LARGEST_HEAD_DIM or head_dim % 8:
        return message("kernels.why_head_dim", head_dim=head_dim)
    cuda = "cuda" if device == "auto" else device
    capability = probes.capability(cuda)
    if capability < _OLDEST_CAPABILITY:
        return message("kernels.why_capability", device=cuda, capability=".".join(map(str, capability)))
    try:
        module = probes.flash_attn()
    except (ImportError, OSError) as error:
        return message("kernels.why_not_importable", error=str(error).splitlines()[0] if str(error) else repr(error))
    if _version(module.__version__) < OLDEST_FLASH_ATTN:
        return message("kernels.why_old", version=module.__version__)
    return None


def _flash_attn(asked: str, asked_device: str, dtype: str, head_dim: int, probes: Probes) -> ChosenKernel:
    module = probes.flash_attn()
    device = "cuda" if asked_device == "auto" else asked_device
    provider = f"flash-attn {module.__version__}"
    reason = (
        message("kernels.flash_attn", version=provider, dtype=dtype, head_dim=head_dim, device=device)
        if asked == "auto"
        else message("kernels.asked", kernel=asked)
    )
    return ChosenKernel(
        kind="flash-attn",
        varlen=module.flash_attn_varlen_func,
        dense=module.flash_attn_func,
        with_kvcache=module.flash_attn_with_kvcache,
        provider=provider,
        device=device,
        reason=reason,
        device_reason=_why_device(asked_device, message("kernels.device_of_flash_attn")),
        attn_implementation="flash_attention_2",
    )


def _cpu_flash(reason: Message, asked_device: str, probes: Probes) -> ChosenKernel:
    from tracer.kernels import cpu_flash

    own = message("kernels.device_of_cpu_flash")  # also where another device was asked for, and cannot be had
    return ChosenKernel(
        kind="cpu-flash",
        varlen=cpu_flash.flash_attn_varlen_func,
        dense=cpu_flash.flash_attn_func,
        with_kvcache=cpu_flash.flash_attn_with_kvcache,
        provider=f"torch {probes.torch_version()}",
        device="cpu",
        reason=reason,
        device_reason=_why_device(asked_device, own) if asked_device == "cpu" else own,
        attn_implementation="flash_attention_2",
    )


def _torch_path(asked: str, device: str, probes: Probes) -> ChosenKernel:
    found = "cuda" if probes.cuda() else "cpu"
    return ChosenKernel(
        kind=asked,
        varlen=None,
        dense=None,
        with_kvcache=None,
        provider=f"torch {probes.torch_version()}",
        device=found if device == "auto" else device,
        reason=message("kernels.asked", kernel=asked),
        device_reason=_why_device(device, message(f"kernels.device_{found}")),
        attn_implementation=asked,
    )


def _why_device(asked: str, otherwise: Message) -> Message:
    return otherwise if asked == "auto" else message("kernels.asked_device", device=asked)


def _is_cuda(device: str) -> bool:
    return device.partition(":")[0] == "cuda"


def _version(text: str) -> tuple[int, int]:
    """Return major and minor of a version such as ``2.8.3.post1``; (0, 0) for a text that is no version."""
    found = re.match(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)
