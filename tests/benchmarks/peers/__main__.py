"""This tool beside its peers on the same work: ``python -m tests.benchmarks.peers [--quick]``.

The work: a Qwen3 checkpoint and a prompt; of one layer's head 2 the q, k, v that enter the kernel, the scale, causal or
not, weights, output, and the place of each. Every round runs each contestant once, in turn, so that a machine that
slows down slows all of them; printed are medians of each ratio within a round, as Markdown tables. A process that goes
beyond --limit or --memory is ended, reported as such, and not tried again with more tokens. Environments are made once,
under --folder (several GB); checkpoints of 0.6B's and 4B's shape hold random numbers (1.2 and 8 GB). Nothing here is a
test.
"""

import argparse
import json
import platform
import statistics
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from tests.benchmarks import shapes
from tests.benchmarks.peers.contestants import CONTESTANTS, Contestant, Job
from tests.benchmarks.peers.environments import SHARED
from tests.benchmarks.peers.processes import Limits, Ran, run
from tracer import data, memory

BASE = "hooks by hand"
OWN, STOPPED = "trace (this tool)", "nnsight, `.source` and stop"
LAYERS = ("first", "middle")
LONG = 4096  # from here on fewer rounds and repeats: a forward pass takes minutes
# How far numbers may lie from the base's: both are of 16 bits, or of two kernels.
NEAR = 0.1


@dataclass
class Result:
    """What one contestant gave for one job."""

    seconds: list[float] = field(default_factory=list)
    peaks: list[float] = field(default_factory=list)
    inside: list[float] = field(default_factory=list)
    fault: str = ""  # of a whole process
    over: bool = False  # it went beyond a limit
    inside_fault: str = ""  # of the process with the clock inside
    delivered: dict[str, Any] = field(default_factory=dict)


def checkpoint(folder: Path, size: str) -> Path:
    """Return the folder of a checkpoint of ``size``, made where it is not there yet."""
    if size == "tiny":
        return data.shipped_checkpoint("qwen3-tiny")
    made = folder / f"checkpoint-{size}"
    if not (made / "complete").is_file():
        shapes.write(made, shapes.SHAPES[size])
        (made / "complete").touch()
    return made


def measure(
    contestants: Sequence[Contestant], folder: Path, job: Job, rounds: int, limits: Limits, over: Mapping[str, int]
) -> dict[str, Result]:
    """Return what each contestant gave for ``job`` in ``rounds`` rounds; those in ``over`` went beyond a limit with so
    many tokens before and are not tried."""
    pythons = {each.name: each.environment.python(folder) for each in contestants}
    found = {each.name: Result() for each in contestants}
    for name, tokens in over.items():
        found[name].fault = f"not tried: over the limit with {tokens} tokens"
    warm(job.checkpoint)
    for number in range(rounds):
        for each in contestants:
            result = found[each.name]
            if result.fault:
                continue
            print(f"  round {number + 1}: {each.name}", file=sys.stderr)
            ran = run(each.whole(pythons[each.name], job), limits)
            if ran.report is None:
                result.fault, result.over = _told(ran), ran.over
                continue
            result.seconds.append(ran.seconds)
            result.peaks.append(ran.peak_mib)
    for _ in range(1 if job.tokens >= LONG else 2):  # in turn too: whole runs of the clock inside
        for each in contestants:
            result = found[each.name]
            if result.fault or result.inside_fault:
                continue
            print(f"  inside: {each.name}", file=sys.stderr)
            ran = run(each.command(pythons[each.name], job, 1 if job.tokens >= LONG else 5), limits)
            if ran.report is None:
                result.inside_fault = _told(ran)
                continue
            result.inside += ran.report["seconds"]
            result.delivered = ran.report["delivered"]
    return found


def warm(checkpoint: Path) -> None:
    """Read a checkpoint's files once, so that whoever comes first does not wait for the disk in place of the others."""
    for file in sorted(checkpoint.glob("*.safetensors")):
        with file.open("rb", buffering=0) as stream:
            while stream.read(1 << 24):
                pass


def _told(ran: Ran) -> str:
    return f"{ran.fault}, not waited for" if ran.over else f"fails: {ran.fault}"


def unlike(delivered: dict[str, Any], base: dict[str, Any]) -> list[str]:
    """Return the names of what was delivered in another shape than the base's, or with other last numbers."""
    found = []
    for name, mine in delivered.items():
        theirs = base.get(name)
        if not isinstance(mine, dict) or not isinstance(theirs, dict) or "last" not in theirs:
            continue
        near = all(abs(a - b) <= NEAR * max(1.0, abs(b)) for a, b in zip(mine["last"], theirs["last"], strict=False))
        if mine["shape"] != theirs["shape"] or not near:
            found.append(name)
    return found


def ratios(result: Result, base: Result) -> tuple[str, str, str]:
    """Return whole process, in-process (– where one has none) and peak memory of a result against another's."""
    whole = statistics.median(a / b for a, b in zip(result.seconds, base.seconds, strict=True))
    pairs = ((result.inside, base.inside), (result.peaks, base.peaks))
    others = (f"{statistics.median(a) / statistics.median(b):.2f} ×" if a and b else "–" for a, b in pairs)
    return f"{whole:.2f} ×", *others


def table(found: dict[str, Result], contestants: Sequence[Contestant]) -> str:
    """Return the Markdown table of one job."""
    base = found[BASE]
    lines = [
        "| | whole process | | in-process | | peak memory | | lines | cannot deliver |",
        "|---|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    for each in contestants:
        result = found[each.name]
        if result.fault:
            lines.append(f"| {each.name} | {result.fault} | | | | | | {each.lines} | |")
            continue
        inside = f"{1000 * statistics.median(result.inside):.1f} ms" if result.inside else result.inside_fault
        ratio = peak = against = "–"  # where the base itself failed
        if not base.fault:
            ratio, against, peak = ratios(result, base)
        other = unlike(result.delivered, base.delivered)
        lacks = f"{each.lacks}; other numbers than {BASE}: {', '.join(other)}" if other else each.lacks
        lines.append(
            f"| {each.name} | {statistics.median(result.seconds):.2f} s | {ratio} | {inside} | {against} "
            f"| {statistics.median(result.peaks):.0f} MiB | {peak} | {each.lines} | {lacks} |"
        )
    return "\n".join(lines)


def beside(found: dict[str, Result], own: str, other: str) -> str:
    """Return how ``own`` compares with ``other``, in a line; "" where one of them did not come to an end."""
    mine, theirs = found.get(own), found.get(other)
    if mine is None or theirs is None or mine.fault or theirs.fault:
        return ""
    whole, inside, peak = ratios(mine, theirs)
    return f"\nBeside {other}: whole process {whole}, in-process {inside}, peak memory {peak}."


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/peers"), help="for environments and checkpoints")
    parser.add_argument("--quick", action="store_true", help="0.6B's shape and qwen3-tiny, 64 tokens, three rounds")
    parser.add_argument("--sizes", nargs="*", choices=("tiny", "0.6B", "4B"))
    parser.add_argument("--tokens", nargs="*", type=int)
    parser.add_argument("--layers", nargs="*", choices=LAYERS, default=LAYERS)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--only", nargs="*", help="contestants whose name contains one of these")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for one process (default: 300)")
    parser.add_argument("--memory", type=float, help="MiB for one process (default: three quarters of what is free)")
    asked = parser.parse_args()
    free = memory.available()
    limits = Limits(asked.limit, asked.memory or (free * 0.75 / (1 << 20) if free else None))
    sizes = asked.sizes or (["tiny", "0.6B"] if asked.quick else ["tiny", "0.6B", "4B"])
    lengths = asked.tokens or ([64] if asked.quick else [64, 512, 4096])
    contestants = [
        each for each in CONTESTANTS if not asked.only or any(part in each.name for part in (BASE, *asked.only))
    ]
    folder = asked.folder.resolve()
    print(f"{date.today()}, {platform.processor() or platform.machine()}, Python {platform.python_version()}")
    every = {each.environment for each in contestants if each.environment.packages}
    print(", ".join([*SHARED, *sorted(each.version(folder) for each in every)]))
    for size in sizes:
        place = checkpoint(folder, size)
        settings = json.loads((place / "config.json").read_text(encoding="utf-8"))
        over: dict[int, dict[str, int]] = defaultdict(dict)
        for tokens in sorted(lengths):
            for layer in (0 if name == "first" else settings["num_hidden_layers"] // 2 for name in asked.layers):
                if tokens > settings["max_position_embeddings"]:
                    continue
                print(f"\n**{size}, {tokens} tokens, layer {layer}**\n", flush=True)
                found = measure(
                    contestants,
                    folder,
                    Job(place, tokens, layer),
                    asked.rounds or (3 if asked.quick or tokens >= LONG else 7),
                    limits,
                    over[layer],
                )
                over[layer] |= {name: tokens for name, result in found.items() if result.over}
                print(table(found, contestants), beside(found, OWN, STOPPED), sep="\n", flush=True)


if __name__ == "__main__":
    main()
