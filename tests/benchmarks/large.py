"""Layer 0 of a checkpoint larger than memory against layer 0 of a small one: ``python -m tests.benchmarks.large``.

Whole commands, in turn: a 65 GB checkpoint of 32B's shape (shards of 4 GB, sparse files of which layer 0 alone holds
numbers) and one of 0.6B's shape. Printed are medians of the ratio within each round, and peak memory. ``--one-file``
adds the same 65 GB in a single file. Nothing here is a test: timing never decides one.
"""

import argparse
import statistics
from pathlib import Path

from tests.benchmarks import shapes
from tests.benchmarks.growth import Cost, Point, command, cost
from tests.benchmarks.peers.processes import run

WANTED_RATIO, WANTED_GIB = 3.0, 3.0


def one_file(folder: Path) -> Path:
    """Return the large checkpoint as one file."""
    made = folder / "sparse-32B-0-one-file"
    if not (made / "complete").is_file():
        shapes.write(made, shapes.SHAPES["32B"], layers=(0,), shard=None)
        (made / "complete").touch()
    return made


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/growth"), help="for the checkpoints")
    parser.add_argument("--one-file", action="store_true")
    parser.add_argument("-n", "--rounds", type=int, default=5)
    asked = parser.parse_args()
    folder = asked.folder.resolve()
    small, large = (command(folder, Point(size, 0, 64)) for size in ("0.6B", "32B"))
    commands = {"0.6B": small, "32B in shards": large}
    if asked.one_file:
        place = large.index("--checkpoint") + 1
        commands["32B in one file"] = [*large[:place], str(one_file(folder)), *large[place + 1 :]]
    found: dict[str, list[Cost]] = {name: [] for name in commands}
    for _ in range(asked.rounds):
        for name, line in commands.items():
            found[name].append(cost(run(line)))
    base = found["0.6B"]
    for name, costs in found.items():
        seconds = statistics.median(a.seconds / b.seconds for a, b in zip(costs, base, strict=True))
        processor = statistics.median(a.processor / b.processor for a, b in zip(costs, base, strict=True))
        peak = max(one.peak for one in costs) / 1024
        clock = statistics.median(one.seconds for one in costs)
        print(
            f"{name:>16}: {clock:6.2f} s, {seconds:.2f} × 0.6B's time ({processor:.2f} × its processor time), "
            f"peak {peak:.2f} GiB, {costs[0].read:.1f} MB read"
        )
    print(f"wanted: at most {WANTED_RATIO} × the time, {WANTED_GIB} GB peak")


if __name__ == "__main__":
    main()
