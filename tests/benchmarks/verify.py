"""What a verification costs: ``python -m tests.benchmarks.verify [FOLDER]``.

Every layer and head of a random checkpoint of Qwen3-0.6B's shape (bfloat16, 1.2 GB) on 256 tokens, against plain
forward passes of transformers' own model in processes of their own, by turns. Printed are the ratios of time and of
processor time, round by round, and their medians. Nothing here is a test: timing never decides one.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from tests.benchmarks.shapes import SHAPES, write

TOKENS = 256
_PASSES = 5


def timed(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return seconds, processor seconds and what ``work`` gave."""
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    return time.perf_counter() - wall, time.process_time() - processor, result


def token_ids() -> list[int]:
    """Return the prompt: random token ids."""
    return [int(id) for id in np.random.default_rng(0).integers(0, SHAPES["0.6B"]["vocab_size"], TOKENS)]


def plain(folder: Path) -> dict[str, float]:
    """Return seconds and processor seconds of one forward pass of transformers' own model, medians after a first."""
    import torch
    from transformers import Qwen3Model

    model = Qwen3Model.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation="sdpa").eval()
    row = torch.tensor([token_ids()])
    with torch.no_grad():
        model(row, use_cache=False)
        passes = [timed(lambda: model(row, use_cache=False)) for _ in range(_PASSES)]
    wall, processor = (median(each[n] for each in passes) for n in range(2))
    return {"seconds": wall, "processor": processor}


def verify(folder: Path, thorough: bool) -> dict[str, float]:
    """Return what verifying the checkpoint in ``folder`` takes: all of it, and without reading the checkpoint.

    Python's collector leaves out what the imports made, as the command has it.
    """
    from tracer.cli import collector
    from tracer.verification.entry import verify_checkpoint

    verify_checkpoint(str(folder), layers=(0,), tokens=token_ids()[:8])  # imports, anchors
    collector.hold()
    collector.release()
    wall, processor, found = timed(
        lambda: verify_checkpoint(str(folder), layers=None, tokens=token_ids(), kernel="cpu-flash", thorough=thorough)
    )
    outcomes = {"outcomes": len(found.outcomes), "exit_code": found.exit_code}
    return {"seconds": wall, "processor": processor, "examining": found.seconds, **outcomes}


def measure(folder: Path, rounds: int, thorough: bool) -> None:
    """Print what verifying the checkpoint in ``folder`` costs."""
    forward, ratios = _child("plain", folder, False), []
    print(f"plain forward {forward['seconds']:.2f} s ({forward['processor']:.2f} s of processor time)")
    for _ in range(rounds):
        whole, after = _child("verify", folder, thorough), _child("plain", folder, False)
        mean, processor = ((forward[name] + after[name]) / 2 for name in ("seconds", "processor"))
        ratios.append((whole["seconds"] / mean, whole["examining"] / mean, whole["processor"] / processor))
        print(
            f"verification {whole['seconds']:.1f} s ({whole['processor']:.1f} s of processor time), "
            f"{whole['examining']:.1f} s without reading the checkpoint; "
            f"exit code {whole['exit_code']}, {whole['outcomes']} outcomes"
        )
        print(f"plain forward {after['seconds']:.2f} s ({after['processor']:.2f} s of processor time)")
        forward = after
    shown = (median(column) for column in zip(*ratios, strict=True))
    print("ratio {:.1f}, without reading the checkpoint {:.1f}, of processor time {:.1f}".format(*shown))


def _child(what: str, folder: Path, thorough: bool) -> dict[str, float]:
    """Return what one process of its own measured; a verification's threads wait as those of the command do."""
    policy = {"OMP_WAIT_POLICY": "passive"} if what == "verify" else {}
    command = [sys.executable, "-m", "tests.benchmarks.verify", str(folder), "--only", what]
    command += ["--thorough"] if thorough else []
    done = subprocess.run(command, env={**os.environ, **policy}, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    """Measure on a checkpoint written anew, or on one written before."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="a checkpoint of that shape (default: written anew)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--thorough", action="store_true")
    parser.add_argument("--only", choices=("plain", "verify"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.only is not None:
        print(json.dumps(plain(asked.folder) if asked.only == "plain" else verify(asked.folder, asked.thorough)))
        return
    if asked.folder is not None:
        measure(asked.folder, asked.rounds, asked.thorough)
        return
    with tempfile.TemporaryDirectory() as folder:
        measure(write(Path(folder), SHAPES["0.6B"], shard=None), asked.rounds, asked.thorough)


if __name__ == "__main__":
    main()
