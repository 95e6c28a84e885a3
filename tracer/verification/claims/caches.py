"""Does a cache hand back every earlier key and value in its place, and is dropout off?

Must not know: torch.
"""

from dataclasses import dataclass

import numpy as np

from tracer.arrays import Array
from tracer.engines.transformers.observed import InterfaceCall
from tracer.records import Status
from tracer.verification.case import Case
from tracer.verification.records import Finding
from tracer.verification.scenarios import Bools
from tracer.verification.vectors import distances
from tracer.verification.verdict import finding, passed, say, untested

_MAKE_KEYS = frozenset(
    {
        "projections",
        "norm.present",
        "norm.order",
        "norm.weights",
        "norm.eps",
        "rope.applied",
        "rope.pairing",
        "rope.positions",
        "rope.theta",
        "rope.factor",
        "scale.once",
    }
)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Keys and values, [B, K, T, D]: what the attention function was given so far, of all passes, in order."""

    keys: Array
    values: Array


class CacheRows:
    """Keys and values as the passes so far were given them, by layer, and the check that a later pass has them all.

    Earlier rows must come back bit for bit; the new ones must be those that were made in this pass.
    """

    def __init__(self) -> None:
        self._rows: dict[int, _Rows] = {}

    def check(self, case: Case, known: bool, held: int) -> list[Finding]:
        """Return cache.rows for this pass; keeps what the pass was given for those to come. ``known``: keys or values
        of this layer are made wrongly without a cache already, so that its new rows tell nothing of the cache;
        ``held``: how many tokens of this layer the cache has been given."""
        interface, length = case.interface, case.step.ids.shape[1]
        before = self._rows.get(case.layer)
        if interface is not None:
            new = _Rows(interface.key, interface.value)
            if before is not None and case.step.past:
                new = _Rows(
                    _joined(before.keys, interface.key, length), _joined(before.values, interface.value, length)
                )
            self._rows[case.layer] = new
        if not case.step.past:
            return []
        if interface is None or before is None:
            return [untested(case, "cache.rows", expected=say("cache_expected"), reason=say("cache_hidden"))]
        return [_judge(case, interface, self._rows[case.layer], known, held)]


def _joined(before: Array, given: Array, length: int) -> Array:
    return Array(given.dtype, np.concatenate([before.bits, given.bits[:, :, -length:]], axis=2))


def _judge(case: Case, interface: InterfaceCall, rows: _Rows, known: bool, held: int) -> Finding:
    wanted, site = say("cache_expected"), case.places.site("cache.update", "interface.key")
    kept, total = interface.key.shape[2], rows.keys.shape[2]
    least = total if case.facts.window is None else min(total, case.facts.window)
    if kept < least or kept > total:
        unread = None if held else case.seen.unread
        measured = say("cache_count" if held else "cache_unused", found=kept, expected=total)
        if unread is not None:
            measured = say("cache_unread", found=kept, expected=total, given=unread[0], own=unread[1])
            site = case.places.function("attention_forward")
        return finding(
            case,
            "cache.rows",
            Status.FAIL,
            measured=measured,
            expected=wanted,
            reason=say("cache_why"),
            site=site if held or unread else case.places.site("cache.update"),
            held=held,
            more={"cause": "cache_unread"} if unread is not None else None,
        )
    new = min(case.step.ids.shape[1], kept)
    old = kept - new
    wrong = np.zeros(kept, dtype=np.bool_)
    for given, had in ((interface.key, rows.keys), (interface.value, rows.values)):
        wrong[:old] |= (given.bits[:, :, :old] != had.bits[:, :, total - kept : total - new]).any(axis=(0, 1, 3))
    fresh = None if known else _new_rows(case)
    if fresh is not None:
        wrong[old:] |= fresh[-new:]
    bad = np.flatnonzero(wrong)
    measured = say("cache_measured", rows=kept)
    if bad.size:
        measured = say("cache_wrong", row=int(bad[0]), count=int(bad.size), rows=kept)
    elif fresh is None:
        measured = say("cache_measured_old", rows=old)
    return finding(
        case,
        "cache.rows",
        passed(not bad.size),
        measured=measured,
        expected=wanted,
        tolerance=say("relative", value=2 * case.rope_tolerance),
        reason=say("cache_why" if fresh is not None else "cache_known" if known else "cache_new_hidden"),
        site=site,
        rows=kept,
        wrong=int(bad.size),
    )


def _new_rows(case: Case) -> Bools | None:
    """Return which of the new rows are not what norm and RoPE, and v_proj, made; None where that is not known."""
    rows, places = (x.reshape(-1) for x in np.indices(case.step.ids.shape))
    at, positions = (rows, places), case.step.positions.reshape(-1)
    normed, made = case.normed("k", at), case.made("v", at)
    keys = None if normed is None else case.turned(normed, positions)
    given_keys, given_values = case.arrived("k", at), case.arrived("v", at)
    if keys is None or made is None or given_keys is None or given_values is None:
        return None
    if keys.shape != given_keys.shape or made.shape != given_values.shape:
        return None
    within = 2 * (case.rope_within(positions) + case.loose("k"))
    wrong = (distances(given_keys, keys, case.grain) > within[:, None]).any(axis=-1)
    off = distances(given_values, made, case.grain)
    wrong |= (off > (0 if case.called("v_proj") else case.projected_within)).any(axis=-1)
    found: Bools = wrong.reshape(case.step.ids.shape).any(axis=0)
    return found


def spoils(found: Finding) -> bool:
    """Return whether a finding of a run without a cache says that keys or values are made wrongly."""
    id, part = found.check.id, found.check.figures.get("part")
    return found.check.status is Status.FAIL and (id == "heads.values" or (id in _MAKE_KEYS and part in ("k", "v")))


def dropout(case: Case) -> Finding:
    """Return dropout.off: nothing is dropped, by the argument and in effect."""
    wanted, interface, kernel = say("dropout_expected"), case.interface, case.seen.kernel
    if interface is None and kernel is None:
        return untested(case, "dropout.off", expected=wanted, reason=say("interface_hidden"))
    active = max(interface.dropped if interface else 0.0, kernel.dropout if kernel else 0.0)
    given = interface.dropout if interface else active
    measured = say("dropout_measured", p=active)
    if active == 0 and not case.probed.repeats:
        measured = say("dropout_unrepeated")
    elif active == 0 and given > 0:
        measured = say("dropout_idle", p=given)
    return finding(
        case,
        "dropout.off",
        passed(active == 0 and case.probed.repeats),
        measured=measured,
        expected=wanted,
        reason=say("dropout_why"),
        site=case.places.site("interface.dropout", "interface.call"),
        p=active,
        argument=given,
        repeats=case.probed.repeats,
        more={"cause": "not_repeatable"} if active == 0 and not case.probed.repeats else None,
    )
