"""Another version of transformers, run in a process of its own, its trace handed back.

Its files cannot be imported here: they name modules of their own version. Must not know: what it is compared with.
"""

import importlib.metadata
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tracer.arrays import Array
from tracer.compare.wheels import laid_out
from tracer.errors import Unsupported
from tracer.records import LayerTrace
from tracer.saved.read import load

if TYPE_CHECKING:
    from tracer.compare.run import Asked

PACKAGE = "transformers"
_NAME = re.compile(rf"{PACKAGE}@([0-9][A-Za-z0-9.!+_-]*)")
_SAID = 2000


def version_of(engine: str) -> str | None:
    """Return the version that an engine's name asks for (``transformers@5.16.1``), None where it names none."""
    match = _NAME.fullmatch(engine)
    return match[1] if match else None


def trace_other(version: str, asked: "Asked", kernel: str, dtype: str) -> LayerTrace:
    """Return the trace of the asked layer on that version's code.

    Raises InputError where its wheel cannot be had, Unsupported where it cannot be run with what is installed here.
    """
    here = version == importlib.metadata.version(PACKAGE)
    folder = None if here else laid_out(PACKAGE, version, asked.report)
    with tempfile.TemporaryDirectory(prefix="tracer-compare-") as scratch:
        saved = Path(scratch) / "trace.safetensors"
        found = subprocess.run(
            [sys.executable, "-m", "tracer", *_arguments(asked, kernel, dtype), "--save", str(saved)],
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        if not saved.exists():
            raise Unsupported("compare.other_failed", version=version, said=found.stderr.strip()[-_SAID:])
        trace = _in_memory(load(saved))
    ran = trace.versions.get(PACKAGE)
    if ran != version:
        raise Unsupported("compare.other_ran", version=version, ran=ran)
    return trace


def _in_memory(trace: LayerTrace) -> LayerTrace:
    """Return ``trace`` with every tensor copied: they are mapped from a file that is about to go."""

    def copy(array: Array) -> Array:
        return Array(array.dtype, np.array(array.bits))

    lse = None if trace.kernel.lse is None else copy(trace.kernel.lse)
    return replace(
        trace,
        captures={name: replace(one, array=copy(one.array)) for name, one in trace.captures.items()},
        kernel=replace(trace.kernel, output=copy(trace.kernel.output), lse=lse),
        effects=replace(trace.effects, eager=copy(trace.effects.eager)),
    )


def _environment(folder: Path | None) -> dict[str, str]:
    """Return this process's environment, with ``folder`` before everything that is importable here."""
    here = [os.path.abspath(entry) for entry in sys.path if entry]
    paths = [*([] if folder is None else [str(folder)]), *here]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONIOENCODING": "utf-8"}


def _arguments(asked: "Asked", kernel: str, dtype: str) -> list[str]:
    given = {
        "--layer": asked.layer,
        "--checkpoint": None if asked.checkpoint is None else _place(asked.checkpoint),
        "--revision": asked.revision,
        "--prompt": asked.prompt,
        "--tokens": None if asked.tokens is None else ",".join(map(str, asked.tokens)),
        "--kernel": kernel,
        "--device": asked.device,
        "--dtype": dtype,
    }
    named = [f"{name}={value}" for name, value in given.items() if value is not None]
    return ["qwen3", "--head=0", "--lang=en", *named, *(["--chat"] if asked.chat else [])]


def _place(checkpoint: str) -> str:
    return os.path.abspath(checkpoint) if os.path.isdir(checkpoint) else checkpoint
