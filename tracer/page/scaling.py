"""Temperature as a lens on one query, and why the scores are scaled: this head's figures beside the model's.

Must not know: how the figures are measured, HTML.
"""

import numpy as np

from tracer.arrays import Floats
from tracer.counterexamples.spread import Spread, spread
from tracer.labs import scale
from tracer.maths.attention import Head
from tracer.page.numbers import WALK_DECIMALS, fixed, significant
from tracer.page.record import Piece, Role, line
from tracer.page.sheet import Both, Curve, Figure, Heading, Paragraph, Part, Plot, Slider, alike, both
from tracer.page.tokens import Shown

TEMPERATURES = (0.25, 0.5, 1.0, 2.0, 4.0)
_KEYS = 8
# What `trace lab scale` measures when nothing else is asked for, at some of its widths.
_WIDTHS, _SAMPLES, _SEED = (4, 16, 64, 256), 10_000, 0


def temperature(head: Head, names: tuple[Shown, ...], query: int) -> Slider | None:
    """Return the weights of ``query`` at several temperatures, its heaviest keys in the prompt's order; None where it
    sees no key."""
    row = head.row(query)
    visible = np.flatnonzero(row.visible)
    if not visible.size or not np.isfinite(row.scores[visible]).all():
        return None
    weights = np.stack([_softened(row.scores, row.visible, each) for each in TEMPERATURES], axis=1)
    keys = sorted(int(key) for key in visible[np.argsort(-row.weights[visible], kind="stable")][:_KEYS])
    rows = [(_key(names[key]), _texts(weights[key])) for key in keys]
    others = np.setdiff1d(visible, keys)
    if others.size:
        rows.append((both("temperature_others", count=others.size), _texts(weights[others].sum(axis=0))))
    rows.append((both("temperature_entropy"), _texts(_entropy(weights))))
    columns = (both("temperature_key"), *(alike(f"T = {each:g}") for each in TEMPERATURES))
    caption = both("temperature_caption", query=query, token=names[query].text)
    return Slider(Figure("temperatures", caption, columns, tuple(rows)))


def _key(name: Shown) -> Both:
    text = line(Piece(f"{name.position} ", Role.MUTED), Piece(name.short or name.text, Role.TOKEN))
    return Both(text, text)


def _softened(scores: Floats, visible: np.ndarray, temperature: float) -> Floats:
    with np.errstate(invalid="ignore"):
        shifted = np.where(visible, (scores - scores[visible].max()) / temperature, -np.inf)
        shares: Floats = np.exp(shifted)
    weights: Floats = shares / shares.sum()
    return weights


def _entropy(weights: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy: Floats = -np.where(weights > 0, weights * np.log(weights), 0.0).sum(axis=0)
    return np.abs(entropy)


def _texts(values: Floats) -> tuple[str, ...]:
    return tuple(fixed(float(value), WALK_DECIMALS) for value in values)


def why(head: Head) -> tuple[Part, ...]:
    """Return why the scores are scaled: the model, and what is measured on this head."""
    found = spread(head)
    lead = Paragraph(both("scaling_lead"))
    if found is None:
        return lead, Paragraph(both("scaling_untold"))
    return lead, _figure(found, head.scale), Paragraph(_told(found)), *_growth(found)


def _growth(head: Spread) -> tuple[Part, ...]:
    """Return how the variance grows with d, as ``trace lab scale`` measures it, and where this head stands."""
    random = [scale.spread(d, _SAMPLES, _SEED) for d in sorted({*_WIDTHS, head.width})]
    rows = [
        (
            alike(str(each.d)),
            tuple(significant(value) for value in (each.variance, each.scaled_variance))
            + tuple(fixed(value, WALK_DECIMALS) for value in (each.entropy_unscaled, each.entropy_scaled)),
        )
        for each in random
    ]
    measured = (significant(head.variance), significant(head.scaled), "", "")
    columns = (
        alike("d"),
        *(both(f"growth_{name}") for name in ("variance", "scaled", "entropy_unscaled", "entropy_scaled")),
    )
    table = Figure(
        "growth",
        both("growth_caption", samples=_SAMPLES, keys=scale.KEYS),
        columns,
        (*rows, (both("growth_head", d=head.width), measured)),
    )
    positive = head.variance > 0 and head.scaled > 0  # else there is no place for it on a logarithmic axis
    at_head = (
        Curve("head", both("growth_curve_head"), ((head.width, head.variance), (head.width, head.scaled)), False),
    )
    plot = Plot(
        "growth",
        both("growth_plot"),
        tuple(float(each.d) for each in random),
        (
            Curve("unscaled", alike("q·k"), tuple((each.d, each.variance) for each in random), True),
            Curve("scaled", alike("q·k / √d"), tuple((each.d, each.scaled_variance) for each in random), True),
            *(at_head if positive else ()),
        ),
    )
    return Heading(both("growth_heading"), "growth"), Paragraph(both("growth_lead")), plot, table


def _figure(found: Spread, factor: float) -> Figure:
    square = factor**2
    rows = (
        ("measured", found.variance, found.scaled),
        ("moments", found.independent, found.independent * square),
        ("sampled", found.sampled, found.sampled / found.width),
        ("theory", float(found.width), 1.0),
    )
    return Figure(
        "variance",
        both("scaling_caption", pairs=found.pairs, width=found.width),
        (alike(""), both("scaling_before"), both("scaling_after")),
        tuple((both(f"scaling_{name}"), (significant(a, 4), significant(b, 4))) for name, a, b in rows),
    )


def _told(found: Spread) -> Both:
    return both(
        "scaling_found",
        q_square=significant(found.q_square),
        k_square=significant(found.k_square),
        ratio=significant(found.variance / found.width),
        entropy=fixed(found.entropy, WALK_DECIMALS),
        unscaled=fixed(found.entropy_unscaled, WALK_DECIMALS),
    )
