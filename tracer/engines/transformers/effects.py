"""Run the asked layer's attention again, untraced and with one position changed, and say what moved.

Must not know: probes, pages.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from tracer.arrays import Array
from tracer.engines.arrays import to_array
from tracer.engines.transformers.lending import KernelWatch
from tracer.engines.transformers.steps import OneHead
from tracer.maths.criterion import eager_rows
from tracer.records import Effects

_ROWS = 512


@dataclass(frozen=True)
class Call:
    """One call of an attention module as the model made it; ``hidden`` [B, T, C] is a copy."""

    module: Any
    hidden: Any
    arguments: dict[str, Any]
    output: Any

    def again(self, hidden: Any) -> Any:
        """Return the module's output [B, T, C] for ``hidden`` in place of what it was given."""
        return self.module(hidden_states=hidden, **self.arguments)[0]


@dataclass(frozen=True)
class Alone:
    """Run again for one head alone, as a long prompt is: the kernel is asked for that head and no other."""

    watch: KernelWatch
    one: OneHead

    def running(self, *, keep: bool = False) -> AbstractContextManager[None]:
        """Return the ``with`` in which the kernel computes that head; ``keep`` what it was given and gave, for same."""
        return self.watch.only(self.one.head, self.one.kv_head, keep=keep)

    def same(self, q: Any, k: Any, v: Any, output: Any) -> bool:
        """Return whether the latest such run gave the kernel the bits of ``q``, ``k``, ``v`` (all heads), and the
        kernel that head's bits of ``output``."""
        seen = self.watch.narrow
        if seen is None:
            return False
        given = all(same_bits(seen.arguments[name], x) for name, x in (("q", q), ("k", k), ("v", v)))
        return given and same_bits(seen.output, output[:, self.one.head])


def same_bits(a: Any, b: Any) -> bool:
    """Return whether two tensors have one dtype, shape and bits: NaN equals the same NaN, 0.0 differs from -0.0."""
    import torch

    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(_bits(a), _bits(b))


def _bits(tensor: Any) -> Any:
    """Return the tensor's bits as integers, same shape: NaN differs from itself, its bits do not."""
    import torch

    return tensor.contiguous().view({2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()])


def observe(
    call: Call,
    q: Any,
    k: Any,
    v: Any,
    scale: float,
    window: int | None,
    heads: tuple[int, ...],
    *,
    output: Any = None,
    alone: Alone | None = None,
) -> Effects:
    """Return what re-running shows; q, k, v [T, heads, D] are what the kernel was given, for the eager comparison.

    ``output`` [T, H, D] is what it gave: of a long prompt it says for which rows plain products are computed.
    """
    import torch

    length = call.hidden.shape[1]
    with torch.no_grad():
        with alone.running(keep=True) if alone else nullcontext():
            untraced = call.again(call.hidden)
            same = alone.same(q, k, v, output) if alone else same_bits(untraced, call.output)
        run = call.again if bool(untraced.isfinite().all()) else partial(_heads, call)
        with alone.running() if alone else nullcontext():
            before = untraced if run == call.again else run(call.hidden)
            changed = tuple(
                _changed(call, run, before, t) for t in sorted({1, length // 2, length - 1}) if 0 < t < length
            )
        eager = _eager(q, k, v, scale, window, heads, output)
    return Effects(untraced_same=same, changed=changed, eager=eager, eager_heads=heads)


def _heads(call: Call, hidden: Any) -> Any:
    """Return what the heads gave for ``hidden``, side by side [1, T, ·], before o_proj mixes them: a head whose numbers
    are not finite makes every number of the mixed rows NaN, and these would show nothing of the other heads."""
    seen: list[Any] = []
    mixing = getattr(call.module, "o_proj", None)
    if mixing is None:
        return call.again(hidden)
    hook = mixing.register_forward_pre_hook(lambda _module, given: seen.append(given[0].detach().clone()))
    try:
        call.again(hidden)
    finally:
        hook.remove()
    return seen[-1].reshape(1, hidden.shape[1], -1)


def _changed(call: Call, run: Callable[[Any], Any], before: Any, t: int) -> tuple[int, int | None, bool]:
    """Negate the hidden state of position t: an exact change that keeps every magnitude and moves q, k and v.

    ``run`` gives the rows to compare with ``before``. NaN in both is no move, whatever its bits.
    """
    hidden = call.hidden.clone()
    hidden[:, t] = -hidden[:, t]
    after = run(hidden)
    moved = ((_bits(after) != _bits(before)) & ~(after.isnan() & before.isnan())).any(-1)[0]
    earlier = moved[:t].nonzero()
    return t, (int(earlier[0]) if len(earlier) else None), bool(moved[t])


def _eager(q: Any, k: Any, v: Any, scale: float, window: int | None, heads: tuple[int, ...], output: Any) -> Array:
    """Return attention by plain matrix products in the tensors' own dtype, [T, heads, D], a block of rows at a time.

    Rows that nothing is compared for (see eager_rows) are zero.
    """
    import torch

    group = q.shape[1] // k.shape[1]
    tq, tk = q.shape[0], k.shape[0]
    out = q.new_zeros(tq, len(heads), v.shape[-1])
    for place, head in enumerate(heads):
        key, value = k[:, head // group], v[:, head // group]
        known = (
            torch.arange(tq) if output is None else torch.from_numpy(eager_rows(to_array(output[:, head]).float64()))
        )
        for part in torch.split(known.to(q.device), _ROWS):
            places = part[:, None] + (tk - tq)
            last = int(places[-1]) + 1
            keys = torch.arange(last, device=q.device)
            hidden = keys > places if window is None else (keys > places) | (keys <= places - window)
            scores = (q[part, head] @ key[:last].T) * scale
            weights = torch.softmax(scores.masked_fill(hidden, -torch.inf), -1, dtype=torch.float32).to(q.dtype)
            out[part, place] = weights @ value[:last]
    return to_array(out, owned=True)
