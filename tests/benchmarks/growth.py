"""What a trace costs as the prompt, the layer and the model grow: ``python -m tests.benchmarks.growth [--longest N]``.

One thing grows at a time. Printed are seconds (also as a bar), peak memory and bytes read of the whole command. To be
expected: over a constant start, time grows with tokens² (the kernel and its reference), memory with tokens, and bytes
with layers. Checkpoints are sparse: only what a trace reads holds numbers. Nothing here is a test.
"""

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks import shapes
from tests.benchmarks.peers.processes import Ran, run

_READ = re.compile(r"Read ([\d,]+) bytes")


@dataclass(frozen=True)
class Point:
    """One trace: of which shape, which layer, how many tokens."""

    size: str
    layer: int
    tokens: int


def checkpoint(folder: Path, size: str, last: int) -> Path:
    """Return a checkpoint of ``size`` whose layers 0 to ``last`` hold numbers."""
    made = folder / f"sparse-{size}-{last}"
    if not (made / "complete").is_file():
        shapes.write(made, shapes.SHAPES[size], layers=range(last + 1))
        (made / "complete").touch()
    return made


def measured(folder: Path, point: Point) -> tuple[Ran, int]:
    """Return how the trace of ``point`` went, and how many bytes of weights it read."""
    tokens = ",".join(str((n * 7919) % 100) for n in range(point.tokens))
    where = ["--checkpoint", str(checkpoint(folder, point.size, point.layer)), "--layer", str(point.layer)]
    ran = run([sys.executable, "-m", "tracer", "qwen3", *where, "--head", "2", "--tokens", tokens, "--verbose"])
    if ran.report is None:
        raise RuntimeError(ran.fault)
    read = _READ.search(ran.complaint)
    return ran, int(read.group(1).replace(",", "")) if read else 0


def series(folder: Path, title: str, points: list[Point], unit: str) -> None:
    """Print one thing growing."""
    print(f"\n{title}\n{'':>22}{'seconds':>9}{'peak MiB':>10}{'MB read':>10}", flush=True)
    every = [measured(folder, point) for point in points]
    longest = max(ran.seconds for ran, _ in every)
    for point, (ran, read) in zip(points, every, strict=True):
        label = {"tokens": f"{point.tokens} tokens", "layer": f"layer {point.layer}", "size": point.size}[unit]
        bar = "█" * max(1, round(40 * ran.seconds / longest))
        print(f"{label:>22}{ran.seconds:>9.2f}{ran.peak_mib:>10.0f}{read / 1e6:>10.1f}  {bar}", flush=True)


def main() -> None:
    """Print the three series."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/growth"), help="for the checkpoints")
    parser.add_argument("--longest", type=int, default=32768, help="the longest prompt")
    asked = parser.parse_args()
    folder = asked.folder.resolve()
    lengths = [n for n in (64, 512, 4096, 8192, 16384, 32768) if n <= asked.longest]
    series(folder, "tokens, 0.6B's shape, layer 0", [Point("0.6B", 0, n) for n in lengths], "tokens")
    series(folder, "layers, 0.6B's shape, 64 tokens", [Point("0.6B", n, 64) for n in (0, 7, 14, 27)], "layer")
    series(folder, "models, layer 0, 64 tokens", [Point(size, 0, 64) for size in shapes.SHAPES], "size")


if __name__ == "__main__":
    main()
