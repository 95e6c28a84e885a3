"""Temperature as a lens on one query, and why the scores are scaled: this head's figures beside the model's.

Must not know: how the figures are measured, HTML.
"""

import numpy as np

from tracer.arrays import Floats
from tracer.counterexamples.spread import Spread, spread
from tracer.maths.attention import Head
from tracer.page.numbers import WALK_DECIMALS, fixed, significant
from tracer.page.record import Piece, Role, line
from tracer.page.sheet import Both, Figure, Paragraph, Part, Slider, alike, both
from tracer.page.tokens import Shown

TEMPERATURES = (0.25, 0.5, 1.0, 2.0, 4.0)
_KEYS = 8


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
    return lead, _figure(found, head.scale), Paragraph(_told(found))


def _figure(found: Spread, scale: float) -> Figure:
    square = scale**2
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
