"""Are the numbers finite: the weights of the attention, and what goes into it? Where they are not, nothing else is to
be told of the layer, nor of what reads from it.

Must not know: torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tracer.engines.transformers.observed import AttentionSeen
from tracer.names import spans
from tracer.records import Status
from tracer.texts import Message
from tracer.verification.case import Case
from tracer.verification.records import Finding
from tracer.verification.scenarios import Bools, Step
from tracer.verification.verdict import claim, finding, say, untested

# What is about queries and keys each, and what about no part at all; what only other scenarios have is left out.
_OF_EACH: tuple[str, ...] = ("norm.present", "norm.order", "norm.weights", "norm.eps")
_OF_EACH += ("rope.applied", "rope.pairing", "rope.positions", "rope.theta", "rope.factor", "scale.once")
_WHOLE: tuple[str, ...] = ("scale.effective", "causal.weights", "causal.effect", "softmax.rows", "kernel.output")
_WHOLE += ("heads.keys", "heads.values")


@dataclass(frozen=True)
class Spoiled:
    """What is not finite: parts of the attention of ``layer`` (by name, how many numbers), or else what goes into it:
    hidden states, at these ``tokens`` where they come straight from the embedding, or keys and values ``kept`` by a
    cache."""

    layer: int
    parts: Mapping[str, int]
    tokens: tuple[int, ...] = ()
    kept: bool = False


@dataclass
class Spread:
    """Where what is not finite began, and which layers it reached.

    Weights spoil every later layer, in all passes; what else was the first to be not finite spoils those it reaches in
    the passes of one scenario, which share a cache.
    """

    weights: Spoiled | None = None
    origin: Spoiled | None = None
    reached: set[int] = field(default_factory=set)

    def anew(self) -> None:
        """Begin another scenario."""
        self.origin, self.reached = None, set()

    def reaching(self, seen: AttentionSeen, step: Step) -> Spoiled | None:
        """Return what is not finite before this call computes anything, by where that began; None where all is."""
        found = spoiled(seen, step, padding=self.origin is not None)
        if found is not None and found.parts:
            self.weights = self.weights or found
        if self.weights is not None and seen.layer > self.weights.layer:
            return self.weights
        if found is None and seen.layer not in self.reached:
            return None
        if found is not None and found.parts:
            return found
        self.origin = self.origin or found
        self.reached.add(seen.layer)
        return self.origin


def spoiled(seen: AttentionSeen, step: Step, padding: bool) -> Spoiled | None:
    """Return what of a call was not finite before it computed anything, None where everything was, or where that shows
    in nothing that any part of it gives.

    Of what goes in, the tokens that count, and ``padding`` too where that is asked for and of what the embedding gives.
    """
    if not any(array.nonfinite() for array in (seen.output, *(call.gave for call in seen.modules))):
        return None
    parts = {name: count for name, array in seen.parts.weights.items() if (count := array.nonfinite())}
    if parts:
        return Spoiled(seen.layer, parts)
    rows = np.ones_like(step.rows) if padding or seen.layer == 0 else step.rows
    if seen.hidden[rows].nonfinite():
        return Spoiled(seen.layer, {}, _tokens(seen, step, rows) if seen.layer == 0 else ())
    if seen.hidden.nonfinite() and seen.output[step.rows].nonfinite():  # padding is multiplied by 0, and 0 · NaN is NaN
        return Spoiled(seen.layer, {})
    return Spoiled(seen.layer, {}, kept=True) if _kept(seen, step) else None


def _tokens(seen: AttentionSeen, step: Step, rows: Bools) -> tuple[int, ...]:
    """Return the ids of the tokens whose hidden states are not finite."""
    found = {int(step.ids[row, t]) for row, t in np.argwhere(rows) if seen.hidden[row, t : t + 1].nonfinite()}
    return tuple(sorted(found))


def _kept(seen: AttentionSeen, step: Step) -> bool:
    """Return whether keys or values of earlier passes, as the cache handed them back, are not finite."""
    call, new = seen.interface, step.ids.shape[1]
    if call is None or not step.past:
        return False
    return any(array[:, :, :-new].nonfinite() > 0 for array in (call.key, call.value))


def claims(case: Case, found: Spoiled) -> list[Finding]:
    """Return a failure for each part of this layer whose weights are not finite, and all else as not testable."""
    own = found.parts if found.layer == case.layer else {}
    failed = [_part(case, name, count) for name, count in own.items()]
    told = reason(found)
    if case.scenario.id != "plain":
        return failed or [_untested(case, "kernel.output", None, told)]
    rest = [_untested(case, id, part, told) for id in _OF_EACH for part in "qk"]
    rest += [_untested(case, "projections", part, told) for part in "qkvo" if f"{part}_proj" not in own]
    return [*failed, *rest, *(_untested(case, id, None, told) for id in _WHOLE)]


def reason(found: Spoiled) -> Message:
    """Return why nothing else can be told of a layer."""
    if found.parts:
        names = ", ".join(f"{name}.weight" for name in found.parts)
        return say("not_finite_weights", names=names, layer=found.layer)
    if found.tokens:
        return say("not_finite_tokens", tokens=spans(list(found.tokens)))
    return say("not_finite_cache" if found.kept else "not_finite_given", layer=found.layer)


def _part(case: Case, name: str, count: int) -> Finding:
    part, kind = name[0], name.partition("_")[2]
    id = "projections" if kind == "proj" else "norm.weights"
    return finding(
        case,
        id,
        Status.FAIL,
        measured=_measured(case, f"{name}.weight", count),
        expected=say("finite_expected"),
        reason=say("finite_why"),
        site=case.places.site(f"project.{part}" if kind == "proj" else f"norm.{part}"),
        about=claim(id, part=part),
        part=part,
        count=count,
        cause="not_finite",
    )


def _measured(case: Case, weight: str, count: int) -> Message:
    if count == 1:
        return say("not_finite_measured_one", weight=weight, layer=case.layer)
    return say("not_finite_measured", weight=weight, layer=case.layer, count=count)


def _untested(case: Case, id: str, part: str | None, reason: Message) -> Finding:
    if part is None:
        return untested(case, id, expected=say("finite_expected"), reason=reason)
    return untested(case, id, expected=say("finite_expected"), reason=reason, about=claim(id, part=part), part=part)
