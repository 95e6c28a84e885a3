"""How long a reader waits, against a bare script, side by side in one run: ``python -m tests.benchmarks.startup``.

Every round runs each command once, in turn, so that a machine that slows down slows all of them. Printed are medians of
the whole process (seconds) and of the ratio within each round. Nothing here is a test: timing never decides one.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tracer import data

# What a reader would write by hand: import the model code, load the same checkpoint, run one forward pass.
BARE = """
{before}
import torch
from transformers.models.qwen3.modeling_qwen3 import Qwen3ForCausalLM
{after}
model = Qwen3ForCausalLM.from_pretrained({folder!r}, dtype="auto").eval()
with torch.no_grad():
    model(torch.arange(5, 21)[None], use_cache=False)
"""


@dataclass(frozen=True)
class Comparison:
    """A command, what it is compared with, and the ratio it should stay below."""

    name: str
    against: str
    target: float


COMPARISONS = (
    Comparison("trace", "bare script", 0.75),
    Comparison("trace", "bare script + collector held", 1.1),
    Comparison("trace show", "import torch", 0.35),
    Comparison("trace --help", "import torch", 0.15),
    Comparison("usage error", "import torch", 0.15),
)


def commands(folder: Path) -> dict[str, list[str]]:
    """Return every command by name; ``folder`` is where a saved trace may be written."""
    saved = str(folder / "saved.safetensors")
    trace = [sys.executable, "-m", "tracer", "qwen3", "--layer", "0", "--head", "2"]
    subprocess.run([*trace, "--save", saved], check=True, capture_output=True)  # also fills the cache of anchors
    shipped = str(data.shipped_checkpoint("qwen3-tiny"))
    held = {"before": "import gc; gc.disable()", "after": "gc.freeze(); gc.enable()"}
    return {
        "trace": trace,
        "bare script": [sys.executable, "-c", BARE.format(folder=shipped, before="", after="")],
        "bare script + collector held": [sys.executable, "-c", BARE.format(folder=shipped, **held)],
        "trace show": [sys.executable, "-m", "tracer", "show", saved],
        "trace --help": [sys.executable, "-m", "tracer", "--help"],
        "usage error": [sys.executable, "-m", "tracer", "qwen3", "--layer", "x"],
        "import torch": [sys.executable, "-c", "import torch"],
    }


def seconds(command: list[str]) -> float:
    """Return the wall seconds of one whole process."""
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.perf_counter() - start


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", "--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        every = commands(Path(folder))
        times: dict[str, list[float]] = {name: [] for name in every}
        for _ in range(rounds):
            for name, command in every.items():
                times[name].append(seconds(command))
    for name, taken in times.items():
        print(f"{name:32} median {statistics.median(taken):6.3f} s   ({min(taken):.3f} to {max(taken):.3f})")
    print()
    for compared in COMPARISONS:
        ratio = statistics.median(a / b for a, b in zip(times[compared.name], times[compared.against], strict=True))
        print(f"{compared.name} / {compared.against}: {ratio:.2f}   (wanted: at most {compared.target})")


if __name__ == "__main__":
    main()
