"""As much of triton as nano-vllm's one kernel needs, run program by program on torch tensors of any device.

A pointer is a tensor's storage and a place in it. Must not know: what a kernel does.
"""

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor

LANGUAGE = ("constexpr", "program_id", "arange", "load", "store")
constexpr = int
_running = threading.local()


@dataclass(frozen=True)
class Pointer:
    """A place in a tensor's storage, or several (``offset`` is a number or a tensor of numbers)."""

    storage: Tensor
    offset: Any

    @classmethod
    def of(cls, tensor: Tensor) -> "Pointer":
        """Return a pointer to a tensor's first element."""
        size = tensor.untyped_storage().nbytes() // tensor.element_size()
        return cls(tensor.as_strided((size,), (1,), 0), tensor.storage_offset())

    def __add__(self, more: Any) -> "Pointer":
        return Pointer(self.storage, self.offset + more)


def jit(function: Callable[..., None]) -> "Kernel":
    """Return ``function`` as a kernel: ``kernel[grid](arguments)`` runs it once for each program of the grid."""
    return Kernel(function)


@dataclass(frozen=True)
class Kernel:
    """A kernel whose programs run one after another."""

    function: Callable[..., None]

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        """Return what launches the kernel over ``grid``."""

        def launch(*args: Any, **kwargs: Any) -> None:
            bound = inspect.signature(self.function).bind(*args, **kwargs)
            given = {k: Pointer.of(v) if isinstance(v, Tensor) else v for k, v in bound.arguments.items()}
            for program in product(*map(range, grid)):
                with _program(program):
                    self.function(**given)

        return launch


def program_id(axis: int) -> int:
    """Return the running program's place on an axis of the grid."""
    program: tuple[int, ...] = _running.program
    return program[axis]


def arange(start: int, end: int) -> Tensor:
    """Return the whole numbers from ``start`` up to ``end``, int64."""
    return torch.arange(start, end)


def load(pointer: Pointer) -> Any:
    """Return what stands at the places of ``pointer``: a number for one place, else a tensor."""
    if isinstance(pointer.offset, int):
        return pointer.storage[pointer.offset].item()
    return pointer.storage[pointer.offset.to(pointer.storage.device)]


def store(pointer: Pointer, value: Any) -> None:
    """Write ``value`` to the places of ``pointer``."""
    offset = pointer.offset if isinstance(pointer.offset, int) else pointer.offset.to(pointer.storage.device)
    pointer.storage[offset] = value


@contextmanager
def _program(program: tuple[int, ...]) -> Iterator[None]:
    before = getattr(_running, "program", None)
    _running.program = program
    try:
        yield
    finally:
        _running.program = before
