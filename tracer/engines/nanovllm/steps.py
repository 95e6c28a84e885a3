"""Which anchors a run on nano-vllm probes, and how what they saw becomes the captures that every engine gives.

Must not know: how the model is loaded or run.
"""

from dataclasses import dataclass
from typing import Any

from tracer.capture.recorder import Sightings
from tracer.engines.arrays import to_array
from tracer.records import Capture
from tracer.source.anchors import Table


@dataclass(frozen=True)
class Step:
    """One captured tensor: name, letter, axes, formula, and its place where the expression gives several."""

    name: str
    anchor: str
    symbol: str
    axes: tuple[str, ...]
    formula: str
    part: int | None = None


STEPS = (
    Step("cos", "rope.parts", "cos", ("T", "B", "D/2"), "cosₜᵢ = a·cos(t·ωᵢ)", 0),
    Step("sin", "rope.parts", "sin", ("T", "B", "D/2"), "sinₜᵢ = a·sin(t·ωᵢ)", 1),
    Step("qkv", "attention.qkv", "[q k v]", ("T", "(H+2K)·D"), "x·[W_q; W_k; W_v]ᵀ"),
    Step("q_proj", "attention.split", "x·W_qᵀ", ("T", "H·D"), "x·W_qᵀ", 0),
    Step("k_proj", "attention.split", "x·W_kᵀ", ("T", "K·D"), "x·W_kᵀ", 1),
    Step("v_proj", "attention.split", "x·W_vᵀ", ("T", "K·D"), "x·W_vᵀ", 2),
    Step("q_norm", "attention.q_norm", "q̂", ("T", "H", "D"), "q̂ = q ⊙ γ_q / √(mean(q²) + ε)"),
    Step("k_norm", "attention.k_norm", "k̂", ("T", "K", "D"), "k̂ = k ⊙ γ_k / √(mean(k²) + ε)"),
    Step("q_rope", "rope.q", "q̃", ("T", "H", "D"), "q̃ = q̂ ⊙ cos + rot(q̂) ⊙ sin"),
    Step("k_rope", "rope.k", "k̃", ("T", "K", "D"), "k̃ = k̂ ⊙ cos + rot(k̂) ⊙ sin"),
    Step("merged", "attention.merged", "[O₀ … O_H₋₁]", ("T", "H·D"), "concat(O₀, …, O_H₋₁)"),
    Step("o_proj", "attention.o_proj", "y", ("T", "C"), "y = concat(O₀, …, O_H₋₁)·W_oᵀ"),
)
_PROBED = ("rope.", "attention.", "scale.", "causal.", "kernel.", "decode.")
_OUTSIDE = {"attention.hidden", "rope.unscaled"}


def probed(table: Table) -> list[str]:
    """Return the anchors to probe in a trace of one attention."""
    return [id for id in table.anchors if id.startswith(_PROBED) and id not in _OUTSIDE]


def captures(table: Table, seen: Sightings) -> dict[str, Capture]:
    """Return the captured steps by name; a step that the model left out is left out."""
    found = {}
    for step in STEPS:
        for value in seen.values(step.anchor, "attention")[:1]:
            array = to_array(_part(value, step.part))
            found[step.name] = Capture(step.name, step.symbol, step.axes, array, table.site(step.anchor), step.formula)
    return found


def _part(value: Any, part: int | None) -> Any:
    return value if part is None else value[part]
