"""What a trace costs as the prompt, the layer and the model grow: ``python -m tests.benchmarks.growth [--longest N]``.

One thing grows at a time; each point is the best of --rounds whole commands. Printed are seconds of the clock and the
processor (also as a bar), peak memory and bytes of weights read, and beside each what the stated growth gives: a curve
of one kind for the whole series, fitted by the smallest relative errors, with the largest of them below.

Stated growth, over a constant start: processor time with tokens and tokens² (projections; the kernel and what judges
it), memory with tokens; time and bytes with layers, memory not at all; time, memory and bytes with what a layer's
attention weighs. Checkpoints are sparse: only what a trace reads holds numbers. Nothing here is a test.
"""

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.benchmarks import shapes
from tests.benchmarks.peers.processes import Ran, run

_READ = re.compile(r"Read ([\d,]+) bytes")
# One head of a prompt longer than this is kept alone, so the cost of both sides lies on two curves.
ALONE_FROM = 8192


@dataclass(frozen=True)
class Point:
    """One trace: of which shape, which layer, how many tokens."""

    size: str
    layer: int
    tokens: int


@dataclass(frozen=True)
class Cost:
    """What one trace took: seconds of the clock and of the processor, peak MiB, MB of weights read."""

    seconds: float
    processor: float
    peak: float
    read: float


@dataclass(frozen=True)
class Curve:
    """What a cost is said to grow with: the terms of a sum with coefficients of at least 0."""

    words: str
    terms: Callable[[float], Sequence[float]]

    def fit(self, at: Sequence[float], found: Sequence[float]) -> list[float]:
        """Return the values of the curve of this kind that comes nearest to ``found`` by relative error.

        Terms whose coefficient would be negative are left out, the most negative first.
        """
        rows = np.array([self.terms(x) for x in at], dtype=np.float64)
        weighed = rows / np.array(found)[:, None]
        used = list(range(rows.shape[1]))
        while True:
            solved = np.linalg.lstsq(weighed[:, used], np.ones(len(rows)), rcond=None)[0]
            if solved.min() >= 0 or len(used) == 1:
                return [float(value) for value in rows[:, used] @ solved]
            used.pop(int(solved.argmin()))


CONSTANT = Curve("constant", lambda _: (1,))
LINEAR = Curve("a + b·n", lambda x: (1, x))
QUADRATIC = Curve("a + b·n + c·n²", lambda x: (1, x, x * x))


def checkpoint(folder: Path, size: str, last: int) -> Path:
    """Return a checkpoint of ``size`` whose layers 0 to ``last`` hold numbers."""
    made = folder / f"sparse-{size}-{last}"
    if not (made / "complete").is_file():
        shapes.write(made, shapes.SHAPES[size], layers=range(last + 1))
        (made / "complete").touch()
    return made


def command(folder: Path, point: Point) -> list[str]:
    """Return the command line of the trace of ``point``."""
    tokens = ",".join(str((n * 7919) % 100) for n in range(point.tokens))
    where = ["--checkpoint", str(checkpoint(folder, point.size, point.layer)), "--layer", str(point.layer)]
    return [sys.executable, "-m", "tracer", "qwen3", *where, "--head", "2", "--tokens", tokens, "--verbose"]


def cost(ran: Ran) -> Cost:
    """Return what a run took; raises RuntimeError where it failed."""
    if ran.report is None:
        raise RuntimeError(ran.complaint or ran.fault)
    read = _READ.search(ran.complaint)
    return Cost(
        ran.seconds, ran.processor, ran.peak_mib, int(read.group(1).replace(",", "")) / 1e6 if read else float("nan")
    )


def best(found: Sequence[Cost]) -> Cost:
    """Return the least of each: what other work on the machine adds is never negative."""
    return Cost(
        min(one.seconds for one in found),
        min(one.processor for one in found),
        min(one.peak for one in found),
        found[0].read,
    )


@dataclass(frozen=True)
class Series:
    """One thing growing: the points, what each is called, how far along it is, and what each cost is said to do."""

    title: str
    points: Sequence[Point]
    label: Callable[[Point], str]
    along: Callable[[Point], float]
    curves: dict[str, Curve]


def attention_numbers(point: Point) -> float:
    """Return how many millions of numbers the attention of one layer has."""
    tensors = shapes.tensors(shapes.SHAPES[point.size])
    return sum(float(np.prod(shape)) for name, shape in tensors.items() if "layers.0.self_attn" in name) / 1e6


def every_series(longest: int) -> list[Series]:
    """Return the series in the order they are printed."""
    lengths = [n for n in (64, 512, 2048, 4096, 8192) if n <= longest]
    beyond = [n for n in (12288, 16384, 24576, 32768) if n <= longest]
    growing = {"processor": QUADRATIC, "peak": LINEAR, "read": CONSTANT}
    deeper = {"processor": LINEAR, "peak": CONSTANT, "read": LINEAR}
    larger = {"processor": LINEAR, "peak": LINEAR, "read": LINEAR}

    def tokens(title: str, lengths: Sequence[int]) -> Series:
        points = [Point("0.6B", 0, n) for n in lengths]
        return Series(title, points, lambda p: f"{p.tokens} tokens", lambda p: float(p.tokens), growing)

    layers = [Point("0.6B", n, 64) for n in (0, 7, 14, 21, 27)]
    models = [Point(size, 0, 64) for size in shapes.SHAPES]
    found = [
        tokens("tokens: 0.6B's shape, layer 0", lengths),
        tokens(f"tokens beyond {ALONE_FROM:,}, one head kept alone", beyond),
        Series("layers: 0.6B's shape, 64 tokens", layers, lambda p: f"layer {p.layer}", lambda p: p.layer, deeper),
        Series("models: layer 0, 64 tokens", models, lambda p: p.size, attention_numbers, larger),
    ]
    return [one for one in found if one.points]


def table(series: Series, costs: Sequence[Cost]) -> str:
    """Return one series as text: costs, what the stated growth gives (after →), and bars of processor time."""
    at = [series.along(point) for point in series.points]
    fits = {name: curve.fit(at, [getattr(one, name) for one in costs]) for name, curve in series.curves.items()}
    lines = [f"{series.title}", f"{'':>14}{'clock s':>9}{'processor s':>18}{'peak MiB':>16}{'MB read':>18}"]
    longest = max(one.processor for one in costs)
    for n, (point, one) in enumerate(zip(series.points, costs, strict=True)):
        bar = "█" * max(1, round(30 * one.processor / longest))
        lines.append(
            f"{series.label(point):>14}{one.seconds:>9.2f}"
            f"{one.processor:>9.2f} → {fits['processor'][n]:<6.2f}{one.peak:>7.0f} → {fits['peak'][n]:<6.0f}"
            f"{one.read:>8.1f} → {fits['read'][n]:<7.1f}  {bar}"
        )
    told = []
    for name, curve in series.curves.items():
        off = max(abs(fit / getattr(one, name) - 1) for fit, one in zip(fits[name], costs, strict=True))
        told.append(f"{name} {curve.words} within {100 * off:.0f} %")
    lines.append(f"{'':>14} fits: " + "; ".join(told))
    return "\n".join(lines)


def measured(folder: Path, series: Series, rounds: int) -> list[Cost]:
    """Return what each point took, the points in turn within each round."""
    found: list[list[Cost]] = [[] for _ in series.points]
    for _ in range(rounds):
        for taken, point in zip(found, series.points, strict=True):
            taken.append(cost(run(command(folder, point))))
    return [best(taken) for taken in found]


def main() -> None:
    """Print every series."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/growth"), help="for the checkpoints")
    parser.add_argument("--longest", type=int, default=32768, help="the longest prompt")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="series whose title begins with this")
    asked = parser.parse_args()
    for series in every_series(asked.longest):
        if not series.title.startswith(asked.only):
            continue
        print("\n" + table(series, measured(asked.folder.resolve(), series, asked.rounds)), flush=True)


if __name__ == "__main__":
    main()
