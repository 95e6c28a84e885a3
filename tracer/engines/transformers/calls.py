"""One call of an attention module as live tensors, and the means to make it again.

Must not know: how it was watched.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from tracer.engines.transformers.lending import KernelSeen
from tracer.engines.transformers.observed import Place

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")
PARTS = ("q_proj", "k_proj", "v_proj", "q_norm", "k_norm", "o_proj")
INTERFACE = "interface"
EVERYTHING = frozenset((*PARTS, INTERFACE))


@dataclass
class Collected:
    """What one call of an attention module did, as live tensors (copied where upstream may write in place)."""

    modules: list[tuple[str, Any, Any, Place | None]] = field(default_factory=list)
    interfaces: list[dict[str, Any]] = field(default_factory=list)
    sdpa: list[dict[str, Any]] = field(default_factory=list)
    dropout: float = 0.0  # the largest that really dropped

    def settle(self, batch: int, length: int) -> None:
        """Bring each projection's calls together as one of all tokens, [batch, length, ·]; one whose calls do not make
        that up is forgotten: nothing can be said about it."""
        for name in PROJECTIONS:
            own = [call for call in self.modules if call[0] == name]
            if not own or own[0][1].shape[:-1] == (batch, length):
                continue
            given, gave = (_whole([call[part] for call in own], batch, length) for part in (1, 2))
            rest = [call for call in self.modules if call[0] != name]
            whole = [] if given is None or gave is None else [(name, given, gave, own[0][3])]
            self.modules = [*whole, *rest]

    def gave(self, name: str) -> Any:
        """Return what the part ``name`` gave first, or None where it was not called."""
        return next((output for part, _, output, _ in self.modules if part == name), None)

    def took(self, name: str) -> Any:
        """Return what the part ``name`` was first given, or None where it was not called."""
        return next((given for part, given, _, _ in self.modules if part == name), None)


def _whole(pieces: list[Any], batch: int, length: int) -> Any:
    """Return pieces of some tokens, of some batch rows or of flattened tokens as one [batch, length, ·], or None."""
    if len({(piece.ndim, piece.shape[-1]) for piece in pieces}) > 1:
        return None
    if pieces[0].ndim == 2:  # tokens of all rows in one line
        whole = torch.cat(pieces)
        return whole.reshape(batch, length, -1) if len(whole) == batch * length else None
    if pieces[0].ndim != 3:
        return None
    rows, tokens = ([piece.shape[axis] for piece in pieces] for axis in (0, 1))
    if set(rows) == {batch} and sum(tokens) == length:
        return torch.cat(pieces, 1)
    return torch.cat(pieces) if set(tokens) == {length} and sum(rows) == batch else None


@dataclass(frozen=True)
class Call:
    """One call of one layer's attention, and the means to make it again. ``hidden`` and ``output`` [B, T, C].

    ``arguments`` are those that the module's code received; ``passed`` those that its caller passed, where the user's
    own hooks made the first of the second, as they do again whenever the call is made again; else None.
    """

    layer: int
    module: Any
    hidden: Any
    output: Any
    arguments: Mapping[str, Any]
    passed: Mapping[str, Any] | None
    collected: Collected
    kernels: tuple[tuple[KernelSeen, Place | None], ...]
    positions: Any
    cache: Any  # this layer's part of the cache as it was before the call, None without one
    _again: Callable[..., tuple[Any, Collected]]

    @property
    def given(self) -> Any:
        """The hidden states as the caller passed them, [B, T, C]."""
        return self.hidden if self.passed is None else self.passed["hidden_states"]

    def again(
        self,
        hidden: Any = None,
        replace: Mapping[str, Callable[[Any], Any]] | None = None,
        values: Any = None,
        keep: Collection[str] = (),
        attended: Any = None,
    ) -> tuple[Any, Collected]:
        """Make the call again and return its output and, of what it did, the parts and ``interface`` named in ``keep``.

        ``hidden`` stands in for the hidden states ``given``; ``replace`` names parts of the module whose output goes
        through a function; ``values`` [B, K, T, D] stand in for the values a cache held; ``attended`` for what the
        attention function gives, which is then not called: its arguments are kept. The model's own cache is not
        touched.
        """
        changed = self.given if hidden is None else hidden
        return self._again(self, How(changed, replace or {}, values, frozenset(keep), attended))


@dataclass(frozen=True)
class How:
    """How a call is made again, and what is kept of it; ``everything`` for the model's own call."""

    hidden: Any = None
    replace: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    values: Any = None
    keep: frozenset[str] = EVERYTHING
    attended: Any = None
