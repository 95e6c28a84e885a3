"""Are the numbers finite: the weights of the attention, and what goes into it? Where they are not, nothing else is to
be told of the layer.

Must not know: torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tracer.engines.transformers.observed import AttentionSeen
from tracer.records import Status
from tracer.texts import Message
from tracer.verification.case import Case
from tracer.verification.records import Finding
from tracer.verification.scenarios import Bools
from tracer.verification.verdict import claim, finding, say, untested

# What is about queries and keys each, and what about no part at all; what only other scenarios have is left out.
_OF_EACH: tuple[str, ...] = ("norm.present", "norm.order", "norm.weights", "norm.eps")
_OF_EACH += ("rope.applied", "rope.pairing", "rope.positions", "rope.theta", "rope.factor", "scale.once")
_WHOLE: tuple[str, ...] = ("scale.effective", "causal.weights", "causal.effect", "softmax.rows", "kernel.output")
_WHOLE += ("heads.keys", "heads.values")


@dataclass(frozen=True)
class Spoiled:
    """What is not finite: parts of the attention of ``layer`` (by name, how many numbers), or what goes into it."""

    layer: int
    parts: Mapping[str, int]
    given: int


def spoiled(seen: AttentionSeen, rows: Bools) -> Spoiled | None:
    """Return what of a call was not finite before it computed anything, None where everything was, or where that shows
    in nothing that any part of it gives; of what goes in, the ``rows`` [B, T] that count."""
    if not any(array.nonfinite() for array in (seen.output, *(call.gave for call in seen.modules))):
        return None
    given = seen.hidden[rows].nonfinite()
    parts = {name: count for name, array in seen.parts.weights.items() if (count := array.nonfinite())}
    return Spoiled(seen.layer, parts, given) if parts or given else None


def claims(case: Case, found: Spoiled) -> list[Finding]:
    """Return a failure for each part of this layer whose weights are not finite, and all else as not testable."""
    own = found.parts if found.layer == case.layer else {}
    failed = [_part(case, name, count) for name, count in own.items()]
    reason = say("not_finite_given", layer=case.layer, count=found.given)
    if found.parts:
        names = ", ".join(f"{name}.weight" for name in found.parts)
        reason = say("not_finite_weights", names=names, layer=found.layer)
    if case.scenario.id != "plain":
        return failed or [_untested(case, "kernel.output", None, reason)]
    rest = [_untested(case, id, part, reason) for id in _OF_EACH for part in "qk"]
    rest += [_untested(case, "projections", part, reason) for part in "qkvo" if f"{part}_proj" not in own]
    return [*failed, *rest, *(_untested(case, id, None, reason) for id in _WHOLE)]


def _part(case: Case, name: str, count: int) -> Finding:
    part, kind = name[0], name.partition("_")[2]
    id = "projections" if kind == "proj" else "norm.weights"
    return finding(
        case,
        id,
        Status.FAIL,
        measured=say("not_finite_measured", weight=f"{name}.weight", layer=case.layer, count=count),
        expected=say("finite_expected"),
        reason=say("finite_why"),
        site=case.places.site(f"project.{part}" if kind == "proj" else f"norm.{part}"),
        about=claim(id, part=part),
        part=part,
        count=count,
    )


def _untested(case: Case, id: str, part: str | None, reason: Message) -> Finding:
    if part is None:
        return untested(case, id, expected=say("finite_expected"), reason=reason)
    return untested(case, id, expected=say("finite_expected"), reason=reason, about=claim(id, part=part), part=part)
