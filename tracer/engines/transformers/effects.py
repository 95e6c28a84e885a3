"""Run the asked layer's attention again, untraced and with one position changed, and say what moved.

Must not know: probes, pages.
"""

from dataclasses import dataclass
from typing import Any

from tracer.arrays import Array
from tracer.engines.arrays import to_array
from tracer.records import Effects


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


def observe(call: Call, q: Any, k: Any, v: Any, scale: float, window: int | None, heads: tuple[int, ...]) -> Effects:
    """Return what re-running shows; q, k, v [T, heads, D] are what the kernel was given, for the eager comparison."""
    import torch

    length = call.hidden.shape[1]
    with torch.no_grad():
        untraced = call.again(call.hidden)
        changed = tuple(_changed(call, untraced, t) for t in sorted({1, length // 2, length - 1}) if 0 < t < length)
        eager = _eager(q, k, v, scale, window, heads)
    return Effects(
        untraced_same=torch.equal(untraced, call.output),
        changed=changed,
        eager=eager,
        eager_heads=heads,
    )


def _changed(call: Call, untraced: Any, t: int) -> tuple[int, int | None, bool]:
    """Negate the hidden state of position t: an exact change that keeps every magnitude and moves q, k and v."""
    hidden = call.hidden.clone()
    hidden[:, t] = -hidden[:, t]
    moved = (call.again(hidden) != untraced).any(-1)[0]
    earlier = moved[:t].nonzero()
    return t, (int(earlier[0]) if len(earlier) else None), bool(moved[t])


def _eager(q: Any, k: Any, v: Any, scale: float, window: int | None, heads: tuple[int, ...]) -> Array:
    """Return attention by plain matrix products in the tensors' own dtype, [T, heads, D], a block of rows at a time."""
    import torch

    group = q.shape[1] // k.shape[1]
    tq, tk = q.shape[0], k.shape[0]
    keys = torch.arange(tk, device=q.device)
    out = q.new_empty(tq, len(heads), v.shape[-1])
    for place, head in enumerate(heads):
        key, value = k[:, head // group], v[:, head // group]
        for start in range(0, tq, 512):
            rows = torch.arange(start, min(start + 512, tq), device=q.device)[:, None] + (tk - tq)
            hidden = keys > rows if window is None else (keys > rows) | (keys <= rows - window)
            scores = (q[start : start + 512, head] @ key.T) * scale
            weights = torch.softmax(scores.masked_fill(hidden, -torch.inf), -1, dtype=torch.float32).to(q.dtype)
            out[start : start + 512, place] = weights @ value
    return to_array(out)
