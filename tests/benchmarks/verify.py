"""What a verification costs: ``python -m tests.benchmarks.verify [FOLDER]``.

Every layer and head of a random checkpoint of Qwen3-0.6B's shape (bfloat16, 1.2 GB) on 256 tokens, against plain
forward passes of the same model, one before and one after. Printed are the ratios of time and of processor time.
Nothing here is a test: timing never decides one.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.benchmarks.shapes import SHAPES, write
from tracer.verification.entry import verify_checkpoint

TOKENS = 256


def timed(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return seconds, processor seconds and what ``work`` gave."""
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    return time.perf_counter() - wall, time.process_time() - processor, result


def plain(folder: Path, ids: list[int]) -> tuple[float, float]:
    """Return seconds and processor seconds of one forward pass of transformers' own model, the second of two."""
    from transformers import Qwen3Model

    model = Qwen3Model.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation="sdpa").eval()
    row = torch.tensor([ids])
    with torch.no_grad():
        model(row, use_cache=False)
        wall, processor, _ = timed(lambda: model(row, use_cache=False))
    return wall, processor


def measure(folder: Path, thorough: bool) -> None:
    """Print what verifying the checkpoint in ``folder`` costs."""
    ids = [int(id) for id in np.random.default_rng(0).integers(0, SHAPES["0.6B"]["vocab_size"], TOKENS)]
    verify_checkpoint(str(folder), layers=(0,), tokens=ids[:8])  # imports, anchors
    before = plain(folder, ids)
    wall, processor, found = timed(
        lambda: verify_checkpoint(str(folder), layers=None, tokens=ids, kernel="cpu-flash", thorough=thorough)
    )
    after = plain(folder, ids)
    forward = [(a + b) / 2 for a, b in zip(before, after, strict=True)]
    print(f"threads {torch.get_num_threads()}, exit code {found.exit_code}, {len(found.outcomes)} outcomes")
    print(f"plain forward {forward[0]:.2f} s ({forward[1]:.2f} s of processor time)")
    print(f"verification {wall:.1f} s ({processor:.1f} s of processor time)")
    print(f"ratio {wall / forward[0]:.1f} (processor time {processor / forward[1]:.1f})")


def main() -> None:
    """Measure on a checkpoint written anew, or on one written before."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="a checkpoint of that shape (default: written anew)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--thorough", action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    if asked.folder is not None:
        measure(asked.folder, asked.thorough)
        return
    with tempfile.TemporaryDirectory() as folder:
        measure(write(Path(folder), SHAPES["0.6B"], shard=None), asked.thorough)


if __name__ == "__main__":
    main()
