"""Measuring one causal head of attention as it grows: a flash kernel against explicit matrices, in time and memory.

The only module of the labs that imports torch, and only inside its functions. Must not know: pages, options.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tracer.errors import InputError
from tracer.kernels.choose import ChosenKernel, choose
from tracer.maths.attention import head
from tracer.maths.criterion import Numerics, numerics
from tracer.maths.visibility import Visibility
from tracer.texts import Message, message

if TYPE_CHECKING:
    from torch import Tensor

HEAD_DIM = 128
# Time for one length and one way, beyond which longer ones are left out: a lab should take a moment.
PATIENCE = 5.0
_REPEATS = 5
_ENOUGH = 0.5  # seconds spent on one measurement, after which the best so far stands
_SHARE = 0.8  # of the free memory that may be filled
_CHECKED = 1024  # up to this length the output is compared with float64, which needs its own time
_SIZES = {"float32": 4, "bfloat16": 2, "float16": 2}
_SPACINGS = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}

Attention = Callable[["Tensor", "Tensor", "Tensor"], "Tensor"]


@dataclass(frozen=True)
class Machine:
    """Where it is measured. ``free`` is how many bytes may be filled; ``counts_memory``: peaks are measured, else
    computed from the shapes."""

    device: str
    name: Message
    kernel: str
    provider: str
    reason: Message
    dtype: str
    free: int
    counts_memory: bool


@dataclass(frozen=True)
class Way:
    """One way of computing attention at one length. ``seconds`` None: not run, and ``why`` says why."""

    seconds: float | None
    bytes: int
    why: Message | None = None


@dataclass(frozen=True)
class Measured:
    """Both ways at one length, and where it was checked how far the kernel is from float64."""

    length: int
    flash: Way
    explicit: Way
    check: Numerics | None


class Bench(Protocol):
    """What a measurement needs of a machine; tests bring one that only counts."""

    machine: Machine

    def flash(self, length: int) -> Way:
        """Run the flash kernel at ``length`` and return its time and memory."""

    def explicit(self, length: int) -> Way:
        """Run explicit matrix products at ``length`` and return their time and memory."""

    def check(self, length: int) -> Numerics | None:
        """Return how far the kernel is from float64, None where that would take too long."""


def explicit_bytes(length: int, dtype: str) -> int:
    """Return the bytes that explicit attention holds at its peak: scores, scaled scores or weights, and the mask."""
    return length * length * (2 * _SIZES[dtype] + 1)


def flash_bytes(length: int, dtype: str) -> int:
    """Return the bytes that a flash kernel holds besides its inputs: the output and one logsumexp a row."""
    return length * (HEAD_DIM * _SIZES[dtype] + 4)


def measure(bench: Bench, lengths: tuple[int, ...]) -> list[Measured]:
    """Return both ways at every length, shortest first; what would not fit or would take too long is left out."""
    found: list[Measured] = []
    for length in sorted(set(lengths)):
        before = found[-1] if found else None
        need = explicit_bytes(length, bench.machine.dtype)
        too_long = _too_long(before.explicit if before else None, before, length)
        if need > bench.machine.free:
            explicit = Way(
                None, need, message("labs.gpu_no_room", need=_gigabytes(need), free=_gigabytes(bench.machine.free))
            )
        elif too_long:
            explicit = Way(None, need, message("labs.gpu_too_long", seconds=PATIENCE))
        else:
            explicit = bench.explicit(length)
        if _too_long(before.flash if before else None, before, length):
            flash = Way(None, flash_bytes(length, bench.machine.dtype), message("labs.gpu_too_long", seconds=PATIENCE))
        else:
            flash = bench.flash(length)
        found.append(Measured(length, flash, explicit, bench.check(length)))
    return found


def _too_long(way: Way | None, before: Measured | None, length: int) -> bool:
    """Return whether ``length`` would take too long, going by the length before it: time grows like its square."""
    if way is None or before is None:
        return False
    return way.seconds is None or way.seconds * (length / before.length) ** 2 > PATIENCE


def _gigabytes(count: int) -> float:
    return count / 1e9


# ------------------------------------------------------------------------------------------------ this machine


class TorchBench:
    """A machine with torch: flash-attn on CUDA, else torch's own flash kernel there, else the CPU flash kernel."""

    def __init__(self, device: str, seed: int) -> None:
        self._seed = seed
        self._attention: Attention
        self.machine, self._attention = _machine(device)

    def flash(self, length: int) -> Way:
        """Run the flash kernel at ``length`` and return its time and memory."""
        return self._way(length, self._attention, flash_bytes(length, self.machine.dtype))

    def explicit(self, length: int) -> Way:
        """Run explicit matrix products at ``length`` and return their time and memory."""
        return self._way(length, explicit_attention, explicit_bytes(length, self.machine.dtype))

    def check(self, length: int) -> Numerics | None:
        """Return flash-attention's own criterion for the kernel at ``length``, None beyond 1024."""
        if length > _CHECKED:
            return None
        q, k, v = self._head(length)
        kernel, eager = (_float64(x) for x in (self._attention(q, k, v), explicit_attention(q, k, v)))
        visibility = Visibility(tq=length, tk=length)
        reference = head(_float64(q), _float64(k), _float64(v), HEAD_DIM**-0.5, visibility)
        return numerics(kernel, eager, reference.output, _SPACINGS[self.machine.dtype])

    def _way(self, length: int, attention: Attention, computed: int) -> Way:
        import torch

        q, k, v = self._head(length)
        try:
            seconds, peak = self._timed(lambda: attention(q, k, v))
        except torch.OutOfMemoryError:  # somebody else took what was free a moment ago
            return Way(None, computed, message("labs.gpu_out_of_memory", length=length))
        return Way(seconds, computed if peak is None else peak)

    def _head(self, length: int) -> "tuple[Tensor, Tensor, Tensor]":
        """Return random q, k, v [T, D] in the machine's dtype: the same for one seed, length and device."""
        import torch

        generator = torch.Generator().manual_seed(self._seed)
        dtype = getattr(torch, self.machine.dtype)
        q, k, v = (torch.randn(length, HEAD_DIM, generator=generator) for _ in range(3))
        return tuple(x.to(self.machine.device, dtype) for x in (q, k, v))  # type: ignore[return-value]

    def _timed(self, run: Callable[[], Any]) -> tuple[float, int | None]:
        """Return the shortest of several runs in seconds, and the peak of memory where the device counts it."""
        import torch

        cuda = self.machine.counts_memory
        if cuda:
            torch.cuda.synchronize()
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
        run()  # warm: caches, lazy initialisation
        if cuda:
            torch.cuda.synchronize()
        peak = torch.cuda.max_memory_allocated() - before if cuda else None
        best, spent = float("inf"), 0.0
        for _ in range(_REPEATS):
            start = time.perf_counter()
            run()
            if cuda:
                torch.cuda.synchronize()
            taken = time.perf_counter() - start
            best, spent = min(best, taken), spent + taken
            if spent > _ENOUGH:
                break
        return best, peak


def explicit_attention(q: "Tensor", k: "Tensor", v: "Tensor") -> "Tensor":
    """Return softmax(q·kᵀ/√d + M)·v for [T, D], every matrix of size T × T written out in q's dtype."""
    import torch

    length = q.shape[0]
    hidden = torch.ones(length, length, dtype=torch.bool, device=q.device).triu_(1)
    scores = q @ k.T
    scores.mul_(q.shape[1] ** -0.5).masked_fill_(hidden, -torch.inf)
    return torch.softmax(scores, dim=-1) @ v


def _machine(device: str) -> tuple[Machine, Attention]:
    import torch

    chosen = choose("auto", device=device, dtype="bfloat16" if device != "cpu" else "float32", head_dim=HEAD_DIM)
    own = device != "cpu" and chosen.kind == "cpu-flash" and torch.cuda.is_available() and _takes_bfloat16()
    if chosen.kind == "cpu-flash" and not own:
        return _cpu(chosen)
    place = "cuda" if device == "auto" else device
    index = torch.device(place).index or 0
    if index >= torch.cuda.device_count():
        raise InputError("labs.gpu_no_device", device=place, last=torch.cuda.device_count() - 1)
    torch.cuda.set_device(index)
    free, _ = torch.cuda.mem_get_info(index)
    machine = Machine(
        device=place,
        name=message("labs.gpu_card", name=torch.cuda.get_device_name(index)),
        kernel="scaled_dot_product_attention" if own else "flash_attn_func",
        provider=f"torch {torch.__version__}" if own else chosen.provider,
        reason=message("labs.gpu_own_kernel", why=chosen.reason) if own else chosen.reason,
        dtype="bfloat16",
        free=int(free * _SHARE),
        counts_memory=True,
    )
    return machine, _torch_flash if own else _dense(chosen)


def _takes_bfloat16() -> bool:
    import torch

    return torch.cuda.get_device_capability() >= (8, 0)


def _cpu(chosen: ChosenKernel) -> tuple[Machine, Attention]:
    machine = Machine(
        device="cpu",
        name=message("labs.gpu_cpu", cores=os.cpu_count() or 1),
        kernel="_scaled_dot_product_flash_attention_for_cpu",
        provider=chosen.provider,
        reason=chosen.reason,
        dtype="float32",
        free=int(_free_memory() * _SHARE),
        counts_memory=False,
    )
    return machine, _dense(chosen)


def _dense(chosen: ChosenKernel) -> Attention:
    dense = chosen.dense
    if dense is None:
        raise ValueError(f"{chosen.kind} has no function of flash-attn's kind")

    def attention(q: "Tensor", k: "Tensor", v: "Tensor") -> "Tensor":
        out: Tensor = dense(*(x[None, :, None] for x in (q, k, v)), causal=True)
        return out[0, :, 0]

    return attention


def _torch_flash(q: "Tensor", k: "Tensor", v: "Tensor") -> "Tensor":
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return scaled_dot_product_attention(q[None, None], k[None, None], v[None, None], is_causal=True)[0, 0]


def _free_memory() -> int:
    """Return how many bytes of memory are free; 2 GB where the system does not tell."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf, some systems no such name
        return 2 * 10**9


def _float64(x: "Tensor") -> Any:
    return np.asarray(x.double().cpu().numpy(), dtype=np.float64)
