"""How a prompt comes in: whole (prefill), behind a prefix that is cached already, or one last token (decode).

What nano-vllm's scheduler would tell its model about one sequence. Must not know: models, kernels.
"""

from dataclasses import dataclass
from typing import Any

from tracer.errors import InputError

CONTEXT = "nanovllm.utils.context"
PAGE = 256  # nano-vllm's own; flash-attn wants a multiple of it


@dataclass(frozen=True)
class Phase:
    """``cached`` tokens are in the cache when the rest comes in; ``decode``: the rest is one token, in decode.

    ``order`` are the numbers of the cache's pages in the order of the sequence; None: one after another.
    """

    cached: int = 0
    decode: bool = False
    page: int = PAGE
    order: tuple[int, ...] | None = None

    def check(self, length: int) -> None:
        """Raise InputError where a prompt of ``length`` tokens cannot come in so."""
        if self.decode and length < 2:
            raise InputError("nanovllm.decode_alone")
        if self.decode and self.cached != length - 1:
            raise InputError("nanovllm.decode", cached=self.cached, length=length)
        if not 0 <= self.cached < length:
            raise InputError("nanovllm.cached", cached=self.cached, length=length)

    def pages(self, length: int) -> tuple[int, ...]:
        """Return the pages of a sequence of ``length`` tokens, in its order."""
        count = -(-length // self.page)
        pages = tuple(range(count)) if self.order is None else self.order
        if len(set(pages)) != len(pages) or len(pages) < count or min(pages, default=0) < 0:
            raise InputError("nanovllm.pages", found=list(pages), count=count, length=length)
        return pages[:count]


PREFILL = Phase()


@dataclass(frozen=True)
class Scheduled:
    """One part of a prompt: its ids, where it starts, and the pages of the cache (None: no cache)."""

    ids: tuple[int, ...]
    start: int
    decode: bool
    page: int
    pages: tuple[int, ...] | None

    def positions(self, device: str) -> Any:
        """Return the positions of the tokens, [T] int64."""
        import torch

        return torch.arange(self.start, self.start + len(self.ids), device=device)

    def context(self, device: str) -> dict[str, Any]:
        """Return the arguments of nano-vllm's ``set_context``."""
        import torch

        def whole(*values: int) -> Any:
            return torch.tensor(values, dtype=torch.int32, device=device)

        new, end = len(self.ids), self.start + len(self.ids)
        if self.pages is None:
            bounds = whole(0, new)
            return _prefill(bounds, bounds, new, new)
        slots = [self.pages[t // self.page] * self.page + t % self.page for t in range(self.start, end)]
        table = whole(*self.pages)[None]
        if self.decode:
            return {
                "is_prefill": False,
                "slot_mapping": whole(*slots),
                "context_lens": whole(end),
                "block_tables": table,
            }
        # its scheduler gives a block table only where some keys are not new; without one the cache is not read
        read = {"block_tables": table} if self.start else {}
        return {**_prefill(whole(0, new), whole(0, end), new, end), "slot_mapping": whole(*slots), **read}


def _prefill(starts_q: Any, starts_k: Any, longest_q: int, longest_k: int) -> dict[str, Any]:
    return {
        "is_prefill": True,
        "cu_seqlens_q": starts_q,
        "cu_seqlens_k": starts_k,
        "max_seqlen_q": longest_q,
        "max_seqlen_k": longest_k,
    }


def schedule(ids: tuple[int, ...], phase: Phase) -> list[Scheduled]:
    """Return the parts of a prompt in the order they run; raises InputError for a phase that the prompt is too short
    for."""
    phase.check(len(ids))
    if not phase.cached:
        return [Scheduled(ids, 0, False, phase.page, None)]
    pages = phase.pages(len(ids))
    first = Scheduled(ids[: phase.cached], 0, False, phase.page, pages)
    return [first, Scheduled(ids[phase.cached :], phase.cached, phase.decode, phase.page, pages)]
