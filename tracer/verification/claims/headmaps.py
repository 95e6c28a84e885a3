"""Which key/value head does each query head read, and do values and outputs keep their heads?

Must not know: torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tracer.arrays import NARROW, Floats, equal_bits
from tracer.names import spans
from tracer.records import Site, Status
from tracer.verification.case import Case
from tracer.verification.expected import Ints
from tracer.verification.records import Finding
from tracer.verification.scenarios import Bools
from tracer.verification.subjects import kernel_site
from tracer.verification.vectors import distance, distances
from tracer.verification.verdict import finding, passed, say, untested, which

_ROWS, _KEY_ROWS = 8, 4  # tokens by which projections, and by which key heads, are told apart
# Where what a projection gives is used, if it is no call of its own.
_RESULT = {"q": "norm.q", "k": "norm.k", "v": "interface.value", "o": "output.made"}
_NONE = "–"  # in place of a head's number


def keys(case: Case) -> list[Finding]:
    """Return heads.keys: query head h gives the weights that key head h // group gives; heads for which another key
    head would give the same ones are told apart, as not testable."""
    facts, wanted = case.facts, say("heads_expected", heads=_shown(_right(case)))
    if facts.kv_heads == 1:
        return [untested(case, "heads.keys", expected=wanted, reason=say("heads_one"))]
    if case.keys == 1:
        return [untested(case, "heads.keys", expected=wanted, reason=say("heads_one_key"))]
    if case.probed.weights is None or case.interface is None:
        return [untested(case, "heads.keys", expected=wanted, reason=say("weights_hidden"))]
    errors = _errors(case)
    if errors is None:
        return [untested(case, "heads.keys", expected=wanted, reason=say("interface_hidden"))]
    tolerance = max(4 * case.unit, 1e-5)
    found, blind = {}, []
    for index, row in errors.items():
        own = facts.kv_head(index)
        best = int(np.argmin(row))
        fits = row[own] <= max(4 * row[best], tolerance)
        if fits and np.delete(row, own).min() <= max(4 * row[own], tolerance):
            blind.append(index)
            continue
        found[index] = own if fits else best
    judged = [_judged(case, "heads.keys", found)] if found else []
    if blind:
        reason = say("heads_alike", heads=_shown(blind))
        judged.append(untested(case, "heads.keys", expected=wanted, reason=reason))
    return judged


def values(case: Case) -> list[Finding]:
    """Return heads.values: query head h mixes the values of value head h // group, and those are v_proj's own."""
    wanted = say("heads_expected", heads=_shown(_right(case)))
    found, arrived = case.probed.value_heads, _values(case)
    if arrived is not None and arrived.bad.any():
        return [_changed(case, arrived)]
    if case.facts.kv_heads == 1:
        return [untested(case, "heads.values", expected=wanted, reason=say("heads_one"))]
    if found is None or not case.probed.repeats:
        reason = say("weights_hidden" if found is None else "not_repeatable")
        return [untested(case, "heads.values", expected=wanted, reason=reason)]
    return [_judged(case, "heads.values", {index: found[index] for index in case.heads})]


@dataclass(frozen=True, eq=False)
class _Values:
    """Values of all tokens that count, [tokens, K, D]: as v_proj made them and as they arrived; ``bad`` [tokens, K]."""

    made: Floats
    arrived: Floats
    bad: Bools


def _values(case: Case) -> _Values | None:
    """Compare the values that arrived with v_proj's: bit for bit, or where it was not called as a module, as near as
    rounding lets them be. None where one of them cannot be seen."""
    call, interface = case.called("v_proj"), case.interface
    if interface is None:
        return None
    if call is not None:
        length, kv_heads = case.step.ids.shape[1], interface.value.shape[1]
        new = np.swapaxes(interface.value.bits[:, :, -length:], 1, 2)
        gave = call.gave.bits.reshape(*case.step.ids.shape, -1, case.facts.head_dim)
        if gave.shape[2] == kv_heads and equal_bits(gave[case.rows], new[case.rows]):
            nothing = np.zeros((0, kv_heads, 1))
            return _Values(nothing, nothing, np.zeros((0, kv_heads), dtype=np.bool_))
    made, arrived = case.made("v", case.counted), case.arrived("v", case.counted)
    if made is None or arrived is None or made.shape != arrived.shape:
        return None
    if call is not None:
        return _Values(made, arrived, (made != arrived).any(axis=-1))
    return _Values(made, arrived, distances(arrived, made, case.grain) > case.projected_within)


def _changed(case: Case, values: _Values) -> Finding:
    order = _order(values.made, values.arrived)
    mixed = -1 not in order and order != list(range(len(order)))
    told = say("heads_values_order", found=_shown(order)) if mixed else say("heads_values_changed")
    return finding(
        case,
        "heads.values",
        Status.FAIL,
        measured=told,
        expected=say("heads_values_expected"),
        reason=which(case, values.bad),
        site=case.places.site("interface.value"),
        more=None if mixed else {"cause": "values_changed"},
    )


def layout(case: Case) -> Finding:
    """Return heads.layout: o_proj is given the heads one after the other, bit for bit."""
    wanted, call = say("layout_expected"), case.called("o_proj")
    if call is None or case.interface is None:
        return untested(case, "heads.layout", expected=wanted, reason=say("layout_hidden"))
    output, given = case.interface.output, call.given
    if case.facts.heads == 1:
        return untested(case, "heads.layout", expected=wanted, reason=say("heads_single"))
    same = given.bits.size == output.bits.size and equal_bits(given.bits.reshape(-1), output.bits.reshape(-1))
    differ = 0 if same else _differing(output.float64(), given.float64())
    measured = say("layout_same") if same else say("layout_differs", count=differ, total=output.bits.size)
    return finding(
        case,
        "heads.layout",
        passed(same),
        measured=measured,
        expected=wanted,
        reason=say("layout_why"),
        site=case.places.site("heads.merged", "project.o"),
        differing=differ,
    )


def projections(case: Case) -> list[Finding]:
    """Return projections for q, k, v and o: each is x·Wᵀ with its own weight, on some rows and components, and those of
    q, k and v are given the hidden states themselves. One that was not called as a module is judged by what came of it.
    """
    return [_projection(case, name) if case.called(f"{name}_proj") else _inline(case, name) for name in "qkvo"]


def _projection(case: Case, name: str) -> Finding:
    id, about, wanted = "projections", say("projections_claim", part=name), say("projections_expected")
    call, weight = case.called(f"{name}_proj"), case.seen.parts.weights.get(f"{name}_proj")
    if call is None or weight is None:
        reason = say("projection_hidden", part=name)
        return untested(case, id, expected=wanted, reason=reason, about=about, part=name)
    rows = _some(case)
    gave = call.gave[rows][:, case.components(call.gave.shape[-1])].float64()
    right = call.given[rows].float64() @ weight.float64().T  # of these components alone
    bias = case.seen.parts.biases.get(f"{name}_proj")
    right = right if bias is None else right + bias.float64()
    off, within = distance(gave, right), case.projected_within
    foreign = name != "o" and not call.given.same_bits(case.seen.hidden)
    return finding(
        case,
        id,
        passed(off <= within and not foreign),
        measured=say("projections_foreign") if foreign else say("projections_measured", off=off),
        expected=wanted,
        tolerance=say("relative", value=within),
        reason=say("projections_why"),
        site=case.places.site(f"project.{name}") or case.places.at(call.place),
        about=about,
        part=name,
        off=off,
        foreign=foreign,
    )


def _inline(case: Case, name: str) -> Finding:
    """Judge a projection that is no call of its module: by the norm's input, the values that arrived, or the output."""
    id, about, wanted = "projections", say("projections_claim", part=name), say("projections_inline")
    found = _came(case, name)
    if found is None:
        reason = say("projection_hidden", part=name)
        return untested(case, id, expected=wanted, reason=reason, about=about, part=name)
    came, right = found
    off, within = float(distances(came, right, case.grain).max(initial=0.0)), case.projected_within
    return finding(
        case,
        id,
        passed(off <= within),
        measured=say("projections_measured", off=off),
        expected=wanted,
        tolerance=say("relative", value=within),
        reason=say("projections_inline_why"),
        site=case.places.site(f"project.{name}", _RESULT[name]) or case.places.function("attention_forward"),
        about=about,
        part=name,
        off=off,
    )


def _came(case: Case, name: str) -> tuple[Floats, Floats] | None:
    """Return what came of a projection and what it should have been, [tokens, ·, D] or [tokens, C]."""
    if name == "o":
        if case.interface is None:
            return None
        merged = case.interface.output[case.counted].float64()
        right = case.through("o_proj", merged.reshape(len(merged), -1))
        return None if right is None else (case.seen.output[case.counted].float64(), right)
    made = case.made(name, case.counted)
    if name == "v":
        came = case.arrived("v", case.counted)
    else:
        call = case.seen.call(f"{name}_norm")
        fits = call is not None and call.given.bits.ndim == 4 and call.given.shape[:2] == case.step.ids.shape
        came = call.given[case.counted].float64() if call is not None and fits else None
    return None if made is None or came is None or came.shape != made.shape else (came, made)


def _some(case: Case) -> tuple[Ints, Ints]:
    """Return some of the tokens that count, as (batch rows, places)."""
    rows, places = case.counted
    at = np.unique(np.linspace(0, len(rows) - 1, min(_ROWS, len(rows))).astype(np.int64))
    return rows[at], places[at]


def returned(case: Case) -> Finding:
    """Return output.returned: what o_proj gives is what the attention returns, bit for bit."""
    wanted, call = say("returned_expected"), case.called("o_proj")
    if call is None:
        return untested(case, "output.returned", expected=wanted, reason=say("layout_hidden"))
    same = call.gave.same_bits(case.seen.output)
    return finding(
        case,
        "output.returned",
        passed(same),
        measured=say("layout_same") if same else say("returned_differs"),
        expected=wanted,
        reason=say("returned_why"),
        site=case.places.site("output.made", "project.o") or case.places.at(call.place),
    )


def _errors(case: Case) -> dict[int, Floats] | None:
    """Return how far the effective weights of each head lie from those that each key head would give, [K]."""
    weights = case.probed.weights
    if not case.given or weights is None or max(case.heads) >= case.given["q"].shape[1]:
        return None
    rows = np.flatnonzero(case.rows[0])
    last = len(rows) - 1  # the first token sees only itself, whichever head it reads
    rows = rows[np.unique(np.linspace(min(1, last), last, min(_KEY_ROWS, len(rows))).astype(np.int64))]
    hidden = ~case.visibility(0).at(rows)
    number = np.float32 if case.dtype in NARROW else np.float64  # narrow weights differ by far more than float32 rounds
    queries, keys = (case.given["q"][0][:, rows] * case.scale).astype(number), case.given["k"][0].astype(number)
    every = keys.reshape(-1, keys.shape[-1]).T
    errors = {}
    for index in case.heads:
        with np.errstate(invalid="ignore", over="ignore"):
            shares = (queries[index] @ every).reshape(len(rows), *keys.shape[:2]).swapaxes(0, 1)  # [K, rows, keys]
            np.copyto(shares, -np.inf, where=hidden)
            shares -= shares.max(axis=2, keepdims=True)
            np.exp(shares, out=shares)
            shares /= shares.sum(axis=2, keepdims=True)
            off = np.abs(shares[:, :, weights.columns] - weights.values[0, index][rows]).max(axis=(1, 2))
        errors[index] = np.where(np.isfinite(off), off, np.inf)
    return errors


def _judged(case: Case, id: str, found: Mapping[int, int]) -> Finding:
    """Judge which key/value head each query head reads, ``found`` by query head, −1: none alone."""
    wrong = [index for index, kv in found.items() if kv != case.facts.kv_head(index)]
    shown = _shown(list(found.values()))
    return finding(
        case,
        id,
        passed(not wrong),
        measured=say("heads_measured_mixed" if -1 in found.values() else "heads_measured", heads=shown),
        expected=say("heads_expected", heads=_shown([case.facts.kv_head(index) for index in found])),
        reason=say("heads_why_wrong", heads=spans(wrong)) if wrong else say("heads_why"),
        site=_place(case, id),
        found=shown,
    )


def _place(case: Case, id: str) -> Site | None:
    if not case.bare:
        return kernel_site(case)
    names = ("heads.repeat",) if id == "heads.keys" else ("heads.values", "heads.repeat")
    return case.places.site(*names) or kernel_site(case)


def _order(made: Floats, arrived: Floats) -> list[int]:
    """Return which of the made heads [rows, K, D] each arrived head is, about; −1 where it is none of them."""
    found = []
    for head in range(arrived.shape[1]):
        same = [n for n in range(made.shape[1]) if distance(arrived[:, head], made[:, n]) < 0.05]
        found.append(head if head in same else (same[0] if same else -1))
    return found


def _differing(output: Floats, given: Floats) -> int:
    if given.size != output.size:
        return int(output.size)
    return int((given.reshape(-1) != output.reshape(-1)).sum())


def _right(case: Case) -> list[int]:
    return [case.facts.kv_head(index) for index in case.heads]


def _shown(heads: list[int]) -> str:
    shown = [_NONE if head < 0 else str(head) for head in heads]
    return ", ".join(shown if len(shown) <= 16 else [*shown[:15], "…", shown[-1]])
