"""Tensor parallel: every layer split over the processes that torchrun started, by transformers' own plan, each process
tracing the heads that it holds, and rank 0 putting them together again.

Must not know: probes, pages.
"""

import datetime
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from tracer.arrays import Array
from tracer.checkpoint.checkpoint import Checkpoint
from tracer.engines.transformers import engine, loading
from tracer.engines.transformers.definitions import Code
from tracer.engines.transformers.engine import Wanted
from tracer.engines.transformers.ranks import Ranks
from tracer.errors import InputError, Unsupported
from tracer.records import Capture, Choice, Effects, KernelCall, LayerTrace, ModelFacts, Token
from tracer.texts import Message, message

# How long a process waits for the others before it gives up: they load at different speeds.
_PATIENCE = datetime.timedelta(minutes=10)
_OF_HEADS = ("H", "K", "H·D", "K·D")


def trace_layers(
    checkpoint: Checkpoint, tokens: tuple[Token, ...], wanted: Wanted, layers: Sequence[int], ranks: Ranks
) -> tuple[LayerTrace, ...]:
    """Return on rank 0 the trace of each of ``layers`` with all heads, as one process would have it; elsewhere nothing.

    Raises InputError where the key/value heads cannot be dealt out evenly, Unsupported where the processes cannot be
    joined or did not compute the same.
    """
    facts = checkpoint.model_facts(layers[0])
    check_split(facts, ranks)
    mine = ranks.share(facts.heads)
    own = tuple(head - mine.start for head in wanted.heads if head in mine)

    def load(checkpoint: Checkpoint, last: int, code: Code) -> Any:
        from transformers.distributed.configuration_utils import DistributedConfig

        checkpoint.require_layers(last, attention_only_for_last=False)
        dtype, attention = wanted.request.dtype.value, wanted.kernel.attn_implementation
        plan = DistributedConfig(tp_plan="auto")
        return loading.load(checkpoint, dtype, attention, code, last, distributed_config=plan)

    with _group(ranks):
        traced = engine.trace_layers(checkpoint, tokens, replace(wanted, heads=own, load=load, light=False), layers)
        gathered = _gathered(traced, ranks)
    every = len(wanted.heads) == facts.heads
    return tuple(join(parts, ranks, every) for parts in zip(*gathered, strict=True)) if gathered else ()


def check_split(facts: ModelFacts, ranks: Ranks) -> None:
    """Raise InputError unless each rank gets the same number of whole key/value heads."""
    if facts.kv_heads % ranks.count:
        fitting = ", ".join(str(n) for n in range(2, facts.kv_heads + 1) if facts.kv_heads % n == 0)
        raise InputError("parallel.kv_heads", count=ranks.count, kv_heads=facts.kv_heads, fitting=fitting or "1")


@contextmanager
def _group(ranks: Ranks) -> Iterator[None]:
    """Join the processes for one ``with``."""
    import torch
    from torch import distributed

    loading.require_accelerate("parallel.no_accelerate")
    if not distributed.is_available():
        raise Unsupported("parallel.no_distributed", torch=str(torch.__version__))
    if distributed.is_initialized():  # the caller's own
        yield
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(ranks.local)
    try:
        distributed.init_process_group(timeout=_PATIENCE)
    except (RuntimeError, ValueError, OSError) as fault:
        raise Unsupported("parallel.not_joined", count=ranks.count, fault=str(fault).splitlines()[0]) from fault
    try:
        yield
    finally:
        distributed.destroy_process_group()


def _gathered(traced: tuple[LayerTrace, ...], ranks: Ranks) -> list[tuple[LayerTrace, ...]]:
    """Return what each rank traced, on rank 0; nothing on the others."""
    from torch import distributed

    every: list[Any] | None = [None] * ranks.count if ranks.rank == 0 else None
    distributed.gather_object(traced, every, dst=0)
    return every or []


# ------------------------------------------------------------------------------------------- from parts to a whole


def join(parts: Sequence[LayerTrace], ranks: Ranks, every: bool = False) -> LayerTrace:
    """Return one layer's trace from what each rank, in order, traced of it; ``every``: all heads are looked at.

    What has heads is laid side by side; what every rank holds whole must have the same bits on all of them, and so must
    the kernel's scale and flag; raises Unsupported where not. Paths of values are those that the asked head's rank saw.
    """
    facts, head = parts[0].model, parts[0].request.head
    rank = ranks.owner(head, facts.heads)
    first = parts[rank]
    device = message("parallel.device", count=ranks.count)
    return replace(
        first,
        request=replace(first.request, device=Choice(first.request.device.value, device)),
        captures={name: _capture([part.captures[name] for part in parts]) for name in first.captures},
        kernel=_kernel([part.kernel for part in parts]),
        effects=_effects([part.effects for part in parts], ranks, facts.heads),
        warnings=(*placement(facts, head, ranks, every), *first.warnings),
    )


def placement(facts: ModelFacts, head: int, ranks: Ranks, every: bool = False) -> tuple[Message, ...]:
    """Return the sentences that say which heads lie on which rank: where the asked one lies, or of ``every`` one."""
    each, each_kv = len(ranks.share(facts.heads)), len(ranks.share(facts.kv_heads))
    split = message("parallel.ranks", count=ranks.count, heads=each, kv_heads=each_kv)
    if every and head == 0:  # no head was asked for, or the first of them, which is the first of its rank
        held = [(ranks.share(facts.heads, rank), ranks.share(facts.kv_heads, rank)) for rank in range(ranks.count)]
        named = [f"rank {rank}: {own[0]}–{own[-1]} (KV {kv[0]}–{kv[-1]})" for rank, (own, kv) in enumerate(held)]
        return (split, message("parallel.shares", shares="; ".join(named)))
    rank = ranks.owner(head, facts.heads)
    heads, kv_heads = ranks.share(facts.heads, rank), ranks.share(facts.kv_heads, rank)
    kv_head = facts.kv_head(head)
    return (
        split,
        message(
            "parallel.head",
            head=head,
            rank=rank,
            last_rank=ranks.count - 1,
            local=head - heads.start,
            first=heads.start,
            last=heads.stop - 1,
            kv_head=kv_head,
            kv_local=kv_head - kv_heads.start,
        ),
    )


def _capture(parts: Sequence[Capture]) -> Capture:
    first = parts[0]
    axis = next((place for place, axis in enumerate(first.axes) if axis in _OF_HEADS), None)
    if axis is not None:
        return replace(first, array=_side_by_side([part.array for part in parts], axis))
    if not all(part.array.same_bits(first.array) for part in parts):
        raise Unsupported("parallel.differ", what=first.name)
    return first


def _kernel(parts: Sequence[KernelCall]) -> KernelCall:
    first = parts[0]
    if any(part.arguments != first.arguments for part in parts):
        raise Unsupported("parallel.differ", what=first.function)
    sums = [part.lse for part in parts if part.lse is not None]
    return replace(
        first,
        output=_side_by_side([part.output for part in parts], 1),
        lse=_side_by_side(sums, 0) if len(sums) == len(parts) else None,
    )


def _effects(parts: Sequence[Effects], ranks: Ranks, heads: int) -> Effects:
    """Return what running again showed on all ranks together."""
    changed = []
    for same in zip(*(part.changed for part in parts), strict=True):
        earlier = [row for _, row, _ in same if row is not None]
        changed.append((same[0][0], min(earlier, default=None), any(moved for _, _, moved in same)))
    numbered = [head + ranks.share(heads, rank).start for rank, part in enumerate(parts) for head in part.eager_heads]
    return Effects(
        untraced_same=all(part.untraced_same for part in parts),
        changed=tuple(changed),
        eager=_side_by_side([part.eager for part in parts], 1),
        eager_heads=tuple(numbered),
    )


def _side_by_side(arrays: Sequence[Array], axis: int) -> Array:
    return Array(arrays[0].dtype, np.concatenate([array.bits for array in arrays], axis=axis))
