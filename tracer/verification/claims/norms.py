"""Are q_norm and k_norm there, before the rotary embedding, with their own weights and eps?

Each fault stands for vectors that would have arrived in place of the right ones; what arrived is compared with all of
them. Where a fault would change nothing (weights all one, one token), that is said. Must not know: torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracer.arrays import Floats
from tracer.checks.outcome import Figure
from tracer.records import Site, Status
from tracer.texts import Message
from tracer.verification import expected, ways
from tracer.verification.case import Case
from tracer.verification.eps import Acting, acting_eps, divisor, lengths_kept, median
from tracer.verification.expected import Ints
from tracer.verification.records import Finding
from tracer.verification.scenarios import Bools
from tracer.verification.vectors import Part, distance, distances
from tracer.verification.verdict import finding, passed, say, untested, which

# Which check a fault belongs to.
_OWNER = {
    "skipped": "norm.present",
    "after_rope": "norm.order",
    "swapped": "norm.weights",
    "unweighted": "norm.weights",
    "all_heads": "norm.present",
    "eps": "norm.eps",
}
_CHECKS = ("norm.present", "norm.order", "norm.weights")
# A fault is told from the right result when it lies this many times as far away as what was seen.
_APART = 4.0


def norms(case: Case) -> list[Finding]:
    """Return norm.present, norm.order, norm.weights and norm.eps for queries and keys; norm.eps, which is measured once
    a layer, elsewhere only where it fails."""
    found: list[Finding] = []
    for name in "qk":
        found += _three(case, name)
        if case.probed.small is not None or case.scenario.id == "plain" or explained(case, name) == "eps":
            found.append(_eps(case, name))
    return found


def explained(case: Case, name: str) -> str | None:
    """Return which fault of the norm explains what arrived ("right" for none), None where nothing does."""
    comparison = _comparison(case, name)
    return None if comparison is None else comparison.best


@dataclass(frozen=True)
class _Comparison:
    """Relative distances of what was seen from the right vectors and from those each fault would give, and of each
    fault's from the right ones; ``best`` is "right", a fault, "turned" where only the rotary embedding can be wrong, or
    None where nothing fits. ``farthest`` is how far the
    worst vector of all lies from the right one, ``bad`` [tokens, heads] tells those that lie too far away."""

    distances: Mapping[str, float]
    apart: Mapping[str, float]
    tolerance: float
    best: str | None
    farthest: float
    bad: Bools
    eps: float | None


def _three(case: Case, name: str) -> list[Finding]:
    comparison = _comparison(case, name)
    if comparison is None:
        reason = _hidden(case, name)
        return [
            untested(case, id, expected=_expected(case, id, name), reason=reason, about=_about(id, name), part=name)
            for id in _CHECKS
        ]
    return [_one(case, name, id, comparison) for id in _CHECKS]


def _one(case: Case, name: str, id: str, seen: _Comparison) -> Finding:
    faults = [fault for fault, owner in _OWNER.items() if owner == id and fault in {*seen.apart, *seen.distances}]
    right = seen.distances["right"]
    about, wanted = _about(id, name), _expected(case, id, name)
    figures: dict[str, Figure] = {"part": name, "distance": seen.farthest, "within": seen.tolerance}
    place = _place(case, name, id)
    if seen.best == "right":
        noise = max(right, case.unit / 8)
        blind = [fault for fault in faults if seen.apart[fault] < _APART * noise]
        if blind or not faults:
            reason = _blind(case, name, blind[0] if blind else "after_rope")
            return untested(case, id, expected=wanted, reason=reason, site=place, about=about, more=figures)
        nearest = min(seen.apart[fault] for fault in faults)
        return finding(
            case,
            id,
            Status.PASS,
            measured=say("norm_close", distance=seen.farthest, part=name),
            expected=wanted,
            tolerance=say("relative", value=seen.tolerance),
            reason=say("norm_would_show", apart=nearest),
            site=place,
            about=about,
            more=figures,
        )
    if seen.best in faults or (seen.best is None and id == "norm.present"):
        fault = seen.best or "unexplained"
        told = "norm_is_replaced" if fault == "skipped" and name not in case.norm_weights else f"norm_is_{fault}"
        return finding(
            case,
            id,
            Status.FAIL,
            measured=say(
                told,
                part=name,
                distance=seen.distances.get(fault, right),
                other=_other(name),
                kind=case.seen.parts.attributes.get(f"{name}_norm.class"),
            ),
            expected=wanted,
            tolerance=say("relative", value=seen.tolerance),
            reason=say("norm_off", distance=seen.farthest, which=which(case, seen.bad)),
            site=place,
            about=about,
            fault=fault,
            more=figures,
        )
    reason = say("norm_elsewhere", part=name)
    return untested(case, id, expected=wanted, reason=reason, site=place, about=about, more=figures)


def _comparison(case: Case, name: str) -> _Comparison | None:
    return case.once(f"norm.{name}", lambda: _compare(case, name))


def _compare(case: Case, name: str) -> _Comparison | None:
    """Compare all vectors with the right ones, and those that are wrong, or else a sample, with what faults give."""
    made, weight, way = case.made(name, case.counted), case.norm_weights.get(name), ways.way(case, name)
    normed = case.normed(name, case.counted) if case.norm_call(name) is not None else None
    if made is None:
        return None
    if weight is None:
        return None if normed is None else _unweighted(case, made, normed)
    if normed is None:
        return None if way is None else _arriving(case, name, made, way)
    within = 4 * case.single_unit + 1e-7 + case.loose(name)
    right = expected.rms_norm(made, weight, case.facts.norm_eps)
    off = distances(normed, right, case.grain)
    bad = off > within
    if not bad.any() and way is not None and not way.clean:
        arriving = _arriving(case, name, made, way)
        if arriving.best not in ("right", None):  # the norm ran, but what it gave was not used everywhere
            return arriving
    at = ways.part(case, bad) if bad.any() else Part(case.sampled, np.arange(made.shape[1]))
    vectors = _Vectors(at.all_heads(made), weight, case.positions[at.tokens])
    compared, eps = _faults(case, name, vectors, at.all_heads(normed) if bad.any() else None)
    apart = _apart(case, compared, vectors)
    near = {fault: distance(at.of(normed), x[:, at.heads]) for fault, x in compared.items()}
    best = _best(near, within, bool(bad.any()))
    return _Comparison(near, apart, within, best, float(off.max(initial=0.0)), bad, eps)


def _unweighted(case: Case, made: NDArray[Any], normed: NDArray[Any]) -> _Comparison | None:
    """Judge a part that stands in the norm's place and has no weight: all that can be told is that it norms nothing."""
    within = 4 * case.single_unit + 1e-7
    off = distances(normed, made, case.grain)
    unit = distance(made, expected.rms_norm(made, None, case.facts.norm_eps))
    if off.max(initial=0.0) > within or unit <= _APART * within:
        return None
    bad = np.ones(off.shape, dtype=np.bool_)
    return _Comparison({"right": unit, "skipped": float(off.max(initial=0.0))}, {}, within, "skipped", unit, bad, None)


@dataclass(frozen=True, eq=False)
class _Vectors:
    """What the projection made [tokens, heads, D], the norm's weight, and positions [tokens]."""

    made: Floats
    weight: Floats
    at: Ints


def _arriving(case: Case, name: str, made: NDArray[Any], way: ways.Way) -> _Comparison:
    """Compare what arrived at the attention function."""
    at = Part(case.sampled, np.arange(made.shape[1])) if way.clean else ways.part(case, way.bad)
    vectors = _Vectors(at.all_heads(made), case.norm_weights[name], way.at[at.tokens])
    compared, eps = _faults(case, name, vectors, None)
    turned = {fault: _turn(case, x, vectors.at) for fault, x in compared.items()}
    turned["after_rope"] = _after(case, vectors)
    apart = {fault: distance(x, turned["right"]) for fault, x in turned.items() if fault != "right"}
    near = {fault: distance(at.of(way.after), x[:, at.heads]) for fault, x in turned.items()}
    within = case.rope_tolerance + case.loose(name)
    best = _best(near, within, not way.clean)
    if best is None and _only_turned(at.of(way.after), turned["right"][:, at.heads], within):
        best = "turned"
    return _Comparison(near, apart, within, best, way.farthest, way.bad, eps)


def _only_turned(found: Floats, right: Floats, within: float) -> bool:
    """Return whether vectors have the right length, so that it is their turning that is wrong."""
    length, wanted = (np.sqrt(np.sum(x**2, axis=-1, keepdims=True)) for x in (found, right))
    return bool(distances(length, wanted).max(initial=0.0) <= within)


def _apart(case: Case, faults: Mapping[str, Floats], vectors: _Vectors) -> dict[str, float]:
    """Return how far each fault would move what arrives."""
    right = _turn(case, faults["right"], vectors.at)
    apart = {fault: distance(x, faults["right"]) for fault, x in faults.items() if fault != "right"}  # turning keeps it
    return {**apart, "after_rope": distance(_after(case, vectors), right)}


def _best(distances: Mapping[str, float], tolerance: float, wrong: bool) -> str | None:
    """Return the fault that explains what was seen, "right" for none; ``wrong``: some vector is too far away."""
    faults = {fault: off for fault, off in distances.items() if fault != "right"}
    best = min(faults, key=lambda fault: faults[fault])
    if wrong:
        return best if faults[best] <= min(2 * tolerance, distances["right"] / 2) else None
    return "right" if distances["right"] <= 4 * faults[best] else best


def _faults(case: Case, name: str, vectors: _Vectors, normed: Floats | None) -> tuple[dict[str, Floats], float | None]:
    """Return the right vectors and those each fault gives before the rotary embedding; and the eps of fault "eps"."""
    wanted, made, weight = case.facts.norm_eps, vectors.made, vectors.weight
    faults = {"right": expected.rms_norm(made, weight, wanted), "skipped": made}
    faults["unweighted"] = expected.rms_norm(made, None, wanted)
    other = case.norm_weights.get(_other(name))
    eps = _wrong_eps(case, name, vectors, normed)
    if eps is not None:
        faults["eps"] = expected.rms_norm(made, weight, eps)
    if other is not None:
        faults["swapped"] = expected.rms_norm(made, other, wanted)
    if made.shape[1] > 1:
        flat = made.reshape(len(made), -1)
        faults["all_heads"] = expected.rms_norm(flat, None, wanted).reshape(made.shape) * weight
    return faults, eps


def _wrong_eps(case: Case, name: str, vectors: _Vectors, normed: Floats | None) -> float | None:
    """Return the eps that acts where it is not the config's: measured with small hidden states, else fitted to what the
    norm gave."""
    acting = acting_eps(case, name)
    if acting is not None:
        return acting.eps if acting.eps > 0 and acting.differs else None
    if normed is None:
        return None
    eps = median(divisor(vectors.weight, vectors.made, normed) - np.mean(vectors.made**2, axis=-1))
    return eps if np.isfinite(eps) and eps > 0 else None


def _after(case: Case, vectors: _Vectors) -> Floats:
    made, weight, eps = vectors.made, vectors.weight, case.facts.norm_eps
    if case.rope is None:
        return expected.rms_norm(made, weight, eps)
    return expected.rms_norm(_turn(case, made, vectors.at) / case.rope.factor, weight, eps) * case.rope.factor


def _turn(case: Case, vectors: Floats, at: Ints) -> Floats:
    """Return vectors [rows, heads, D] rotated as the config asks for, at positions [rows]."""
    turned = case.turned(vectors, at)
    return vectors if turned is None else turned


def _eps(case: Case, name: str) -> Finding:
    about, wanted = _about("norm.eps", name), say("norm_eps_expected", eps=case.facts.norm_eps)
    acting, comparison = acting_eps(case, name), _comparison(case, name)
    if acting is None and comparison is not None and comparison.best == "eps" and comparison.eps is not None:
        acting = Acting(comparison.eps, 0.05 * case.facts.norm_eps, comparison.eps, case.facts.norm_eps)
    if acting is None or not acting.tells:
        reason = _hidden(case, name) if acting is None else say("norm_eps_blind")
        return untested(case, "norm.eps", expected=wanted, reason=reason, about=about, part=name)
    if acting.differs and not lengths_kept(case, name):
        reason = say("norm_eps_after", part=name)
        return untested(case, "norm.eps", expected=wanted, reason=reason, about=about, part=name)
    if acting.differs and explained(case, name) not in ("right", "eps"):
        reason = say("norm_elsewhere", part=name)
        return untested(case, "norm.eps", expected=wanted, reason=reason, about=about, part=name)
    return finding(
        case,
        "norm.eps",
        passed(not acting.differs),
        measured=say("norm_eps_measured", eps=acting.eps, part=name),
        expected=wanted,
        tolerance=say("absolute", value=acting.within),
        reason=say("norm_eps_why"),
        site=_eps_place(case, name),
        about=about,
        part=name,
        eps=acting.eps,
        expected_eps=case.facts.norm_eps,
    )


def _eps_place(case: Case, name: str) -> Site | None:
    if case.seen.parts.attributes.get(f"{name}_norm.eps") == case.facts.norm_eps:
        return case.places.site("norm.body", f"norm.{name}")
    return case.places.site(f"norm.{name}_eps", f"norm.{name}")


def _place(case: Case, name: str, id: str) -> Site | None:
    call = next((c for c in case.seen.modules if c.name == f"{name}_norm"), None)
    if id == "norm.order" and call is not None and case.norm_call(name) is None:
        return case.places.site(f"norm.{name}_call") or case.places.at(call.place)
    if id == "norm.weights" and case.norm_call(name) is not None:
        return case.places.site("norm.weighted", f"norm.{name}_call")
    if case.norm_call(name) is not None:
        return case.places.site(f"norm.{name}_call", f"norm.{name}")
    return case.places.site(f"norm.{name}", f"norm.{name}_call") or case.places.at(call.place if call else None)


def _blind(case: Case, name: str, fault: str) -> Message:
    weight = case.norm_weights[name]
    half, made = len(weight) // 2, case.made(name)
    if made is not None and not made.any():
        return say("norm_zero", part=name)
    if fault == "after_rope":
        if not case.positions.any():
            return say("norm_order_one_token")
        if np.array_equal(weight[:half], weight[half:]):
            return say("norm_order_equal_halves", part=name)
    if fault == "unweighted" or (weight == 1).all():
        return say("norm_weights_ones", part=name)
    if fault == "swapped":
        return say("norm_weights_equal")
    return say("norm_alike", part=name)


def _hidden(case: Case, name: str) -> Message:
    """Return why nothing can be said: the vectors are zero, the norm is another module, or it cannot be seen."""
    kind = case.seen.parts.attributes.get(f"{name}_norm.class")
    made = case.made(name)
    if made is not None and not made.any():
        return say("norm_zero", part=name)
    if kind is not None and name not in case.norm_weights:
        return say("norm_foreign", part=name, kind=kind)
    return say("norm_hidden", part=name)


def _about(id: str, name: str) -> Message:
    return say(id.replace(".", "_") + "_claim", part=name)


def _expected(case: Case, id: str, name: str) -> Message:
    return say("norm_eps_expected", eps=case.facts.norm_eps) if id == "norm.eps" else say("norm_expected", part=name)


def _other(name: str) -> str:
    return "k" if name == "q" else "q"
