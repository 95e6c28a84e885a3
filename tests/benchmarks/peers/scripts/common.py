"""What every script shares: the job it is given and how it reports. Runs in each peer's environment, without tracer."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


class Job(NamedTuple):
    """A checkpoint's folder, token ids, layer, head, and how often to repeat inside the process."""

    folder: str
    ids: list[int]
    layer: int
    head: int
    repeats: int


def job() -> Job:
    """Return the job from the command line: FOLDER TOKENS LAYER HEAD REPEATS."""
    folder, tokens, layer, head, repeats = sys.argv[1:]
    return Job(folder, ids(folder, int(tokens)), int(layer), int(head), int(repeats))


def ids(folder: str, count: int) -> list[int]:
    """Return the token ids of the job: the same for everyone, all in the vocabulary."""
    vocabulary = json.loads(Path(folder, "config.json").read_text(encoding="utf-8"))["vocab_size"]
    return [(n * 7919) % min(100, vocabulary) for n in range(count)]


def report(work: Callable[[], dict[str, Any]], repeats: int) -> None:
    """Run ``work`` once, then ``repeats`` times more with a clock, and print what was delivered, as one JSON line."""
    delivered = work()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"seconds": seconds, "delivered": {name: told(value) for name, value in delivered.items()}}))


def told(value: Any) -> Any:
    """Return a delivered value as JSON: of a tensor its shape and a few numbers, to see that all deliver the same."""
    if hasattr(value, "detach"):
        flat = value.detach().float().reshape(-1)
        return {"shape": list(value.shape), "sum": round(float(flat.double().sum()), 3), "last": flat[-3:].tolist()}
    return value if isinstance(value, (int, float, bool, str, dict)) or value is None else str(value)
