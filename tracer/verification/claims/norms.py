"""Are q_norm and k_norm there, before the rotary embedding, with their own weights and eps?

Each fault stands for vectors that would have arrived in place of the right ones; what arrived is compared with all of
them. Where a fault would change nothing (weights all one, one token), that is said. Must not know: torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tracer.arrays import Array, Floats
from tracer.checks.outcome import Figure
from tracer.records import Site, Status
from tracer.texts import Message
from tracer.verification import expected
from tracer.verification.case import Case
from tracer.verification.expected import Ints
from tracer.verification.records import Finding
from tracer.verification.verdict import finding, passed, say, untested

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
    """Return norm.present, norm.order, norm.weights and norm.eps for queries and keys."""
    found: list[Finding] = []
    for name in "qk":
        found += _three(case, name)
        found.append(_eps(case, name))
    return found


def explained(case: Case, name: str) -> str | None:
    """Return which fault of the norm explains what arrived ("right" for none), None where nothing does."""
    comparison = _comparison(case, name)
    return None if comparison is None else comparison.best


@dataclass(frozen=True)
class _Comparison:
    """Relative distances of what was seen from the right vectors and from those each fault would give, and of each
    fault's from the right ones; ``best`` is "right", a fault, or None where nothing fits."""

    distances: Mapping[str, float]
    apart: Mapping[str, float]
    tolerance: float
    best: str | None


def _three(case: Case, name: str) -> list[Finding]:
    comparison = _comparison(case, name)
    if comparison is None:
        reason = say("norm_hidden", part=name)
        return [
            untested(case, id, expected=_expected(case, id, name), reason=reason, about=_about(id, name))
            for id in _CHECKS
        ]
    return [_one(case, name, id, comparison) for id in _CHECKS]


def _one(case: Case, name: str, id: str, seen: _Comparison) -> Finding:
    faults = [fault for fault, owner in _OWNER.items() if owner == id and fault in seen.apart]
    right = seen.distances["right"]
    about, wanted = _about(id, name), _expected(case, id, name)
    figures: dict[str, Figure] = {"part": name, "distance": right, "within": seen.tolerance}
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
            measured=say("norm_close", distance=right, part=name),
            expected=wanted,
            tolerance=say("relative", value=seen.tolerance),
            reason=say("norm_would_show", apart=nearest),
            site=place,
            about=about,
            more=figures,
        )
    if seen.best in faults or (seen.best is None and id == "norm.present"):
        fault = seen.best or "unexplained"
        return finding(
            case,
            id,
            Status.FAIL,
            measured=say(f"norm_is_{fault}", part=name, distance=seen.distances.get(fault, right), other=_other(name)),
            expected=wanted,
            tolerance=say("relative", value=seen.tolerance),
            reason=say("norm_off", distance=right),
            site=place,
            about=about,
            fault=fault,
            more=figures,
        )
    reason = say("norm_elsewhere", part=name)
    return untested(case, id, expected=wanted, reason=reason, site=place, about=about, more=figures)


def _comparison(case: Case, name: str) -> _Comparison | None:
    kept: dict[str, _Comparison | None] = case.kept
    if f"norm.{name}" not in kept:
        kept[f"norm.{name}"] = _compare(case, name)
    return kept[f"norm.{name}"]


def _compare(case: Case, name: str) -> _Comparison | None:
    made, weight = case.made(name), case.norm_weights.get(name)
    if made is None or weight is None:
        return None
    arrived = case.arrived(name)
    call = case.norm_call(name)
    if call is None and (arrived is None or case.rope is None or arrived.shape != made.shape):
        return None
    at = case.positions
    right = expected.rms_norm(made, weight, case.facts.norm_eps)
    faults = _faults(case, name, made, weight)
    turned = {fault: _turn(case, vectors, at) for fault, vectors in faults.items()}
    turned["after_rope"] = _after(case, made, weight, at)
    turned_right = _turn(case, right, at)
    apart = {fault: _distance(vectors, turned_right) for fault, vectors in turned.items()}
    normed = case.normed(name) if call is not None else None
    if normed is not None:
        seen, compared = normed, {"right": right, **faults}
        tolerance = 4 * case.unit + 1e-7
    else:
        seen, compared = (arrived if arrived is not None else made), {"right": turned_right, **turned}
        tolerance = case.rope_tolerance
    distances = {fault: _distance(seen, vectors) for fault, vectors in compared.items()}
    return _Comparison(distances, apart, tolerance, _best(distances, tolerance))


def _best(distances: Mapping[str, float], tolerance: float) -> str | None:
    best = min(distances, key=lambda fault: distances[fault])
    if distances["right"] <= tolerance and distances["right"] <= 4 * distances[best]:
        return "right"
    return best if distances[best] <= 2 * tolerance else None


def _faults(case: Case, name: str, made: Floats, weight: Floats) -> dict[str, Floats]:
    eps = case.facts.norm_eps
    faults = {"skipped": made, "unweighted": expected.rms_norm(made, None, eps)}
    other = case.norm_weights.get(_other(name))
    acting = _acting_eps(case, name)
    if acting is not None and acting.eps > 0 and acting.differs:
        faults["eps"] = expected.rms_norm(made, weight, acting.eps)
    if other is not None:
        faults["swapped"] = expected.rms_norm(made, other, eps)
    if made.shape[1] > 1:
        flat = made.reshape(len(made), -1)
        faults["all_heads"] = expected.rms_norm(flat, None, eps).reshape(made.shape) * weight
    return faults


def _after(case: Case, made: Floats, weight: Floats, at: Ints) -> Floats:
    if case.rope is None:
        return expected.rms_norm(made, weight, case.facts.norm_eps)
    return expected.rms_norm(_turn(case, made, at) / case.rope.factor, weight, case.facts.norm_eps) * case.rope.factor


def _turn(case: Case, vectors: Floats, at: Ints) -> Floats:
    """Return vectors [rows, heads, D] rotated as the config asks for, at positions [rows]."""
    if case.rope is None:
        return vectors
    return expected.rotate(vectors, expected.angles(case.rope, at)[:, None], case.rope.factor)


def _distance(a: Floats, b: Floats) -> float:
    """Return the root mean square of a − b relative to that of b."""
    with np.errstate(invalid="ignore", over="ignore"):
        size = float(np.sqrt(np.mean(b**2)))
        apart = float(np.sqrt(np.mean((a - b) ** 2)))
    return apart / size if size > 0 and np.isfinite(apart) else float("inf")


@dataclass(frozen=True)
class _Acting:
    """The eps that a norm acts with, how exactly that is known, and the eps it should have."""

    eps: float
    within: float
    size: float
    wanted: float

    @property
    def differs(self) -> bool:
        return abs(self.eps - self.wanted) > self.within

    @property
    def tells(self) -> bool:
        return self.within <= 0.5 * max(self.wanted, self.size)


def _acting_eps(case: Case, name: str) -> _Acting | None:
    """Return the eps that shows when hidden states are made small; None where it cannot be seen."""
    small, weight, made, arrived = case.probed.small, case.norm_weights.get(name), case.made(name), case.arrived(name)
    projected = None if small is None else getattr(small, f"{name}_proj")
    array = None if small is None else (small.query if name == "q" else small.key)
    if weight is None or projected is None or array is None or made is None or arrived is None:
        return None
    if arrived.shape != made.shape:
        return None
    rows, places = case.sample
    quiet = projected[rows, places].float64().reshape(made.shape)
    cut = array.bits[rows, :, places + array.shape[2] - case.step.ids.shape[1]]
    came = Array(array.dtype, np.ascontiguousarray(cut)).float64()
    if came.shape != made.shape:
        return None
    loud, quiet_mean = np.mean(made**2, axis=-1), np.mean(quiet**2, axis=-1)
    # mean square + eps, but for whatever factor the vectors got afterwards; at ordinary size eps is nothing beside it
    factor = _median(loud / _under(weight, made, arrived))
    under = factor * _under(weight, quiet, came)
    size = _median(quiet_mean)
    eps = _median(under - quiet_mean)
    if not np.isfinite(eps) or not np.isfinite(factor):
        return None
    wanted = case.facts.norm_eps
    return _Acting(eps, 0.05 * wanted + 8 * case.unit * size, size, wanted)


def _under(weight: Floats, before: Floats, after: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio: Floats = np.sum((weight * before) ** 2, axis=-1) / np.sum(after**2, axis=-1)
    return ratio


def _median(values: Floats) -> float:
    usable = values[np.isfinite(values)]
    return float(np.median(usable)) if usable.size else float("nan")


def _eps(case: Case, name: str) -> Finding:
    about, wanted = _about("norm.eps", name), say("norm_eps_expected", eps=case.facts.norm_eps)
    acting = _acting_eps(case, name)
    if acting is None or not acting.tells:
        reason = say("norm_hidden", part=name) if acting is None else say("norm_eps_blind")
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
    half = len(weight) // 2
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


def _about(id: str, name: str) -> Message:
    return say(id.replace(".", "_") + "_claim", part=name)


def _expected(case: Case, id: str, name: str) -> Message:
    return say("norm_eps_expected", eps=case.facts.norm_eps) if id == "norm.eps" else say("norm_expected", part=name)


def _other(name: str) -> str:
    return "k" if name == "q" else "q"
