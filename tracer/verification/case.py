"""What the checks of one attention call look at: what was seen, what was expected, each quantity computed once.

Must not know: claims, wording.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tracer.arrays import SPACING, Array, Floats
from tracer.engines.transformers.observed import AttentionSeen, InterfaceCall, ModuleCall
from tracer.maths.attention import Head, head
from tracer.maths.visibility import Visibility
from tracer.records import ModelFacts
from tracer.verification import expected
from tracer.verification.expected import Ints, Rope
from tracer.verification.places import Places
from tracer.verification.probing import Probed
from tracer.verification.scenarios import Bools, Scenario, Step

At = tuple[Ints, Ints]  # tokens, as batch rows and places in their row
_SAMPLED, _SAMPLED_SHORT = 16, 8  # tokens at each end of a prompt, in the plain scenario and in others


@dataclass(eq=False)
class Case:
    """One call of one layer's attention in one pass of a scenario. ``kind`` names the kernel: cpu-flash, flash-attn,
    sdpa, eager, or another attention function by its own name. ``heads`` are those looked at closely, out of
    ``every_head`` that was asked for."""

    scenario: Scenario
    step: Step
    facts: ModelFacts
    dtype: str
    kind: str
    heads: tuple[int, ...]
    every_head: tuple[int, ...]
    seen: AttentionSeen
    probed: Probed
    places: Places
    thorough: bool = False

    @property
    def layer(self) -> int:
        """The layer's number."""
        return self.seen.layer

    @property
    def unit(self) -> float:
        """The unit roundoff of the run's dtype."""
        return SPACING[self.dtype] / 2

    @property
    def flash(self) -> bool:
        """Whether a flash kernel ran."""
        return self.kind in ("cpu-flash", "flash-attn")

    @property
    def bare(self) -> bool:
        """Whether the attention function computes scores itself, without a kernel (eager and many custom ones)."""
        return self.seen.kernel is None

    @property
    def interface(self) -> InterfaceCall | None:
        """The call of the attention function, where it could be seen."""
        return self.seen.interface

    @property
    def scale(self) -> float:
        """The scale that Qwen3 has: head_dim**-0.5."""
        return float(self.facts.head_dim**-0.5)

    @property
    def rows(self) -> Bools:
        """The tokens of this pass that count, [B, T]."""
        return self.step.rows

    @cached_property
    def keys(self) -> int:
        """How many keys the attention function was given."""
        return self.interface.key.shape[2] if self.interface is not None else self.step.real.shape[1]

    @cached_property
    def rope(self) -> Rope | None:
        """The rotary embedding that the config asks for, None for a kind without a reference."""
        longest = int(self.step.positions.max(initial=0)) + 1
        return expected.rope(self.facts.rope, self.facts.head_dim, self.facts.max_positions, longest)

    @cached_property
    def rope_tolerance(self) -> float:
        """How far, relatively, a rotated vector may lie from the reference: four roundings of the dtype, and what
        float32 loses of an angle that grows with the position."""
        return 4 * self.unit + float(self.step.positions.max(initial=0)) * 2.0**-22

    @cached_property
    def kept(self) -> dict[str, Any]:
        """What claims keep for one another, by a name of their own."""
        return {}

    @cached_property
    def sample(self) -> At:
        """The tokens that are looked at closely, as (batch rows, positions): the first and last of those that count."""
        rows = np.argwhere(self.rows)
        end = _SAMPLED if self.scenario.id == "plain" else _SAMPLED_SHORT
        if len(rows) > 2 * end:
            rows = np.concatenate([rows[:end], rows[-end:]])
        return rows[:, 0], rows[:, 1]

    @property
    def positions(self) -> Ints:
        """The positions of the sampled tokens."""
        found: Ints = self.step.positions[self.sample]
        return found

    def made(self, name: str, at: At | None = None) -> Floats | None:
        """Return what projection ``name`` gave, [tokens, heads, D] for the tokens ``at`` (None: the sampled ones).

        From hidden states and weights where it is no module of its own; None where neither is to be had.
        """
        at = self.sample if at is None else at
        call = self.seen.call(f"{name}_proj")
        if call is not None:
            numbers = call.gave[at].float64()
        else:
            weight = self.seen.parts.weights.get(f"{name}_proj")
            if weight is None:
                return None
            numbers = self.seen.hidden[at].float64() @ weight.float64().T
        if numbers.shape[-1] % self.facts.head_dim:
            return None
        return numbers.reshape(len(numbers), -1, self.facts.head_dim)

    @cached_property
    def norm_weights(self) -> Mapping[str, Floats]:
        """The weights of q_norm and k_norm by "q" and "k", where they are to be had."""
        weights = self.seen.parts.weights
        return {name: weights[f"{name}_norm"].float64() for name in "qk" if f"{name}_norm" in weights}

    def norm_call(self, name: str) -> ModuleCall | None:
        """Return the call of q_norm or k_norm that was given exactly what the projection made, or None."""
        projected = self.seen.call(f"{name}_proj")
        for call in self.seen.modules:
            if call.name == f"{name}_norm" and projected is not None and _same_numbers(call.given, projected.gave):
                return call
        return None

    def normed(self, name: str, at: At | None = None) -> Floats | None:
        """Return what the norm gave, [tokens, heads, D]: as captured where it ran on the projection, else the
        reference."""
        call = self.norm_call(name)
        if call is None:
            return self.norm_reference(name, at)
        array = call.gave
        if len(array.shape) == 4 and array.shape[1] != self.step.ids.shape[1]:  # [B, heads, T, D]
            array = Array(array.dtype, np.ascontiguousarray(np.swapaxes(array.bits, 1, 2)))
        numbers = array[self.sample if at is None else at].float64()
        return numbers.reshape(len(numbers), -1, self.facts.head_dim)

    def norm_reference(self, name: str, at: At | None = None) -> Floats | None:
        """Return RMSNorm of what the projection made, in float64, [tokens, heads, D]."""
        made, weight = self.made(name, at), self.norm_weights.get(name)
        if made is None or weight is None:
            return None
        return expected.rms_norm(made, weight, self.facts.norm_eps)

    def arrived(self, name: str) -> Floats | None:
        """Return the sampled tokens' queries, keys or values at the attention function, [tokens, heads, D]."""
        if self.interface is None:
            return None
        array = {"q": self.interface.query, "k": self.interface.key, "v": self.interface.value}[name]
        rows, places = self.sample
        cut = array.bits[rows, :, places + array.shape[2] - self.step.ids.shape[1]]
        return Array(array.dtype, np.ascontiguousarray(cut)).float64()

    @cached_property
    def given(self) -> Mapping[str, Floats]:
        """Return what the attention function was given as q [B, H, Tq, D], k and v [B, K, Tk, D]; {} where unseen."""
        if self.interface is None:
            return {}
        arrays = {"q": self.interface.query, "k": self.interface.key, "v": self.interface.value}
        return {name: array.float64() for name, array in arrays.items()}

    def turned(self, vectors: Floats, positions: Ints | None = None) -> Floats | None:
        """Return ``vectors`` [tokens, heads, D] rotated as the config asks for, at ``positions`` (None: the sampled
        tokens' own)."""
        if self.rope is None:
            return None
        angles = expected.angles(self.rope, self.positions if positions is None else positions)[:, None]
        return expected.rotate(vectors, angles, self.rope.factor)

    def visibility(self, row: int) -> Visibility:
        """Return who may see whom in batch row ``row``."""
        return self.step.visibility(row, self.keys, self.facts.window)

    def reference(self, row: int, index: int) -> Head | None:
        """Return attention of one head in float64 from the attention function's own arguments."""
        key = (row, index)
        if key not in self._references:
            self._references[key] = self._reference(row, index)
        return self._references[key]

    @cached_property
    def _references(self) -> dict[tuple[int, int], Head | None]:
        return {}

    def _reference(self, row: int, index: int) -> Head | None:
        kv = self.facts.kv_head(index)
        if not self.given or index >= self.given["q"].shape[1] or kv >= self.given["k"].shape[1]:
            return None
        numbers = self.given["q"][row, index], self.given["k"][row, kv], self.given["v"][row, kv]
        return head(*numbers, self.scale, self.visibility(row))


def _same_numbers(a: Array, b: Array) -> bool:
    """Return whether ``a`` is ``b`` up to its shape (heads split off, tokens and heads in either order)."""
    if a.dtype != b.dtype or a.bits.size != b.bits.size:
        return False
    if np.array_equal(a.bits.reshape(-1), b.bits.reshape(-1)):
        return True
    if a.bits.ndim == 4:  # [B, heads, T, D]
        return np.array_equal(a.bits.transpose(0, 2, 1, 3).reshape(-1), b.bits.reshape(-1))
    return False
