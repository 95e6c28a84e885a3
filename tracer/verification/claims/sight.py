"""Who sees whom: causality, window, padding and packing, read from the weights an attention really gave and from what
moves when a token is changed.

A flag is read and told, but effect decides. Must not know: torch.
"""

import numpy as np

from tracer.engines.transformers.observed import InterfaceCall
from tracer.records import Site, Status
from tracer.texts import Message
from tracer.verification.case import Case
from tracer.verification.masking import mask_place
from tracer.verification.records import Finding
from tracer.verification.scenarios import Bools
from tracer.verification.subjects import kernel_site
from tracer.verification.verdict import finding, passed, say, untested
from tracer.verification.views import Fault, faults, kinds

# Which check a kind of fault belongs to: a key seen that should be hidden, or hidden that should be seen.
_OWNER = {"pad": "padding.weights", "other": "packing.weights"}


def weights(case: Case) -> list[Finding]:
    """Return the checks of effective weights that this scenario is for."""
    ids = _checks(case)
    if case.probed.weights is None:
        return [untested(case, id, expected=_expected(case, id), reason=say("weights_hidden")) for id in ids]
    found = faults(case)
    near = "causal.alignment" if case.step.past else "causal.weights"
    window = _window_id(case)
    owner = {**_OWNER, "future": near, "missing": near, "old": window, "short": window}
    return [_weights(case, id, [fault for fault in found if owner[fault.kind] == id]) for id in ids]


def effect(case: Case) -> list[Finding]:
    """Return what changing tokens showed: causal.effect, padding.effect or packing.effect."""
    if case.step.past:
        return []
    id = "packing.effect" if case.step.starts else "padding.effect" if case.step.mask else "causal.effect"
    wanted = say(id.replace(".", "_") + "_expected")
    if not case.probed.repeats:
        return [untested(case, id, expected=wanted, reason=say("not_repeatable"))]
    tried, leak, blind = 0, None, True
    for moved in case.probed.moved:
        tried += 1
        (row, token), *_ = moved.tokens
        if case.step.mask:  # the rows of padding need not move; what is zero is not changed by negation
            blind &= not any(case.seen.hidden[row, token : token + 1].float64().any() for row, token in moved.tokens)
        else:
            blind &= not bool(moved.rows[row, token])
        hit = np.argwhere(moved.rows & _must_stay(case, moved.tokens))
        if hit.size and leak is None:
            leak = (token, int(hit[0][0]), int(hit[0][1]))
    if not tried or blind:
        nothing = "effect_zero" if case.step.mask else "effect_blind"
        return [untested(case, id, expected=wanted, reason=say(nothing if tried else "effect_single"))]
    tokens = [token for moved in case.probed.moved for _, token in moved.tokens]
    if leak is None:
        one = "_one" if id == "causal.effect" and len(tokens) == 1 else ""
        measured = say(id.replace(".", "_") + "_measured" + one, tokens=_some(tokens))
    else:
        measured = say("effect_leak", token=leak[0], row=leak[2], batch=leak[1])
    return [
        finding(
            case,
            id,
            passed(leak is None),
            measured=measured,
            expected=wanted,
            reason=say("effect_why"),
            site=_place(case, id),
            tried=tried,
            token=leak[0] if leak else None,
            row=leak[2] if leak else None,
        )
    ]


def flag(case: Case) -> list[Finding]:
    """Return causal.flag: the kernel is told to hide later tokens, by a flag or by a mask. Nothing is asked of a single
    token on a cache, which has no later ones."""
    return [] if case.step.past and case.step.ids.shape[1] == 1 else [_flag(case)]


def _flag(case: Case) -> Finding:
    wanted = say("causal_flag_expected")
    if case.interface is None or case.step.ids.shape[1] == 1:
        reason = say("interface_hidden" if case.interface is None else "causal_flag_single")
        return untested(case, "causal.flag", expected=wanted, reason=reason)
    leaks = [fault for fault in faults(case) if fault.kind == "future"] if case.probed.weights is not None else []
    kernel = case.seen.kernel
    given = say(
        "causal_flag_measured",
        causal=str(kernel.causal) if kernel is not None else "—",
        mask=_shape(case),
    )
    if _told(case):
        reason = say("causal_flag_told")
        return finding(case, "causal.flag", Status.PASS, measured=given, expected=wanted, reason=reason)
    if not leaks:
        return untested(case, "causal.flag", expected=wanted, reason=say("causal_flag_by_effect"))
    reason = _lost(case, case.interface)
    return finding(
        case, "causal.flag", Status.FAIL, measured=given, expected=wanted, reason=reason, site=_flag_place(case)
    )


def _lost(case: Case, interface: InterfaceCall) -> Message:
    """Return why an attention function that sees later tokens was not told to hide them."""
    if interface.mask is not None:
        return say("causal_flag_mask", function=interface.function, mask=_shape(case))
    site = case.places.at(interface.code)
    own = site is not None and site.project != "transformers"
    return say("causal_flag_lost_own" if own else "causal_flag_lost", function=interface.function)


def window_of(case: Case) -> int | None:
    """Return the largest number of keys back that a query gave weight, itself counted; None where that is all there
    are, so that no window shows, or it cannot be read."""
    found = case.probed.weights
    if found is None:
        return None
    offset = case.keys - case.step.ids.shape[1]
    some = (found.values[0] != 0).any(axis=0)
    first = np.where(some.any(axis=1), some.argmax(axis=1), case.keys)
    widest = int((np.arange(len(first)) + offset - first + 1).max(initial=0))
    return None if widest >= case.keys else widest


def _checks(case: Case) -> list[str]:
    if case.step.past:
        return ["causal.alignment", _window_id(case)]
    ids = ["causal.weights"]
    if case.step.starts:
        ids.append("packing.weights")
    elif case.step.mask:
        ids.append("padding.weights")
    return [*ids, _window_id(case)]


def _window_id(case: Case) -> str:
    return "window.none" if case.facts.window is None else "window.effective"


def _weights(case: Case, id: str, faults: list[Fault]) -> Finding:
    hidden = _hidden_of(case, id)
    wanted = _expected(case, id)
    if faults:
        worst = max(faults, key=lambda fault: max(fault.weight, fault.reference))
        return finding(
            case,
            id,
            Status.FAIL,
            measured=_told_fault(case, worst),
            expected=wanted,
            reason=say("weights_read"),
            site=_place(case, id),
            head=worst.head,
            kind=worst.kind,
            query=worst.query,
            key=worst.key,
            weight=worst.weight,
            reference=worst.reference,
        )
    if not hidden:
        return untested(case, id, expected=wanted, reason=_nothing_hidden(case, id), window=case.facts.window)
    if id == "window.effective":
        measured = say("window_measured", window=window_of(case) or case.keys)
    elif id == "window.none":
        measured = say("window_measured_all", keys=case.keys)
    else:
        measured = say("weights_clean", count=hidden)
    return finding(
        case, id, Status.PASS, measured=measured, expected=wanted, reason=say("weights_read"), site=_place(case, id)
    )


def _hidden_of(case: Case, id: str) -> int:
    """Return how many pairs the check looks at: 0 where this input has none, so that it could show nothing."""
    sort = {"causal.alignment": "future", "causal.weights": "future", "padding.weights": "pad"}
    sort |= {"packing.weights": "other", "window.effective": "old"}
    if id in ("window.none", "causal.alignment"):
        return case.keys - 1
    return sum(int(kinds(case, row)[sort[id]][case.rows[row]].sum()) for row in range(case.step.ids.shape[0]))


def _nothing_hidden(case: Case, id: str) -> Message:
    if id == "window.effective":
        return say("window_longer", window=case.facts.window, keys=case.keys)
    return say("weights_nothing_hidden")


def _must_stay(case: Case, tokens: tuple[tuple[int, int], ...]) -> Bools:
    """Return which output rows [B, T] must not move when ``tokens`` are changed: all but those that may see one."""
    stay = case.rows.copy()
    if case.step.mask:
        return stay
    length = case.step.ids.shape[1]
    bounds = case.step.starts or (0, length)
    for _, token in tokens:
        end = next(stop for stop in bounds[1:] if token < stop)
        stay[0, token:end] = False
    return stay


def _told(case: Case) -> bool:
    """Return whether the kernel was told to hide later tokens: by its flag, or by a mask that hides them."""
    kernel = case.seen.kernel
    if kernel is not None and kernel.causal:
        return True
    mask = case.interface.mask if case.interface is not None else None
    if mask is None or len(mask.shape) != 4:
        return False
    hides = ~mask.bits if mask.dtype == "BOOL" else mask.float64() < -1e3
    length, keys = case.step.ids.shape[1], mask.shape[-1]
    future = np.arange(keys)[None, :] > np.arange(length)[:, None] + keys - length
    return bool(hides[..., future].all())


def _shape(case: Case) -> str:
    mask = case.interface.mask if case.interface is not None else None
    return "None" if mask is None else " × ".join(map(str, mask.shape))


def _told_fault(case: Case, fault: Fault) -> Message:
    values = {"layer": case.layer, "head": fault.head, "query": fault.query, "key": fault.key}
    if fault.kind in ("missing", "short"):
        return say(f"weights_{fault.kind}", **values, reference=fault.reference)
    return say(f"weights_{fault.kind}", **values, weight=fault.weight)


def _expected(case: Case, id: str) -> Message:
    if id == "window.effective":
        return say("window_expected", window=case.facts.window)
    if id == "window.none":
        return say("window_expected_all")
    return say(id.replace(".", "_") + "_expected")


def _place(case: Case, id: str) -> Site | None:
    """Return where a check of who sees whom points: the mask where that is wrong, else what it is about."""
    if id.startswith("causal"):
        return _flag_place(case)
    if id.startswith("window"):
        return _window_place(case)
    if id.startswith("padding") and case.flash:
        given = case.interface is not None and case.interface.mask is not None
        packed = case.seen.kernel is not None and "varlen" in case.seen.kernel.function
        return kernel_site(case) if packed else case.places.site("padding.passed" if given else "causal.made")
    if case.flash:
        return kernel_site(case)
    return mask_place(case) or case.places.site("causal.masked") or kernel_site(case)


def _flag_place(case: Case) -> Site | None:
    """Return where causality is decided: a mask that is wrong or lost on the way, the definition if it says False, a
    hop that changes it, where a mask is applied, the kernel."""
    kernel, places = case.seen.kernel, case.places
    wrong = None if case.flash else mask_place(case)
    if wrong is not None:
        return wrong
    if kernel is None:
        given = case.interface is not None and case.interface.mask is not None
        return places.site("causal.masked" if given else "causal.mask") or kernel_site(case)
    if kernel.causal or kernel.mask:
        return kernel_site(case)
    if case.seen.parts.attributes.get("is_causal") is not True:
        return places.site("causal.definition", "causal.flag")
    return places.site("causal.flag") or kernel_site(case)


def _window_place(case: Case) -> Site | None:
    places, window = case.places, case.facts.window
    if case.seen.parts.attributes.get("sliding_window") != window:
        return places.site("window.definition")
    wrong = None if case.flash else mask_place(case)
    if wrong is not None:
        return wrong
    if case.interface is not None and case.interface.sliding_window != window:
        return places.site("window.attribute")
    kernel = case.seen.kernel
    told = kernel.window if kernel is not None else None
    if told is not None and window is not None and told[0] not in (window - 1, -1):
        return places.site("window.kernel")
    return kernel_site(case) or places.site("causal.made" if window is None else "window.mask")


def _some(tokens: list[int]) -> str:
    return ", ".join(map(str, tokens)) if len(tokens) <= 6 else f"{tokens[0]}, {tokens[1]}, …, {tokens[-1]}"
