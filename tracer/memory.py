"""How much memory a run will keep, told before it starts, and how much it may.

All sizes in bytes. Must not know: torch, how a run goes.
"""

import os
from pathlib import Path

from tracer.errors import InputError
from tracer.records import ModelFacts

DEFAULT_LIMIT = 8 << 30  # where the system does not say how much memory is free
DTYPE_BYTES = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2}
# Of each query head the projected, normed, rotated and merged numbers, of each key/value head the projected ones (two),
# the normed and the rotated ones. Beside them what the kernel is given and gives, of every head.
_QUERY_STEPS, _KEY_STEPS = 4, 4
_HIDDEN = 2  # what the attention is given, and what it gives
# Of each head that is looked at, q, k, v and the output in float64, for its checks.
_RECOMPUTED = 4
# While one layer's attention runs again: copies of all its queries, keys and values, and of hidden states.
_AGAIN, _HIDDEN_AT_ONCE = 5, 5
_MLP = 4  # while a layer's MLP runs: gate, its activation, up, their product; allocators hold them back for a while
_BLOCKS = 3 << 24  # of rows, while scores are computed and compared
_SCORES_AT_ONCE = 5  # sets of all scores while they become weights, in float32 at least
# A verification holds one layer's queries, keys and values in float64 this many times: as made, normed, arrived, right,
# and what the difference takes.
_JUDGED = 10
# Of scores that it computes itself at once, whatever the number of heads (probes.py), and how many such stacks.
_STACK, _STACKS = 1 << 24, 3
# Numbers of a score's place beside that: the weights that were read, twice while they are joined, and masks.
_READ_BYTES, _MASK_BYTES = 8, 12
_SCORES_JUDGED = 4  # sets of all scores, beside these, of an eager path
_WAITING = 3  # sets of the next layer's queries, keys and values in the run's dtype, while one is judged
_THOROUGH = 3  # every row is compared, not only the first and last ones
_GIB = 1 << 30


def score_bytes(heads: int, tokens: int, size: int) -> int:
    """Return the size of one score for every query, key and head; ``size``: bytes of one number."""
    return heads * tokens * tokens * size


def kept_bytes(model: ModelFacts, *, tokens: int, dtype: str, kernel: str, heads: int, alone: bool) -> int:
    """Return about how much a trace of one layer keeps.

    ``dtype`` as safetensors names it; ``heads``: how many are looked at. ``alone``: of the steps before the kernel only
    one head's part is kept; of what the kernel was given and gave, every head's is. In eager all weights are kept,
    [1, H, T, T].
    """
    size = _size(dtype)
    steps = _QUERY_STEPS + _KEY_STEPS if alone else _QUERY_STEPS * model.heads + _KEY_STEPS * model.kv_heads
    kernels = 2 * (model.heads + model.kv_heads)  # q and the output; k and v
    wide = (steps + kernels + heads) * model.head_dim + _HIDDEN * model.hidden_size
    precise = model.heads + 2 * model.head_dim  # lse; cosines and sines
    kept = tokens * (wide * size + precise * _precise(dtype))
    return kept + (score_bytes(model.heads, tokens, _precise(dtype)) if kernel == "eager" else 0)


def needed(
    model: ModelFacts, *, tokens: int, layers: int, dtype: str, kernel: str, heads: int, alone: bool, inner: int
) -> int:
    """Return about how much memory a run of ``layers`` layers takes beside the weights.

    What is kept of each (see kept_bytes), its heads in float64, and what one layer at a time takes while it runs;
    ``inner`` is the width of its MLP (0: none runs). In eager the scores of all heads exist at once, [1, H, T, T].
    """
    size = _size(dtype)
    kept = kept_bytes(model, tokens=tokens, dtype=dtype, kernel=kernel, heads=heads, alone=alone)
    judged = tokens * heads * _RECOMPUTED * model.head_dim * DTYPE_BYTES["F64"]
    again = _AGAIN * (model.heads + 2 * model.kv_heads) * model.head_dim
    running = tokens * size * (again + _MLP * inner + _HIDDEN_AT_ONCE * model.hidden_size)
    if kernel == "eager":
        running += score_bytes(model.heads, tokens, _precise(dtype)) * _SCORES_AT_ONCE
    return (kept + judged) * layers + running + _BLOCKS


def _size(dtype: str) -> int:
    return DTYPE_BYTES.get(dtype, max(DTYPE_BYTES.values()))


def _precise(dtype: str) -> int:
    """Weights leave the softmax in float32 at least, and so do cosines, sines and logsumexps."""
    return max(_size(dtype), DTYPE_BYTES["F32"])


def verification_needed(model: ModelFacts, *, tokens: int, layers: int, dtype: str, kernel: str, thorough: bool) -> int:
    """Return about how much memory verifying ``layers`` layers takes beside the weights.

    One layer is judged at a time, while the next one runs; of the others only hidden states and outputs are kept. The
    effective weights of all heads are read, [H, T, T], so this grows with the square of the tokens whatever the kernel.
    """
    size = _size(dtype)
    numbers = tokens * (model.heads + 2 * model.kv_heads) * model.head_dim
    judged = numbers * DTYPE_BYTES["F64"] * _JUDGED
    kept = 2 * tokens * model.hidden_size * size * layers
    scores = score_bytes(model.heads, tokens, 1)
    stacks = min(scores, max(_STACK, tokens * tokens)) * DTYPE_BYTES["F32"] * _STACKS
    square = scores * _READ_BYTES + tokens * tokens * _MASK_BYTES + stacks
    if kernel == "eager":
        square += scores * size * _SCORES_JUDGED
    waiting = numbers * size * _WAITING + scores * _READ_BYTES if layers > 1 else 0
    return judged + kept + square * (_THOROUGH if thorough else 1) + waiting


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
