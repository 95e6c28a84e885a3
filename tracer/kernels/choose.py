"""Choose the kernel that computes attention, and with it the device, and say why.

Must not know: models, tracing. torch and flash-attn are imported only when a choice needs them.
"""

import importlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType, ModuleType

from tracer.errors import InputError, Unsupported
from tracer.kernels.adapter import Adapted, Function
from tracer.kernels.interfaces import CPU_FLASH, DTYPES, INTERFACES, TWO, Interface, of
from tracer.texts import Message, message

KERNELS = ("auto", *(each.kind for each in INTERFACES), CPU_FLASH, "sdpa", "eager")
_DEVICES = ("auto", "cpu", "cuda", "mps", "xpu")
_FUNCTIONS = {"varlen": "flash_attn_varlen_func", "dense": "flash_attn_func", "with_kvcache": "flash_attn_with_kvcache"}


@dataclass(frozen=True)
class ChosenKernel:
    """The kernel a run will use. The functions are called like flash-attn 2's; sdpa and eager have none, and not every
    version has ``with_kvcache``.

    ``reason`` says why this kernel, ``device_reason`` why this device.
    """

    kind: str  # flash-attn | flash-attn-3 | flash-attn-4 | cpu-flash | sdpa | eager
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

    def devices(self) -> int:
        """Return how many CUDA devices torch finds."""
        import torch

        return torch.cuda.device_count()

    def capability(self, device: str) -> tuple[int, int]:
        """Return the compute capability of a CUDA device."""
        import torch

        return torch.cuda.get_device_capability(device)

    def recorded(self, package: str) -> str | None:
        """Return the version of an installed package by its record; None where there is none."""
        from importlib import metadata  # only on CUDA is it asked for

        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            return None

    def module(self, name: str) -> ModuleType:
        """Return a module of flash-attn's; raises what its import raises: ImportError where it is absent, others where
        it was built for another torch or driver."""
        return importlib.import_module(name)


@dataclass(frozen=True)
class _Found:
    """A version of flash-attn that can be used here, its functions adapted."""

    interface: Interface
    provider: str
    functions: dict[str, Adapted]  # by field of ChosenKernel


@dataclass(frozen=True)
class _Refused:
    """Why a version cannot be used here; ``absent``: because it is not there at all."""

    why: Message
    absent: bool = False


def choose(
    asked: str,
    *,
    device: str = "auto",
    dtype: str,
    head_dim: int,
    calls: Mapping[str, Sequence[str]] = MappingProxyType({}),
    probes: Probes | None = None,
) -> ChosenKernel:
    """Return the kernel for ``asked`` (one of KERNELS) and the device that the whole run goes to.

    ``dtype`` is torch's name (float32, bfloat16, float16). ``auto`` takes the first of flash-attn 2, 3 and 4 that is
    there, runs on the CUDA device and takes this dtype and head_dim; otherwise the CPU flash kernel, and the whole run
    goes to the CPU. ``calls`` are the functions (fields of ChosenKernel) that the code to be run calls beside those
    every version has, with arguments that it needs of them: ``auto`` passes over versions without. Raises
    InputError for an unknown kernel or device, Unsupported where what was asked for cannot be had.
    """
    probes = probes or Probes()
    if asked not in KERNELS:
        raise InputError("kernels.unknown_kernel", found=asked, known=", ".join(KERNELS))
    if device.partition(":")[0] not in _DEVICES:
        raise InputError("kernels.unknown_device", found=device)
    if _is_cuda(device) and not probes.cuda():
        raise Unsupported("kernels.no_cuda", device=device, torch=probes.torch_version())
    _check_number(device, probes)
    if asked in ("sdpa", "eager"):
        return _torch_path(asked, device, probes)
    if asked == CPU_FLASH:
        if device not in ("auto", "cpu"):
            raise Unsupported("kernels.cpu_flash_device", device=device)
        return _cpu_flash(message("kernels.asked", kernel=asked), device, probes)
    interface = of(asked)
    refusal = _why_not_cuda(device, dtype, interface or TWO, probes)
    wanted = _Wanted(device, dtype, head_dim, calls)
    if interface is None:
        return _auto(wanted, refusal, probes)
    found = _Refused(refusal) if refusal else _find(interface, wanted, probes)
    if isinstance(found, _Refused):
        raise Unsupported("kernels.impossible", kernel=asked, why=found.why)
    return _flash_attn(found, wanted, message("kernels.asked", kernel=asked))


@dataclass(frozen=True)
class _Wanted:
    """The device, dtype and head_dim of a run; ``device`` as asked for, ``calls`` as choose has it."""

    asked_device: str
    dtype: str
    head_dim: int
    calls: Mapping[str, Sequence[str]]

    @property
    def device(self) -> str:
        """The CUDA device meant."""
        return "cuda" if self.asked_device == "auto" else self.asked_device


def _auto(wanted: _Wanted, refusal: Message | None, probes: Probes) -> ChosenKernel:
    """Return the first version of flash-attn that can be used, and why; else the CPU's kernel, and why none can."""
    if refusal is not None:
        return _cpu_flash(message("kernels.cpu_instead", why=refusal), wanted.asked_device, probes)
    refused: list[_Refused] = []
    for place, interface in enumerate(INTERFACES):
        if interface is not TWO and probes.recorded(interface.kind) is None:
            continue
        found = _find(interface, wanted, probes)
        if isinstance(found, _Found) and (lack := _lacks(found, wanted.calls)):
            found = _Refused(lack)
        if isinstance(found, _Refused):
            refused.append(found)
            continue
        reason = message(
            "kernels.flash_attn",
            version=found.provider,
            dtype=wanted.dtype,
            head_dim=wanted.head_dim,
            device=wanted.device,
        )
        reason = _and(reason, [each.why for each in refused if not each.absent])
        for other in INTERFACES[place + 1 :]:
            if probes.recorded(other.kind) is not None:
                reason = message("kernels.and", first=reason, second=message("kernels.also", kernel=other.kind))
        return _flash_attn(found, wanted, reason)
    telling = [each.why for each in refused if not each.absent] or [refused[0].why]
    why = _and(telling[0], telling[1:])
    return _cpu_flash(message("kernels.cpu_instead", why=why), wanted.asked_device, probes)


def _lacks(found: _Found, calls: Mapping[str, Sequence[str]]) -> Message | None:
    """Return which of the functions and arguments in ``calls`` a version lacks; None where it has them all."""
    for key, arguments in calls.items():
        told = {"version": found.provider, "name": _FUNCTIONS[key]}
        function = found.functions.get(key)
        if function is None:
            return message("kernels.why_no_function", **told)
        for argument in arguments:
            if argument not in function.__signature__.parameters:
                return message("kernels.why_no_argument", argument=argument, **told)
    return None


def _and(first: Message, others: list[Message]) -> Message:
    for other in others:
        first = message("kernels.and", first=first, second=other)
    return first


def _why_not_cuda(device: str, dtype: str, interface: Interface, probes: Probes) -> Message | None:
    """Return the first reason against every version of flash-attn, cheapest question first, or None."""
    if device == "cpu":
        return message("kernels.why_cpu_asked")
    if device != "auto" and not _is_cuda(device):
        return message("kernels.why_device", kernel=interface.kind, device=device)
    if not probes.cuda():
        return message("kernels.why_no_cuda")
    if dtype not in DTYPES:
        return message("kernels.why_dtype", kernel=interface.kind, dtype=dtype)
    return None


def _find(interface: Interface, wanted: _Wanted, probes: Probes) -> _Found | _Refused:
    """Return a version's functions, or why they cannot be used; the device is asked before anything is imported."""
    kind, capability = interface.kind, probes.capability(wanted.device)
    if not interface.runs_on(capability):
        return _Refused(_why_capability(interface, wanted.device, capability))
    if not interface.takes(wanted.head_dim, capability):
        narrow = "_narrow" if capability[0] in interface.narrow else ""
        limits = {"kernel": kind, "largest": interface.largest, "head_dim": wanted.head_dim}
        return _Refused(message(f"kernels.why_head_dim{narrow}", **limits))
    try:
        module = probes.module(interface.module)
    except Exception as fault:  # noqa: BLE001 - whatever a package built for another torch or GPU raises: it is told
        said = str(fault).splitlines()[0] if str(fault).strip() else repr(fault)
        absent = isinstance(fault, ModuleNotFoundError) and probes.recorded(kind) is None
        return _Refused(message("kernels.why_not_importable", kernel=kind, error=said), absent)
    version = probes.recorded(kind) or str(getattr(module, "__version__", ""))
    if interface.oldest is not None and hasattr(module, "__version__"):
        version = str(module.__version__)  # what runs, whatever the record says
        if _version(version) < interface.oldest:
            return _Refused(message("kernels.why_old", kernel=kind, version=version))
    present = {key: getattr(module, name) for key, name in _FUNCTIONS.items() if hasattr(module, name)}
    try:
        functions = {key: Adapted(function, kind, _FUNCTIONS[key]) for key, function in present.items()}
    except Unsupported as fault:
        return _Refused(fault.message)
    for key in ("varlen", "dense"):
        function = functions.get(key)
        if function is None:
            why = message("kernels.why_hollow", kernel=kind, module=interface.module, name=_FUNCTIONS[key])
            return _Refused(why, absent=probes.recorded(kind) is None)
        if not function.gives_lse:
            return _Refused(message("kernels.why_no_lse", kernel=kind, version=version, name=_FUNCTIONS[key]))
    return _Found(interface, f"{kind} {version}".rstrip(), functions)


def _why_capability(interface: Interface, device: str, capability: tuple[int, int]) -> Message:
    oldest, newest = ".".join(map(str, interface.oldest_device)), interface.newest_device
    told = {"kernel": interface.kind, "device": device, "capability": ".".join(map(str, capability)), "oldest": oldest}
    if newest is None:
        return message("kernels.why_capability", **told)
    return message("kernels.why_capability_between", newest=newest, **told)


def _flash_attn(found: _Found, wanted: _Wanted, reason: Message) -> ChosenKernel:
    return ChosenKernel(
        kind=found.interface.kind,
        varlen=found.functions["varlen"],
        dense=found.functions["dense"],
        with_kvcache=found.functions.get("with_kvcache"),  # since flash-attn 2.2; FlashAttention 4 has none
        provider=found.provider,
        device=wanted.device,
        reason=reason,
        device_reason=_why_device(
            wanted.asked_device, message("kernels.device_of_flash_attn", kernel=found.interface.kind)
        ),
        attn_implementation=found.interface.implementation,
    )


def _cpu_flash(reason: Message, asked_device: str, probes: Probes) -> ChosenKernel:
    from tracer.kernels import cpu_flash

    own = message("kernels.device_of_cpu_flash")  # also where another device was asked for, and cannot be had
    return ChosenKernel(
        kind=CPU_FLASH,
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


def _check_number(device: str, probes: Probes) -> None:
    """Raise InputError for a number that no device can have, Unsupported for one beyond the devices there are."""
    kind, colon, number = device.partition(":")
    if not colon:
        return
    if not (number.isascii() and number.isdigit()) or kind == "auto":
        raise InputError("kernels.unknown_device", found=device)
    if kind == "cuda" and int(number) >= (count := probes.devices()):
        several = "" if count > 1 else "_one"
        raise Unsupported(f"kernels.no_such_cuda{several}", device=device, count=count, last=count - 1)


def _is_cuda(device: str) -> bool:
    return device.partition(":")[0] == "cuda"


def _version(text: str) -> tuple[int, int]:
    """Return major and minor of a version such as ``2.8.3.post1``; (0, 0) for a text that is no version."""
    found = re.match(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)
