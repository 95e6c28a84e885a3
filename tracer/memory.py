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
# A verification holds one layer's queries, keys and values in float64 this many times: as made, normed, arrived, right,
# and what the difference takes.
_JUDGED = 10
# Of scores that it computes itself at once, whatever the number of heads (probes.py), and how many such stacks.
_STACK, _STACKS = 1 << 24, 3
# Numbers of a score's place beside that: the weights that were read, twice while they are joined, and masks.
_READ_BYTES, _MASK_BYTES = 8, 12
_THOROUGH = 3  # every row is compared, not only the first and last ones
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


def verification_needed(model: ModelFacts, *, tokens: int, layers: int, dtype: str, kernel: str, thorough: bool) -> int:
    """Return about how much memory verifying ``layers`` layers takes beside the weights.

    One layer is judged at a time; of the others only hidden states and outputs are kept. The effective weights of all
    heads are read, [H, T, T], so this grows with the square of the tokens whatever the kernel.
    """
    size = DTYPE_BYTES.get(dtype, max(DTYPE_BYTES.values()))
    judged = tokens * (model.heads + 2 * model.kv_heads) * model.head_dim * DTYPE_BYTES["F64"] * _JUDGED
    kept = 2 * tokens * model.hidden_size * size * layers
    scores = score_bytes(model.heads, tokens, 1)
    stacks = min(scores, max(_STACK, tokens * tokens)) * DTYPE_BYTES["F32"] * _STACKS
    square = scores * _READ_BYTES + tokens * tokens * _MASK_BYTES + stacks
    if kernel == "eager":
        square += scores * size * (_SCORES_AT_ONCE + 2)
    return judged + kept + square * (_THOROUGH if thorough else 1)


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


def check(needed: int, allowed: int, tokens: int, told: str = "pipeline.memory") -> None:
    """Raise InputError ``told``, with the estimate, the limit and what to do, where ``needed`` is more than
    ``allowed``."""
    if needed > allowed:
        raise InputError(told, needed=needed / _GIB, limit=allowed / _GIB, tokens=tokens)
