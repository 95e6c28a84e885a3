"""Another version of transformers, run in a process of its own, its traces handed back.

Its files cannot be imported here: they name modules of their own version. Must not know: what comes of the traces.
"""

import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from packaging.version import Version

from tracer.arrays import Array
from tracer.engines.versions.names import PACKAGE
from tracer.engines.versions.wheels import Report, laid_out
from tracer.errors import Unsupported
from tracer.records import LayerTrace
from tracer.saved.read import load

_CHILD = "from tracer.engines.versions.child import main; main()"
# The oldest version that is tested. A trace looks for places and names in Qwen3's source that older ones may not have.
OLDEST = "5.16"
_SAID = 400


def trace_layers(
    version: str, layers: Sequence[int], asked: Mapping[str, Any], report: Report | None = None
) -> tuple[LayerTrace, ...]:
    """Return the traces of ``layers`` on that version's code; ``asked`` is what the pipeline is asked for besides.

    ``report`` is told of what is fetched. Raises InputError where the version cannot be had, Unsupported where it
    cannot be run with what is installed here.
    """
    if Version(version) < Version(OLDEST):
        raise Unsupported("versions.too_old", version=version, oldest=OLDEST)
    here = version == importlib.metadata.version(PACKAGE)
    folder = None if here else laid_out(PACKAGE, version, report)
    with tempfile.TemporaryDirectory(prefix="tracer-version-") as scratch:
        order = {**asked, "layers": list(layers), "folder": scratch}
        ended = subprocess.run(
            [sys.executable, "-c", _CHILD],
            env=_environment(folder),
            input=json.dumps(order),
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        saved = [Path(scratch) / f"{layer}.safetensors" for layer in layers]
        if ended.returncode != 0 or not all(path.exists() for path in saved):
            raise Unsupported("versions.failed", version=version, said=_said(ended.stderr))
        traces = tuple(_in_memory(load(path)) for path in saved)
    ran = traces[0].versions.get(PACKAGE)
    if ran != version:
        raise Unsupported("versions.ran", version=version, ran=ran)
    return traces


def _said(errors: str) -> str:
    """Return in one line what the other process ended with: of a traceback its last line."""
    lines = [" ".join(line.split()) for line in errors.splitlines() if line.strip()]
    said = lines[-1] if any(line.startswith("Traceback") for line in lines) else " ".join(lines)
    return said if len(said) <= _SAID else f"{said[:_SAID].rsplit(' ', 1)[0]} …"


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
