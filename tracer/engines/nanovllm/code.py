"""nano-vllm's code, ready to run: pinned files, places, live modules, the chosen kernel lent to them.

Must not know: models, checkpoints.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from tracer.capture.recorder import Recorder
from tracer.engines.nanovllm import sources
from tracer.engines.nanovllm.kernels import Watched
from tracer.engines.nanovllm.modules import load
from tracer.engines.nanovllm.sources import Sources
from tracer.errors import Unsupported
from tracer.kernels.choose import ChosenKernel
from tracer.source import anchors
from tracer.source.anchors import Definitions, Table


@dataclass(frozen=True)
class Code:
    """One freshly loaded copy of nano-vllm's code; ``watched`` are the kernel functions it calls."""

    version: str
    defined: Definitions
    table: Table
    modules: Mapping[str, ModuleType]
    watched: tuple[Watched, ...]


def ready(kernel: ChosenKernel, recorder: Recorder, cache: Path | None) -> Code:
    """Return nano-vllm's code with the chosen kernel lent to it; ``cache`` keeps finished anchor tables.

    Raises InputError where its files are not here, Unsupported for a kernel that it never calls.
    """
    watched = _watched(kernel, recorder)
    found = sources.read()
    modules = load(found.files, {function.name: function for function in watched})
    return Code(found.version, anchors.definitions(sources.PROJECT), table(found, cache), modules, watched)


def table(found: Sources, cache: Path | None) -> Table:
    """Return where nano-vllm's anchors stand in its files; ``cache`` keeps finished tables."""
    defined = anchors.definitions(sources.PROJECT)
    return anchors.table(defined, {key: found.files[member] for key, member in defined.files.items()}, cache)


def _watched(kernel: ChosenKernel, recorder: Recorder) -> tuple[Watched, ...]:
    if kernel.varlen is None or kernel.with_kvcache is None:
        raise Unsupported("nanovllm.kernel", kernel=kernel.kind)
    functions = {"flash_attn_varlen_func": kernel.varlen, "flash_attn_with_kvcache": kernel.with_kvcache}
    return tuple(Watched(name, function, recorder) for name, function in functions.items())
