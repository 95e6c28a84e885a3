"""Which key/value head does each query head read, and do values and outputs keep their heads?

Must not know: torch.
"""

import numpy as np

from tracer.arrays import Floats
from tracer.records import Site, Status
from tracer.verification.case import Case
from tracer.verification.records import Finding
from tracer.verification.subjects import kernel_site
from tracer.verification.verdict import finding, passed, say, untested

_ROWS = 8  # tokens by which heads, and by which projections, are told apart
_COLUMNS = 128  # components of a projection that are computed anew


def keys(case: Case) -> Finding:
    """Return heads.keys: query head h gives the weights that key head h // group gives."""
    facts, wanted = case.facts, say("heads_expected", heads=_shown(_right(case)))
    if facts.kv_heads == 1:
        return untested(case, "heads.keys", expected=wanted, reason=say("heads_one"))
    if case.probed.weights is None or case.interface is None:
        return untested(case, "heads.keys", expected=wanted, reason=say("weights_hidden"))
    errors = {index: _errors(case, index) for index in case.heads}
    if any(error is None for error in errors.values()):
        return untested(case, "heads.keys", expected=wanted, reason=say("interface_hidden"))
    tolerance = max(4 * case.unit, 1e-5)
    found, alike = [], True
    for index in case.heads:
        row = errors[index]
        if row is None:
            continue
        own = facts.kv_head(index)
        best = int(np.argmin(row))
        others = np.delete(row, own)
        alike &= bool(others.min() <= max(4 * row[own], tolerance))
        found.append(own if row[own] <= max(4 * row[best], tolerance) else best)
    right = [facts.kv_head(index) for index in case.heads]
    if found == right and alike:
        return untested(case, "heads.keys", expected=wanted, reason=say("heads_alike", part="k"))
    return _judged(case, "heads.keys", found, right)


def values(case: Case) -> Finding:
    """Return heads.values: query head h mixes the values of value head h // group, and those are v_proj's own."""
    wanted = say("heads_expected", heads=_shown(_right(case)))
    found = case.probed.value_heads
    made, arrived = case.made("v"), case.arrived("v")
    if made is not None and arrived is not None and made.shape == arrived.shape and case.seen.call("v_proj"):
        order = _order(made, arrived)
        if order != list(range(made.shape[1])):
            measured = say("heads_values_order", found=_shown(order))
            site = case.places.site("interface.value")
            reason = say("heads_why")
            return finding(
                case, "heads.values", Status.FAIL, measured=measured, expected=wanted, reason=reason, site=site
            )
    if case.facts.kv_heads == 1:
        return untested(case, "heads.values", expected=wanted, reason=say("heads_one"))
    if found is None:
        return untested(case, "heads.values", expected=wanted, reason=say("weights_hidden"))
    return _judged(
        case,
        "heads.values",
        [found[index] for index in case.heads],
        [case.facts.kv_head(index) for index in case.heads],
    )


def layout(case: Case) -> Finding:
    """Return heads.layout: o_proj is given the heads one after the other, bit for bit."""
    wanted, call = say("layout_expected"), case.seen.call("o_proj")
    if call is None or case.interface is None:
        return untested(case, "heads.layout", expected=wanted, reason=say("layout_hidden"))
    output, given = case.interface.output, call.given
    if case.facts.heads == 1:
        return untested(case, "heads.layout", expected=wanted, reason=say("heads_single"))
    same = given.bits.size == output.bits.size and np.array_equal(given.bits.reshape(-1), output.bits.reshape(-1))
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
    q, k and v are given the hidden states themselves."""
    return [_projection(case, name) for name in "qkvo"]


def _projection(case: Case, name: str) -> Finding:
    id, about, wanted = "projections", say("projections_claim", part=name), say("projections_expected")
    call, weight = case.seen.call(f"{name}_proj"), case.seen.parts.weights.get(f"{name}_proj")
    if call is None or weight is None:
        reason = say("projection_hidden", part=name)
        return untested(case, id, expected=wanted, reason=reason, about=about, part=name)
    rows = np.argwhere(case.rows)
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, min(_ROWS, len(rows))).astype(np.int64))]
    columns = np.unique(np.linspace(0, weight.shape[0] - 1, min(_COLUMNS, weight.shape[0])).astype(np.int64))
    given = call.given[rows[:, 0], rows[:, 1]].float64()
    gave = call.gave[rows[:, 0], rows[:, 1]][:, columns].float64()
    right = given @ weight[columns].float64().T
    bias = case.seen.parts.biases.get(f"{name}_proj")
    right = right if bias is None else right + bias[columns].float64()
    size = float(np.sqrt(np.mean(right**2)))
    off = float(np.sqrt(np.mean((gave - right) ** 2))) / size if size > 0 else float(np.abs(gave).max())
    within = 4 * case.unit + 1e-6
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


def returned(case: Case) -> Finding:
    """Return output.returned: what o_proj gives is what the attention returns, bit for bit."""
    wanted, call = say("returned_expected"), case.seen.call("o_proj")
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


def _errors(case: Case, index: int) -> Floats | None:
    """Return how far the effective weights of one head lie from those that each key head would give, [K]."""
    weights = case.probed.weights
    if not case.given or weights is None or index >= case.given["q"].shape[1]:
        return None
    rows = np.flatnonzero(case.rows[0])
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, min(_ROWS, len(rows))).astype(np.int64))]
    visible = case.visibility(0).rows(0, case.step.ids.shape[1])[rows]
    query, keys = case.given["q"][0, index][rows] * case.scale, case.given["k"][0]
    with np.errstate(invalid="ignore", over="ignore"):
        scores = np.where(visible, query @ keys.transpose(0, 2, 1), -np.inf)  # [K, rows, keys]
        shares = np.exp(scores - scores.max(axis=2, keepdims=True))
        shares = (shares / shares.sum(axis=2, keepdims=True))[:, :, weights.columns]
        off = np.abs(shares - weights.values[0, index][rows]).max(axis=(1, 2))
    errors: Floats = np.where(np.isfinite(off), off, np.inf)
    return errors


def _judged(case: Case, id: str, found: list[int], right: list[int]) -> Finding:
    return finding(
        case,
        id,
        passed(found == right),
        measured=say("heads_measured", heads=_shown(found)),
        expected=say("heads_expected", heads=_shown(right)),
        reason=say("heads_why"),
        site=_place(case, id),
        found=_shown(found),
    )


def _place(case: Case, id: str) -> Site | None:
    if not case.bare:
        return kernel_site(case)
    return case.places.site("heads.repeat") if id == "heads.keys" else case.places.site("heads.values", "heads.repeat")


def _order(made: Floats, arrived: Floats) -> list[int]:
    """Return which of the made heads [rows, K, D] each arrived head is; −1 where it is none of them."""
    found = []
    for head in range(arrived.shape[1]):
        same = [n for n in range(made.shape[1]) if np.array_equal(arrived[:, head], made[:, n])]
        found.append(head if head in same else (same[0] if same else -1))
    return found


def _differing(output: Floats, given: Floats) -> int:
    if given.size != output.size:
        return int(output.size)
    return int((given.reshape(-1) != output.reshape(-1)).sum())


def _right(case: Case) -> list[int]:
    return [case.facts.kv_head(index) for index in case.heads]


def _shown(heads: list[int]) -> str:
    shown = [str(head) for head in heads]
    return ", ".join(shown if len(shown) <= 16 else [*shown[:15], "…", shown[-1]])
