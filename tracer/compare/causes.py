"""What explains a difference, with its evidence: writes that were seen, and what one side leaves out of the model.

Nothing is called a cause without evidence from these very runs. Must not know: how they were made.
"""

from collections.abc import Mapping

from tracer.compare.records import Comparison, Finding, Written
from tracer.records import LayerTrace
from tracer.texts import message

RESIDUAL = "nanovllm.residual"
# What nano-vllm leaves out → the steps whose places show it, and the steps at which it is the first to be seen.
_LEFT_OUT: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "nanovllm.rope_scaling": (("cos",), ("cos", "sin")),
    "nanovllm.window": (("output",), ("lse", "output")),
    "nanovllm.unread": (("q_norm", "k_norm", "o_proj"), ("q_rope", "k_rope", "q", "k", "o_proj")),
    RESIDUAL: ((), ()),
}


def findings(found: Comparison, written: list[Written]) -> tuple[Finding, ...]:
    """Return the findings of a comparison, those that explain its first difference before the others."""
    explained = [finding for trace in (found.a.trace, found.b.trace) for finding in _left_out(found, trace)]
    return (*_in_place(found, written), *explained)


def _in_place(found: Comparison, written: list[Written]) -> tuple[Finding, ...]:
    """Return the first write into a residual that was still in use, and how often it was seen again."""
    if not written:
        return ()
    first = written[0]
    parted = found.first
    proven = parted is not None and (parted.layer, parted.name) == (first.layer, first.step)
    versions = first.versions
    text = message(
        "compare.in_place",
        alias=first.alias.code,
        alias_at=first.alias.place,
        victim=" ".join(first.victim.code.split()),
        victim_at=first.victim.place,
        writes=", ".join(f"{site.code} ({site.place})" for site in dict.fromkeys(first.writes)),
        before=versions[0],
        after=versions[1],
        changed=first.changed,
        layer=first.layer,
        times=len(written),
        layers=", ".join(map(str, dict.fromkeys(one.layer for one in written))),
    )
    facts: dict[str, float | int | str] = {
        "layer": first.layer,
        "step": first.step,
        "writes_before": versions[0],
        "writes_after": versions[1],
        "changed": first.changed,
        "times": len(written),
        "first_difference": int(proven),
    }
    return (Finding("in_place", text, (first.victim, first.alias, *dict.fromkeys(first.writes)), facts),)


def _left_out(found: Comparison, trace: LayerTrace) -> list[Finding]:
    names = {pair.name: pair for pair in found.steps}
    result = []
    for warning in trace.warnings:
        if warning.id not in _LEFT_OUT or (warning.id == RESIDUAL and found.before):
            continue  # where the layers were watched, the write itself is the finding
        places, symptoms = _LEFT_OUT[warning.id]
        pairs = [names[name] for name in places if name in names]
        sites = tuple(site for pair in pairs for site in (pair.a, pair.b) if site is not None)
        seen = found.first is not None and found.first.name in symptoms
        result.append(Finding(warning.id.partition(".")[2], warning, sites, {"first_difference": int(seen)}))
    return result
