"""Does a cache hand back every earlier key and value in its place, and is dropout off?

Must not know: torch.
"""

import numpy as np

from tracer.arrays import Floats
from tracer.records import Status
from tracer.verification.case import Case
from tracer.verification.records import Finding
from tracer.verification.verdict import finding, passed, say, untested


class CacheRows:
    """Keys and values as each pass made them, by layer, and the check that a later pass was given them all."""

    def __init__(self) -> None:
        self._keys: dict[int, Floats] = {}
        self._values: dict[int, Floats] = {}

    def check(self, case: Case) -> list[Finding]:
        """Return cache.rows for this pass; keeps what the pass made for those to come."""
        keys, values = self._made(case)
        if keys is None or values is None:
            if not case.step.past:
                return []
            return [untested(case, "cache.rows", expected=say("cache_expected"), reason=say("cache_hidden"))]
        layer = case.layer
        if layer in self._keys and case.step.past:
            keys = np.concatenate([self._keys[layer], keys], axis=1)
            values = np.concatenate([self._values[layer], values], axis=1)
        self._keys[layer], self._values[layer] = keys, values
        return [self._compare(case, keys, values)] if case.step.past else []

    @staticmethod
    def _made(case: Case) -> tuple[Floats | None, Floats | None]:
        """Return keys and values of this pass, [B, T, K, D]."""
        batch, length = case.step.ids.shape
        rows, places = (x.reshape(-1) for x in np.indices((batch, length)))
        normed, values = case.normed("k", (rows, places)), case.made("v", (rows, places))
        keys = None if normed is None else case.turned(normed, case.step.positions.reshape(-1))
        if keys is None or values is None:
            return None, None
        return keys.reshape(batch, length, *keys.shape[1:]), values.reshape(batch, length, *values.shape[1:])

    @staticmethod
    def _compare(case: Case, keys: Floats, values: Floats) -> Finding:
        interface, wanted = case.interface, say("cache_expected")
        if interface is None:
            return untested(case, "cache.rows", expected=wanted, reason=say("interface_hidden"))
        given_keys, given_values = (a.float64().transpose(0, 2, 1, 3) for a in (interface.key, interface.value))
        kept = given_keys.shape[1]
        site = case.places.site("cache.update", "interface.key")
        least = keys.shape[1] if case.facts.window is None else min(keys.shape[1], case.facts.window)
        if kept < least or kept > keys.shape[1]:
            measured = say("cache_count", found=kept, expected=keys.shape[1])
            reason = say("cache_why")
            return finding(
                case, "cache.rows", Status.FAIL, measured=measured, expected=wanted, reason=reason, site=site
            )
        keys, values = keys[:, keys.shape[1] - kept :], values[:, values.shape[1] - kept :]
        size = np.sqrt(np.mean(keys**2))
        off = np.sqrt(np.mean((given_keys - keys) ** 2, axis=(0, 2, 3))) / size
        wrong_values = (given_values != values).any(axis=(0, 2, 3))
        within = case.rope_tolerance * 2
        bad = np.flatnonzero((off > within) | wrong_values)
        measured = say("cache_measured", rows=kept, off=float(off.max()))
        if bad.size:
            measured = say("cache_wrong", row=int(bad[0]), count=int(bad.size), rows=kept, off=float(off[bad[0]]))
        return finding(
            case,
            "cache.rows",
            passed(not bad.size),
            measured=measured,
            expected=wanted,
            tolerance=say("relative", value=within),
            reason=say("cache_why"),
            site=site,
            rows=kept,
            wrong=int(bad.size),
        )


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
    )
