"""What explains a difference, with its evidence: writes that were seen, and what one side leaves out of the model.

Nothing is called a cause without evidence from these very runs. Must not know: how they were made.
"""

from tracer.compare.records import Comparison, Finding, Written
from tracer.records import LayerTrace, Site
from tracer.texts import message

RESIDUAL = "nanovllm.residual"
# What nano-vllm leaves out → the steps that it shows at.
_LEFT_OUT = {
    "nanovllm.rope_scaling": ("cos",),
    "nanovllm.window": (),
    "nanovllm.unread": ("q_norm", "k_norm"),
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
        if warning.id not in _LEFT_OUT:
            continue
        sites: list[Site] = [trace.kernel.site] if warning.id == "nanovllm.window" else []
        for name in _LEFT_OUT[warning.id]:
            pair = names.get(name)
            sites += [site for site in (pair.a, pair.b) if site is not None] if pair is not None else []
        result.append(Finding(warning.id.partition(".")[2], warning, tuple(sites)))
    return result
