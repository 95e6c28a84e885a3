"""Is the rotary embedding applied to queries and keys, with the right pairs, positions, frequencies and factor, and is
nothing else done to their length?

Vectors before it (what the norm gave) and after it (what the attention function was given) tell the angle by which each
pair was turned. Must not know: torch.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracer.arrays import Floats
from tracer.checks.outcome import Figure
from tracer.records import Site, Status
from tracer.texts import Message
from tracer.verification import expected, ways
from tracer.verification.case import Case
from tracer.verification.claims import norms
from tracer.verification.expected import Ints, Rope
from tracer.verification.records import Finding
from tracer.verification.turning import Turning, measure, theta_of
from tracer.verification.vectors import Part
from tracer.verification.vectors import distance as apart
from tracer.verification.verdict import finding, say, untested, which
from tracer.verification.ways import Way

_SCALED = 1e-3  # frequencies that differ from one factor by less than this, relatively, are scaled
CHECKS = ("rope.applied", "rope.pairing", "rope.positions", "rope.theta", "rope.factor", "scale.once")
_APART = 4.0
_THETA_BLIND = 0.05


def ropes(case: Case) -> list[Finding]:
    """Return every check of the rotary embedding for queries, and for keys where no cache stands between."""
    names = "q" if case.step.past else "qk"
    return [result for name in names for result in _all(case, name)]


@dataclass(frozen=True, eq=False)
class _Seen:
    """Some vectors [rows, H, D] before and after, and where they stand; what follows is computed when asked for."""

    before: Floats
    after: Floats
    at: Ints
    rope: Rope

    @cached_property
    def angles(self) -> Floats:
        return expected.angles(self.rope, self.at)[:, None]

    @cached_property
    def right(self) -> Floats:
        return expected.rotate(self.before, self.angles, self.rope.factor)

    @cached_property
    def distance(self) -> float:
        """How far what arrived lies from the right vectors, relative to their size."""
        return apart(self.after, self.right)

    @cached_property
    def faults(self) -> dict[str, Floats]:
        x, angles, factor = self.before, self.angles, self.rope.factor
        return {
            "missing": x * factor,
            "unscaled": x,
            "neighbours": expected.rotate_neighbours(x, angles, factor),
            "mixed": expected.mixed_neighbours(x, angles, factor),
            "backwards": expected.rotate(x, -angles, factor),
        }

    @cached_property
    def distances(self) -> dict[str, float]:
        """How far what arrived lies from what each fault would give."""
        return {fault: apart(self.after, vectors) for fault, vectors in self.faults.items()}

    @cached_property
    def apart(self) -> dict[str, float]:
        """How far what each fault would give lies from the right vectors."""
        return {fault: apart(vectors, self.right) for fault, vectors in self.faults.items()}

    @cached_property
    def turning(self) -> Turning:
        return measure(self.before, self.after, self.at, self.rope.frequencies)


def _all(case: Case, name: str) -> list[Finding]:
    way = ways.way(case, name)
    if way is None or case.rope is None:
        reason = say("rope_kind", kind=str(case.facts.rope.get("rope_type"))) if case.rope is None else None
        return [_untested(case, id, name, reason or say("rope_hidden", part=name)) for id in CHECKS]
    if not way.clean and norms.explained(case, name) not in ("right", "turned", None):
        way = _unnormed(case, name)
        if way is None:
            return [_untested(case, id, name, say("rope_after_norm", part=name)) for id in CHECKS]
    if not way.at.any() and len(way.at) <= 1:
        return [_untested(case, id, name, say("rope_one_token")) for id in CHECKS]
    if not way.before.any() and way.clean:
        return [_untested(case, id, name, say("rope_zero", part=name)) for id in CHECKS]
    at = Part(case.sampled, np.arange(way.before.shape[1])) if way.clean else ways.part(case, way.bad)
    seen = _Seen(at.of(way.before), at.of(way.after), way.at[at.tokens], case.rope)
    if way.clean:
        # one token on a cache: another theta would be another position, which is told by that
        ids = [id for id in CHECKS if id != "rope.theta" or len(way.at) > 1 or not case.step.past]
        return [_holds(case, name, id, seen, way) for id in ids]
    return _broken(case, name, seen, way)


def _unnormed(case: Case, name: str) -> Way | None:
    """Return the way from what the projection made, where the norm is left out and nothing else is wrong."""
    if norms.explained(case, name) != "skipped":
        return None
    way = ways.between(case, case.made(name, case.counted), name)
    return way if way is not None and way.clean else None


def _holds(case: Case, name: str, id: str, seen: _Seen, way: Way) -> Finding:
    """Return a pass, or say that this input could not have shown the fault."""
    noise = max(seen.distance, case.unit / 8)
    shows = _shows(id, seen)
    if shows < _APART * noise:
        return _untested(case, id, name, say("rope_blind", apart=shows, noise=noise))
    return finding(
        case,
        id,
        Status.PASS,
        measured=_measured(id, name, seen, way),
        expected=_expected(case, id),
        tolerance=say("relative", value=case.rope_tolerance),
        reason=say("rope_why", distance=way.farthest, apart=shows),
        site=_place(case, name, id, None),
        about=_about(id, name),
        more=_figures(id, name, seen, way),
    )


def _shows(id: str, seen: _Seen) -> float:
    """Return how far vectors would move, relatively, if the check's fault were there."""
    if id == "rope.applied":
        return seen.apart["missing"]
    if id == "rope.pairing":
        return min(seen.apart["neighbours"], seen.apart["mixed"], seen.apart["backwards"])
    if id == "rope.positions":
        return _moved(seen, shift=1.0)
    if id == "rope.theta":
        return _moved(seen, theta=1 + _THETA_BLIND) if seen.at.max() > seen.at.min() else 0.0
    return 1.0


def _moved(seen: _Seen, shift: float = 0.0, theta: float = 1.0) -> float:
    """Return how far vectors would move if all positions, or theta, were that much different."""
    frequencies = seen.rope.frequencies
    exponent = np.arange(len(frequencies)) / len(frequencies)
    change = (seen.at[:, None] + shift) * frequencies * theta**-exponent - seen.at[:, None] * frequencies
    power = np.mean(np.abs(seen.before[..., : change.shape[1]]) ** 2 + seen.before[..., change.shape[1] :] ** 2, axis=1)
    total = float(power.sum())
    return float(np.sqrt(np.sum(power * (2 * np.sin(change / 2)) ** 2) / total)) if total > 0 else 0.0


def _broken(case: Case, name: str, seen: _Seen, way: Way) -> list[Finding]:
    """Return which check what arrived fails, by the vectors that are wrong, and the others as not testable."""
    if norms.explained(case, name) is None:
        return [_untested(case, id, name, say("rope_after_norm", part=name)) for id in CHECKS]
    wrong = _wrong(case, seen)
    return [
        finding(
            case,
            id,
            Status.FAIL,
            measured=wrong[id],
            expected=_expected(case, id, seen),
            tolerance=say("relative", value=case.rope_tolerance),
            reason=say("rope_off", part=name, distance=way.farthest, which=which(case, way.bad)),
            site=_broken_place(case, name, id, seen),
            about=_about(id, name),
            more={**_figures(id, name, seen, way), **_cause(wrong[id])},
        )
        if id in wrong
        else _untested(case, id, name, say("rope_elsewhere", part=name))
        for id in CHECKS
    ]


def _wrong(case: Case, seen: _Seen) -> dict[str, Message]:
    """Return the checks that fail, with what was measured."""
    if not np.isfinite(seen.after).all():
        return {"rope.applied": say("rope_not_finite")}
    rope, tolerance = seen.rope, 2 * case.rope_tolerance
    best = min(seen.distances, key=lambda kind: seen.distances[kind])
    turning = seen.turning
    if seen.distances[best] <= tolerance and best in ("missing", "unscaled"):
        if len(case.positions) == 1:  # one token that is not turned stands at position 0
            return {"rope.positions": _positions(seen)}
        return {"rope.applied": say("rope_is_missing")}
    if seen.distances[best] <= tolerance and best in ("neighbours", "mixed", "backwards"):
        return {"rope.pairing": say(f"rope_is_{best}")}
    if turning.residual > max(8 * tolerance, 1e-3):
        return {"rope.applied": say("rope_is_no_turning", residual=turning.residual)}
    wrong: dict[str, Message] = {}
    span = float(seen.at.max() - seen.at.min())
    off = (turning.frequencies - rope.frequencies) * span
    if float(np.sqrt(np.sum(turning.weights * off**2))) > tolerance:
        wrong["rope.theta"] = _theta(turning, rope)
    elif abs(turning.shift) > 0.25:
        wrong["rope.positions"] = _positions(seen)
    table, exact = _table_factor(case), tolerance / 8  # a mean of many vectors is that much more exact than one
    if abs((table or turning.factor) / rope.factor - 1) > exact:
        wrong["rope.factor"] = say("rope_factor_measured", factor=table or turning.factor)
    if abs(turning.factor / (table or rope.factor) - 1) > exact:
        wrong["scale.once"] = say("scale_once_measured", ratio=turning.factor / (table or rope.factor))
    if not wrong and turning.residual < seen.distance / 2:  # other frequencies explain it, by little
        return {"rope.theta": _theta(turning, rope)}
    return wrong or {"rope.applied": say("rope_is_no_turning", residual=turning.residual)}


def _cause(measured: Message) -> dict[str, Figure]:
    """Return the cause where it is not the usual one of its check: something else than a turning was done."""
    return {"cause": "no_turning"} if measured.id == "verify.rope_is_no_turning" else {}


def _table(case: Case) -> tuple[Floats, Floats] | None:
    """Return cos and sin of the tokens that count, as the attention received them; None where it received none."""
    if case.seen.cos is None or case.seen.sin is None:
        return None
    return case.seen.cos.float64()[case.rows], case.seen.sin.float64()[case.rows]


def _table_factor(case: Case) -> float | None:
    """Return the length of (cos, sin) as the attention received them, None where it received none."""
    table = _table(case)
    if table is None:
        return None
    cos, sin = table
    return float(np.sqrt(np.mean(cos**2 + sin**2)))


def _measured(id: str, name: str, seen: _Seen, way: Way) -> Message:
    if id == "rope.positions":
        return _positions(seen)
    if id == "rope.theta":
        return _theta(seen.turning, seen.rope)
    if id == "rope.factor":
        return say("rope_factor_measured", factor=seen.turning.factor)
    if id == "scale.once":
        return say("scale_once_measured", ratio=seen.turning.factor / seen.rope.factor)
    return say("rope_close", part=name, distance=way.farthest)


def _positions(seen: _Seen) -> Message:
    found = seen.turning.positions
    shown = [f"{float(p):.4g}" for p in found[:4]] + (["…", f"{float(found[-1]):.4g}"] if len(found) > 4 else [])
    return say("rope_positions_measured", positions=", ".join(shown), shift=seen.turning.shift)


def _theta(turning: Turning, rope: Rope) -> Message:
    ratio = turning.frequencies / rope.frequencies
    mean = float(np.sum(turning.weights * ratio))
    if abs(mean - 1) > _SCALED and float(np.sum(turning.weights * np.abs(ratio / mean - 1))) < _SCALED:
        return say("rope_frequencies_scaled", ratio=mean, theta=rope.theta)
    if rope.kind == "default":
        return say("rope_theta_measured", theta=theta_of(turning.frequencies, turning.weights))
    off = np.abs(turning.frequencies / rope.frequencies - 1)
    return say("rope_frequencies_measured", off=float(np.sum(turning.weights * off)))


def _expected(case: Case, id: str, seen: _Seen | None = None) -> Message:
    rope = case.rope
    if rope is None or id in ("rope.applied", "rope.pairing"):
        return say(id.replace(".", "_") + "_expected")
    if id == "rope.positions":
        at = case.positions[case.sampled] if seen is None else seen.at
        shown = [str(int(p)) for p in at[:4]] + (["…", str(int(at[-1]))] if len(at) > 4 else [])
        return say("rope_positions_expected", positions=", ".join(shown))
    if id == "rope.theta":
        return say("rope_theta_expected", theta=rope.theta, kind=rope.kind)
    if id == "rope.factor":
        return say("rope_factor_expected", factor=rope.factor, kind=rope.kind)
    return say("scale_once_expected")


def _figures(id: str, name: str, seen: _Seen, way: Way) -> dict[str, Figure]:
    figures: dict[str, Figure] = {"part": name, "distance": way.farthest}
    if id == "rope.theta" and seen.rope.kind == "default":
        figures["theta"] = theta_of(seen.turning.frequencies, seen.turning.weights)
    if id in ("rope.factor", "scale.once"):
        figures["factor"] = seen.turning.factor
    if id == "rope.positions":
        figures["shift"] = seen.turning.shift
    return figures


def _place(case: Case, name: str, id: str, seen: _Seen | None) -> Site | None:
    places = case.places
    if id == "scale.once":
        return places.site("interface.query" if name == "q" else "interface.key", "rope.call")
    if id == "rope.pairing":
        return places.site("rope.half", f"rope.{name}", "rope.call", f"norm.{name}")
    if id == "rope.positions":
        given, wanted = case.seen.positions, case.step.positions
        if (
            given is not None
            and given.shape == wanted.shape
            and not np.array_equal(given[case.rows], wanted[case.rows])
        ):
            forgot = case.step.past and np.array_equal(given[case.rows], wanted[case.rows] - case.step.past)
            return places.site(*(("rope.past",) if forgot else ()), "rope.positions", "rope.angles")
        return places.site("rope.angles", "rope.positions", "rope.call")
    if id == "rope.theta":
        return places.site(
            "rope.base" if case.rope and case.rope.kind == "default" else "rope.frequencies", "rope.angles"
        )
    if id == "rope.factor":
        return places.site("rope.cos", "rope.call")
    if _turned_elsewhere(case, seen):
        return places.site("rope.cos", "rope.angles")
    return places.site(f"rope.{name}", "rope.call", f"norm.{name}")


def _broken_place(case: Case, name: str, id: str, seen: _Seen) -> Site | None:
    """Return where what arrived became wrong: in the attention itself where it was given the right cos and sin."""
    if id in ("rope.positions", "rope.theta", "rope.factor") and _table_is_right(case):
        return case.places.site("rope.call", f"rope.{name}") or case.places.function("attention_forward")
    return _place(case, name, id, seen)


def _table_is_right(case: Case) -> bool:
    """Return whether cos and sin, as the attention received them, are those that the config asks for."""
    table = _table(case)
    if table is None or case.rope is None:
        return False
    cos, sin = table
    within = 2 * case.rope_tolerance
    angles = expected.angles(case.rope, case.positions)
    right = [np.tile(function(angles), 2) * case.rope.factor for function in (np.cos, np.sin)]
    if cos.shape != right[0].shape or sin.shape != right[1].shape:
        return False
    return bool(max(np.abs(cos - right[0]).max(initial=0.0), np.abs(sin - right[1]).max(initial=0.0)) <= within)


def _turned_elsewhere(case: Case, seen: _Seen | None) -> bool:
    """Return whether cos and sin themselves are those of no turning at all."""
    if seen is None or case.seen.sin is None:
        return False
    return not case.seen.sin.float64()[case.rows].any()


def _about(id: str, name: str) -> Message:
    return say(id.replace(".", "_") + "_claim", part=name)


def _untested(case: Case, id: str, name: str, reason: Message) -> Finding:
    return untested(
        case,
        id,
        expected=_expected(case, id),
        reason=reason,
        site=_place(case, name, id, None),
        about=_about(id, name),
        part=name,
    )
