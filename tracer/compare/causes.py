"""What explains a difference, with its evidence: writes that were seen, and what one side leaves out of the model.

Nothing is called a cause without evidence from these very runs. Must not know: how they were made.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce

from tracer.compare.records import Comparison, Finding, Written
from tracer.names import spans
from tracer.records import LayerTrace, Site
from tracer.texts import Message, message

RESIDUAL = "nanovllm.residual"


@dataclass(frozen=True)
class LeftOut:
    """Something that nano-vllm leaves out of a model: where its code decides that (``places``, anchors of its own),
    the steps whose places on the other side show it, and the steps at which it is the first to be seen."""

    places: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    symptoms: tuple[str, ...] = ()


# By the warning's text, without what says how often and whether only later.
_LEFT_OUT: Mapping[str, LeftOut] = {
    "rope_scaling": LeftOut(("rope.unscaled",), ("cos",), ("cos", "sin")),
    "window": LeftOut(("kernel.call",), ("output",), ("lse", "output")),
    "unread": LeftOut(
        ("norms.if", "attention.q_norm", "attention.k_norm", "attention.o_proj"),
        ("q_norm", "k_norm", "o_proj"),
        ("q_rope", "k_rope", "q", "k", "o_proj"),
    ),
    "residual": LeftOut(),
}
_WARNING = re.compile(r"nanovllm\.(\w+?)(_later)?(_one)?")

Places = Callable[[str], Site]


def findings(found: Comparison, written: list[Written], places: Places) -> tuple[Finding, ...]:
    """Return the findings of a comparison, those that explain its first difference before the others; ``places`` gives
    nano-vllm's by the name of an anchor."""
    explained = [finding for trace in (found.a.trace, found.b.trace) for finding in _left_out(found, trace, places)]
    return (*_in_place(found, written), *sorted(explained, key=lambda finding: not finding.facts["first_difference"]))


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
        alias=_at(first.alias),
        victim=_at(first.victim),
        writes=_both(dict.fromkeys(first.writes)),
        before=versions[0],
        after=versions[1],
        changed=first.changed,
        layer=first.layer,
        times=len(written),
        layers=spans(sorted({one.layer for one in written})),
    )
    facts: dict[str, float | int | str] = {
        "layer": first.layer,
        "step": first.step,
        "writes_before": versions[0],
        "writes_after": versions[1],
        "changed": first.changed,
        "times": len(written),
        "first_difference": int(proven),
        "here": 1,
    }
    return (Finding("in_place", text, (first.victim, first.alias, *dict.fromkeys(first.writes)), facts),)


def _both(sites: Iterable[Site]) -> Message:
    told = [_at(site) for site in sites]
    return reduce(lambda a, b: message("compare.both_of", a=a, b=b), told) if told else message("compare.unseen")


def _at(site: Site) -> Message:
    return message("compare.at", code=" ".join(site.code.split()), place=site.place)


def _left_out(found: Comparison, trace: LayerTrace, places: Places) -> list[Finding]:
    pairs = {pair.name: pair for pair in found.steps}
    result = []
    for warning in trace.warnings:
        match = _WARNING.fullmatch(warning.id)
        if match is None or (warning.id == RESIDUAL and found.before):
            continue  # where the layers were watched, the write itself is the finding
        left = _LEFT_OUT[match[1]]
        others = (pairs[name].of(trace is found.b.trace) for name in left.shown if name in pairs)
        sites = (*(places(anchor) for anchor in left.places), *(site for site in others if site is not None))
        seen = found.first is not None and found.first.name in left.symptoms and match[2] is None
        facts = {"first_difference": int(seen), "here": int(match[2] is None)}
        result.append(Finding(match[1], warning, sites, facts))
    return result
