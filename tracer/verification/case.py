"""What the checks of one attention call look at: what was seen, what was expected, each quantity computed once.

Must not know: claims, wording.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tracer.arrays import NARROW, SPACING, Array, Floats, equal_bits
from tracer.engines.transformers.observed import AttentionSeen, InterfaceCall, ModuleCall
from tracer.kernels.interfaces import FLASH
from tracer.maths.attention import Head, head
from tracer.maths.visibility import Visibility
from tracer.records import ModelFacts
from tracer.verification import expected
from tracer.verification.expected import Ints, Rope
from tracer.verification.places import Places
from tracer.verification.probing import Probed
from tracer.verification.scenarios import Bools, Scenario, Step
from tracer.verification.vectors import distances, ends

_Made = TypeVar("_Made")
At = tuple[Ints, Ints]  # tokens, as batch rows and places in their row
_COMPONENTS, _COMPONENTS_FEW = 128, 16  # of a projection that are computed anew: in the plain scenario, in others
SAMPLED = 4  # tokens at each end of those that count by which a fault would be told from what is right
# The bits of bfloat16's 2^-40 and 2^50: squares of numbers between them, and sums of those, have a place in float32.
_SMALLEST, _LARGEST = (127 - 40) << 7, (127 + 50) << 7
# What the numbers of a dtype are multiples of at least: a small component is off by as much whatever its size.
_GRAIN = {"F16": 2.0**-24}


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
    _kept: dict[str, Any] = field(default_factory=dict, init=False)

    @property
    def layer(self) -> int:
        """The layer's number."""
        return self.seen.layer

    @property
    def unit(self) -> float:
        """The unit roundoff of the run's dtype."""
        return SPACING[self.dtype] / 2

    @property
    def single_unit(self) -> float:
        """The unit roundoff of norms and softmax: computed in float32 at best, whatever the run has."""
        return max(self.unit, 2.0**-24)

    @property
    def flash(self) -> bool:
        """Whether a flash kernel ran."""
        return self.kind in FLASH

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
        """How far, relatively, any rotated vector may lie from the reference: as rope_within for the last position."""
        return float(self.rope_within(self.step.positions.max(initial=0)))

    def rope_within(self, positions: Any) -> Any:
        """Return how far, relatively, a vector rotated to each of ``positions`` may lie from the reference: four
        roundings of the dtype, and what float32 loses of an angle that grows with the position."""
        return 4 * self.unit + positions * 2.0**-22

    def once(self, name: str, make: Callable[[], _Made]) -> _Made:
        """Return what ``make`` gives, made once however many claims ask for ``name``."""
        if name not in self._kept:
            self._kept[name] = make()
        found: _Made = self._kept[name]
        return found

    @property
    def grain(self) -> float:
        """How far a component may be off whatever its size: what the run's dtype cannot hold."""
        return _GRAIN.get(self.dtype, 0.0)

    @cached_property
    def counted(self) -> At:
        """All tokens that count, as (batch rows, places in their row)."""
        rows = np.argwhere(self.rows)
        return rows[:, 0], rows[:, 1]

    @cached_property
    def sampled(self) -> Ints:
        """Which of the counted tokens are the sample: the first and the last ones."""
        return ends(len(self.counted[0]), SAMPLED)

    @cached_property
    def sample(self) -> At:
        """The sample itself, as (batch rows, places in their row)."""
        return self.counted[0][self.sampled], self.counted[1][self.sampled]

    @property
    def positions(self) -> Ints:
        """The positions of all tokens that count."""
        found: Ints = self.step.positions[self.counted]
        return found

    def numbers(self, array: Array, at: At | None) -> NDArray[Any]:
        """Return the values of tokens ``at``: float64 for the sampled ones (None); for others float32, which is exact,
        where the run has 16 bits: its roundings are thousands of times as coarse, and there are many of them. Where
        squares would leave float32, float64 all the same."""
        if at is None or self.dtype not in NARROW:
            return array.float64()
        return array.float32() if self.dtype == "F16" or _moderate(array.bits) else array.float64()

    def made(self, name: str, at: At | None = None) -> NDArray[Any] | None:
        """Return what projection ``name`` gave, [tokens, heads, D] for the tokens ``at`` (None: the sampled ones).

        From hidden states and weights where it was not called as a module; None where neither is to be had.
        """
        call = self.called(f"{name}_proj")
        if call is not None:
            numbers = self.numbers(call.gave[self.sample if at is None else at], at)
        else:
            at = self.sample if at is None else at
            made = self.through(f"{name}_proj", self.seen.hidden[at].float64())
            if made is None:
                return None
            numbers = made
        if numbers.shape[-1] % self.facts.head_dim:
            return None
        return numbers.reshape(len(numbers), -1, self.facts.head_dim)

    def called(self, name: str) -> ModuleCall | None:
        """Return the call of the part ``name`` that took all tokens at once (or was joined to that), or None."""
        call = self.seen.call(name)
        return call if call is not None and call.gave.shape[:2] == self.step.ids.shape else None

    def components(self, count: int) -> Ints:
        """Return which of ``count`` components of a projection are computed anew."""
        most = _COMPONENTS if self.scenario.id == "plain" else _COMPONENTS_FEW
        return np.unique(np.linspace(0, count - 1, min(most, count)).astype(np.int64))

    def hold(self) -> None:
        """Copy what is looked at of the weights, for a projection that was called its ``components`` alone: once the
        model goes on, it may write other numbers into them (as one does whose layers share a buffer)."""
        kept = [
            {name: Array(array.dtype, self._taken(name, array.bits)) for name, array in numbers.items()}
            for numbers in (self.seen.parts.weights, self.seen.parts.biases)
        ]
        self.seen = replace(self.seen, parts=replace(self.seen.parts, weights=kept[0], biases=kept[1]))

    def _taken(self, name: str, bits: NDArray[Any]) -> NDArray[Any]:
        """Return a copy of a weight, or of a part of it."""
        in_part = name.endswith("_proj") and self.called(name) is not None
        return bits[self.components(len(bits))] if in_part else bits.copy()

    def through(self, name: str, given: Floats) -> Floats | None:
        """Return what the linear layer ``name``, which was not called, makes of ``given`` [..., in], in float64; None
        where it is no plain one."""
        weight, bias = self.seen.parts.weights.get(name), self.seen.parts.biases.get(name)
        if weight is None:
            return None
        made: Floats = given @ weight.float64().T
        return made if bias is None else made + bias.float64()

    @cached_property
    def norm_weights(self) -> Mapping[str, Floats]:
        """The weights of q_norm and k_norm by "q" and "k", where they are to be had."""
        weights = self.seen.parts.weights
        return {name: weights[f"{name}_norm"].float64() for name in "qk" if f"{name}_norm" in weights}

    def norm_call(self, name: str) -> ModuleCall | None:
        """Return the call of q_norm or k_norm that was given exactly what the projection made, or None."""
        return self._norm_calls[name][0]

    @cached_property
    def _norm_calls(self) -> Mapping[str, tuple[ModuleCall | None, bool]]:
        """The call of each norm, and whether heads come before tokens in it."""
        return {name: self._norm_call(name) for name in "qk"}

    def _norm_call(self, name: str) -> tuple[ModuleCall | None, bool]:
        projected = self.called(f"{name}_proj")
        for call in self.seen.modules:
            if call.name == f"{name}_norm" and call.gave.shape == call.given.shape:
                order = self._near(name, call) if projected is None else _same_numbers(call.given, projected.gave)
                if order is not None:
                    return call, order == "heads"
        return None, False

    def _near(self, name: str, call: ModuleCall) -> str | None:
        """Return as ``_same_numbers`` whether a norm was given what a projection makes that was no call of its own."""
        made, given = self.made(name, self.counted), call.given
        if made is None or given.bits.ndim != 4:
            return None
        for order, bits in (("tokens", given.bits), ("heads", np.swapaxes(given.bits, 1, 2))):
            if bits.shape[:2] == self.step.ids.shape and bits.shape[2:] == made.shape[1:]:
                found = Array(given.dtype, np.ascontiguousarray(bits[self.counted])).float64()
                if distances(found, made, self.grain).max(initial=0.0) <= self.projected_within:
                    return order
        return None

    @property
    def projected_within(self) -> float:
        """How far a projection may be off, relatively: four roundings of the dtype, and the summation."""
        return 4 * self.unit + 1e-6

    def loose(self, name: str) -> float:
        """Return how much farther vectors may lie from a reference that starts before what was seen of "q" or "k": a
        norm rounds twice, a projection as it sums."""
        norm = 0.0 if self.norm_call(name) is not None else 2 * self.single_unit
        return norm if self.called(f"{name}_proj") is not None else norm + self.projected_within

    def normed(self, name: str, at: At | None = None) -> NDArray[Any] | None:
        """Return what the norm gave, [tokens, heads, D]: as captured where it ran on the projection, else the
        reference."""
        call, heads_first = self._norm_calls[name]
        if call is None:
            return self.norm_reference(name, at)
        bits = call.gave.bits
        if not heads_first:
            bits = bits.reshape(*self.step.ids.shape, -1, self.facts.head_dim)
        elif bits.ndim == 4:
            bits = np.swapaxes(bits, 1, 2)
        cut = bits[self.sample if at is None else at]
        return self.numbers(Array(call.gave.dtype, np.ascontiguousarray(cut)), at)

    def norm_reference(self, name: str, at: At | None = None) -> NDArray[Any] | None:
        """Return RMSNorm of what the projection made, [tokens, heads, D]."""
        made, weight = self.made(name, at), self.norm_weights.get(name)
        if made is None or weight is None:
            return None
        return expected.rms_norm(made, weight, self.facts.norm_eps)

    def arrived(self, name: str, at: At | None = None) -> NDArray[Any] | None:
        """Return queries, keys or values at the attention function, [tokens, heads, D] for the tokens ``at`` (None: the
        sampled ones)."""
        if self.interface is None:
            return None
        array = {"q": self.interface.query, "k": self.interface.key, "v": self.interface.value}[name]
        rows, places = self.sample if at is None else at
        cut = array.bits[rows, :, places + array.shape[2] - self.step.ids.shape[1]]
        return self.numbers(Array(array.dtype, np.ascontiguousarray(cut)), at)

    @property
    def given(self) -> Mapping[str, Floats]:
        """Return what the attention function was given as q [B, H, Tq, D], k and v [B, K, Tk, D]; {} where unseen."""
        call = self.interface
        if call is None:
            return {}
        arrays = {"q": call.query, "k": call.key, "v": call.value}
        return self.once("given", lambda: {name: array.float64() for name, array in arrays.items()})

    def turned(self, vectors: NDArray[Any], positions: Ints | None = None) -> NDArray[Any] | None:
        """Return ``vectors`` [tokens, heads, D] rotated as the config asks for, at ``positions`` (None: those of all
        tokens that count)."""
        if self.rope is None:
            return None
        angles = expected.angles(self.rope, self.positions if positions is None else positions)[:, None]
        return expected.rotate(vectors, angles, self.rope.factor)

    def visibility(self, row: int) -> Visibility:
        """Return who may see whom in batch row ``row``; kept, as each head asks for it."""
        return self.once(f"visibility.{row}", lambda: self.step.visibility(row, self.keys, self.facts.window))

    def reference(self, row: int, index: int) -> Head | None:
        """Return attention of one head in float64 from the attention function's own arguments."""
        return self.once(f"reference.{row}.{index}", lambda: self._reference(row, index))

    def _reference(self, row: int, index: int) -> Head | None:
        kv = self.facts.kv_head(index)
        if not self.given or index >= self.given["q"].shape[1] or kv >= self.given["k"].shape[1]:
            return None
        numbers = self.given["q"][row, index], self.given["k"][row, kv], self.given["v"][row, kv]
        return head(*numbers, self.scale, self.visibility(row))


def _moderate(bits: NDArray[Any]) -> bool:
    """Return whether bfloat16 numbers are all zero or of a size that can be squared in float32; NaN is not."""
    if not bits.size:
        return True
    size = bits & 0x7FFF
    return bool(size.max() < _LARGEST and (size - np.uint16(1)).min() >= _SMALLEST - 1)  # 0 − 1 is the largest uint16


def _same_numbers(a: Array, b: Array) -> str | None:
    """Return whether ``a`` is ``b`` [B, T, heads·D] up to its shape: "tokens" in the same order, "heads" where those
    come first, None where it is something else."""
    if a.dtype != b.dtype or a.bits.size != b.bits.size:
        return None
    if equal_bits(a.bits.reshape(-1), b.bits.reshape(-1)):
        return "tokens"
    if a.bits.ndim == 4 and equal_bits(a.bits.transpose(0, 2, 1, 3).reshape(-1), b.bits.reshape(-1)):
        return "heads"
    return None
