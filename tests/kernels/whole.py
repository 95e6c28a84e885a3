"""The whole of verification on one kernel: every check in every situation, the grid of shapes, every planted fault.

A fault made for the CPU flash kernel in float32 runs on ``kind`` in float16, the dtype of flash-attn that tells them
all (bfloat16 is too coarse for ``hidden_changed``, a factor of 1.001).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tracer.kernels.choose import ChosenKernel
from tracer.kernels.interfaces import CPU_FLASH, FLASH
from tracer.verification import entry
from tracer.verification.faults import grid, trial
from tracer.verification.faults.catalogue import FAULTS
from tracer.verification.faults.records import Fault

Choose = Callable[..., ChosenKernel]


def checks(kind: str, dtype: str, choose: Choose, patch: pytest.MonkeyPatch) -> int:
    """Return the exit code of every check in every situation on every layer."""
    patch.setattr(entry, "choose", choose)
    return entry.verify_checkpoint(layers=None, kernel=kind, dtype=dtype).exit_code


def alarms(kind: str, choose: Choose, patch: pytest.MonkeyPatch, **part: Any) -> list[str]:
    """Return the cells of the grid in which healthy code fails a check, or nothing was tested."""
    patch.setattr(entry, "choose", _on(kind, choose))
    dtypes = ("bfloat16", "float16") if kind in FLASH else grid.DTYPES
    cells = grid.cells(**{"dtypes": dtypes, "kernel": kind, **part})
    return [f"{cell.shape.name} {cell.dtype} {cell.column}" for cell in cells if not cell.passed]


def missed(kind: str, choose: Choose, patch: pytest.MonkeyPatch, faults: tuple[Fault, ...] = FAULTS) -> list[str]:
    """Return the planted faults that are not caught by their own check at their own place; those of other ways than
    ``kind`` (flash, sdpa or eager) are left out."""
    patch.setattr(trial, "choose", _on(kind, choose))
    return [fault.id for fault in faults if meant_for(kind, fault) and not trial.run_fault(_here(kind, fault)).caught]


def meant_for(kind: str, fault: Fault) -> bool:
    """Return whether a fault can be planted on this kernel's way."""
    return fault.kernel == (CPU_FLASH if kind in FLASH else kind)


def _here(kind: str, fault: Fault) -> Fault:
    coarse = kind in FLASH and fault.dtype == "F32"
    return replace(fault, kernel=kind, dtype="F16") if coarse else replace(fault, kernel=kind)


def _on(kind: str, choose: Choose) -> Choose:
    """Return a choice that leaves the device to the kernel: the trials and the grid ask for the CPU."""

    def chosen(_asked: str, *, device: str, dtype: str, head_dim: int) -> ChosenKernel:
        return choose(kind, device="auto", dtype=dtype, head_dim=head_dim)

    return chosen
