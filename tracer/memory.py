"""How much memory a run will keep, told before it starts, and how much it may.

All sizes in bytes. Must not know: torch, how a run goes.
"""

import os
from pathlib import Path

from tracer.errors import InputError
from tracer.records import ModelFacts

DEFAULT_LIMIT = 8 << 30  # where the system does not say how much memory is free
DTYPE_BYTES = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2}
# Of each number of q, k and v a run keeps: the projected, normalised, rotated and handed-over ones in the run's dtype,
# and what the checks recompute of them in float64.
_KEPT_OF_EACH = 8
# Of all scores at once: two sets while they become weights, and for each layer one that is kept.
_SCORES_AT_ONCE = 2
_GIB = 1 << 30


def score_bytes(heads: int, tokens: int, size: int) -> int:
    """Return the size of one score for every query, key and head; ``size``: bytes of one number."""
    return heads * tokens * tokens * size


def capture_bytes(tokens: int, heads: int, kv_heads: int, head_dim: int, size: int) -> int:
    """Return about how much is kept of one layer's queries, keys and values and of the checks of all these heads."""
    return tokens * (heads + 2 * kv_heads) * head_dim * size * _KEPT_OF_EACH


def needed(model: ModelFacts, *, tokens: int, layers: int, dtype: str, kernel: str, heads: int) -> int:
    """Return about how much memory a run of ``layers`` layers takes beside the weights.

    ``dtype`` as safetensors names it; ``heads``: how many are looked at. Of a single one on the CPU flash kernel only
    its own numbers are kept; in eager the scores of all heads exist at once, [1, H, T, T].
    """
    size = DTYPE_BYTES.get(dtype, max(DTYPE_BYTES.values()))
    alone = heads == 1 and kernel == "cpu-flash"
    kept = capture_bytes(tokens, *((1, 1) if alone else (model.heads, model.kv_heads)), model.head_dim, size)
    total = kept * layers
    if kernel == "eager":
        total += score_bytes(model.heads, tokens, size) * (_SCORES_AT_ONCE + layers)
    return total


def limit() -> int:
    """Return how much a run may take: half of the memory that is available here, 8 GiB where that is not known."""
    free = available()
    return DEFAULT_LIMIT if free is None else free // 2


def available(meminfo: Path = Path("/proc/meminfo")) -> int | None:
    """Return the memory that can be had without swapping, or None where the system does not say.

    Linux tells it in /proc/meminfo; elsewhere half of what is built in is a cautious guess.
    """
    try:
        lines = meminfo.read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, IndexError, StopIteration):
        pass  # no Linux, or an old one
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, OSError, ValueError):
        return None  # Windows has no sysconf


def check(needed: int, allowed: int, tokens: int) -> None:
    """Raise InputError, with the estimate, the limit and what to do, where ``needed`` is more than ``allowed``."""
    if needed > allowed:
        raise InputError("pipeline.memory", needed=needed / _GIB, limit=allowed / _GIB, tokens=tokens)
