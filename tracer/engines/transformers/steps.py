"""Which anchors a run on transformers probes, and how what they saw becomes named captures.

Must not know: how the model is loaded or run.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tracer.capture.recorder import Sightings
from tracer.engines.arrays import to_array
from tracer.lineage.hops import StaticHop
from tracer.records import Capture, Hop, Lineage
from tracer.source.anchors import Table

FILES = {"flash": ("model", "flash", "flash_utils"), "sdpa": ("model", "sdpa"), "eager": ("model",)}


@dataclass(frozen=True)
class Step:
    """One captured tensor: its name, its letter, its axes, the formula of what it is, and the window it is seen in."""

    name: str
    anchor: str
    symbol: str
    axes: tuple[str, ...]
    formula: str
    window: str = "attention"


_COMMON = (
    Step("cos", "rope.cos", "cos", ("B", "T", "D"), "cosₜᵢ = a·cos(t·ωᵢ)", "rope"),
    Step("sin", "rope.sin", "sin", ("B", "T", "D"), "sinₜᵢ = a·sin(t·ωᵢ)", "rope"),
    Step("q_proj", "attention.q_proj", "x·W_qᵀ", ("B", "T", "H·D"), "x·W_qᵀ"),
    Step("k_proj", "attention.k_proj", "x·W_kᵀ", ("B", "T", "K·D"), "x·W_kᵀ"),
    Step("v_proj", "attention.v_proj", "x·W_vᵀ", ("B", "T", "K·D"), "x·W_vᵀ"),
    Step("q_norm", "attention.q_norm", "q̂", ("B", "T", "H", "D"), "q̂ = q ⊙ γ_q / √(mean(q²) + ε)"),
    Step("k_norm", "attention.k_norm", "k̂", ("B", "T", "K", "D"), "k̂ = k ⊙ γ_k / √(mean(k²) + ε)"),
    Step("q_rope", "rope.q", "q̃", ("B", "H", "T", "D"), "q̃ = q̂ ⊙ cos + rot(q̂) ⊙ sin"),
    Step("k_rope", "rope.k", "k̃", ("B", "K", "T", "D"), "k̃ = k̂ ⊙ cos + rot(k̂) ⊙ sin"),
    Step("merged", "attention.merged", "[O₀ … O_H₋₁]", ("B", "T", "H·D"), "concat(O₀, …, O_H₋₁)"),
    Step("o_proj", "attention.o_proj", "y", ("B", "T", "C"), "y = concat(O₀, …, O_H₋₁)·W_oᵀ"),
)
_EAGER = (Step("kernel_weights", "eager.softmax", "A", ("B", "H", "Tq", "Tk"), "A = softmax(S)"),)


@dataclass(frozen=True)
class OneHead:
    """Of a long prompt's steps, what belongs to one query head: its own part, and its key/value head's."""

    head: int
    kv_head: int
    head_dim: int

    def part(self, axes: tuple[str, ...], tensor: Any) -> Any:
        """Return this head's part of a tensor with these axes, heads no longer an axis."""
        places = {"H": self.head, "K": self.kv_head}
        index: list[int | slice] = []
        for axis in axes:
            of_heads = axis.removesuffix("·D")
            place = places.get(of_heads)
            if place is None:
                index.append(slice(None))
            else:
                index.append(place if axis == of_heads else slice(place * self.head_dim, (place + 1) * self.head_dim))
        return tensor[tuple(index)]

    @staticmethod
    def axes(axes: tuple[str, ...]) -> tuple[str, ...]:
        """Return the axes of that part."""
        return tuple("D" if axis in ("H·D", "K·D") else axis for axis in axes if axis not in ("H", "K"))


def steps(way: str) -> tuple[Step, ...]:
    """Return the captured steps of one way of computing attention (flash, sdpa, eager), in the order they run."""
    return _COMMON + (_EAGER if way == "eager" else ())


def probed(table: Table, way: str) -> list[str]:
    """Return the anchors to probe: all in the files that this way runs, but those outside the asked layer's windows."""
    outside = {"attention.hidden"}
    prefixes = (
        "rope.",
        "attention.",
        "scale.",
        "causal.",
        "norm.",
        {"flash": "kernel.", "sdpa": "sdpa.", "eager": "eager."}[way],
    )
    return [
        id
        for id, anchor in table.anchors.items()
        if anchor.file in FILES[way] and id.startswith(prefixes) and id not in outside
    ]


def keeping(way: str, one: OneHead | None = None) -> Callable[[str, Any], Any]:
    """Return what a recorder is to keep of a value that a probe saw: tensors only of steps (of ``one`` head, where one
    is given) and, where no kernel is watched, of the attention interface; everything that is no tensor."""
    wanted = {step.anchor: step for step in steps(way)}

    def keep(anchor: str, value: Any) -> Any:
        if not isinstance(value, tuple) and not hasattr(value, "detach"):
            return value
        if anchor in wanted:
            return value if one is None else one.part(wanted[anchor].axes, value)
        return value if way != "flash" and anchor.startswith("attention.interface") else None

    return keep


def captures(table: Table, way: str, seen: Sightings, one: OneHead | None = None) -> dict[str, Capture]:
    """Return the captured steps by name; of ``one`` head where only its part was kept."""
    found = {}
    for step in steps(way):
        values = seen.values(step.anchor, step.window)
        if not values or (one is not None and step.name == "merged"):  # what is merged is every head's
            continue
        axes = step.axes if one is None else one.axes(step.axes)
        array = to_array(values[0], owned=True)  # probes copy
        found[step.name] = Capture(step.name, step.symbol, axes, array, table.site(step.anchor), step.formula)
    return found


def lineage(table: Table, hops: tuple[StaticHop, ...], seen: Sightings, received: float | bool | None) -> Lineage:
    """Return a value's path with what each hop held at run time. ``received`` is what the kernel was given.

    Identity is told for floats only: one float object travels from the definition to the kernel, while True and False
    are single objects that match anywhere.
    """
    joined = []
    for hop in hops:
        values = [_held(value, hop.binds) for value in _seen(seen, hop.anchor.id)]
        same = next((value for value in values if value is received), None) if isinstance(received, float) else None
        value = same if same is not None else (values[-1] if values else None)
        joined.append(
            Hop(
                site=table.site(hop.anchor.id),
                binds=hop.binds,
                linked=hop.linked,
                seen=bool(values),
                value=value if isinstance(value, (float, bool)) else None,
                same_object=value is received if values and isinstance(received, float) else None,
            )
        )
    return Lineage(received, hops[0].anchor.code, tuple(joined))


def _seen(seen: Sightings, anchor: str) -> list[Any]:
    return [one.value for one in seen.seen if one.anchor == anchor]


def _held(value: Any, binds: str) -> Any:
    """Return what a hop holds: the value itself, or that entry of the dictionary opened into the kernel's call."""
    return value.get(binds.removesuffix("=")) if isinstance(value, dict) else value
