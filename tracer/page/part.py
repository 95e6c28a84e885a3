"""The numbers of one head inside a window, how far their rounded forms carry, and their exact forms for clicks.

Must not know: wording, HTML.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tracer.arrays import Floats
from tracer.maths.visibility import Bools
from tracer.page.numbers import WALK_DECIMALS
from tracer.page.tokens import Shown
from tracer.page.window import Window
from tracer.result import Trace


@dataclass(frozen=True, eq=False)
class Part:
    """The numbers of a head inside a window, float64: q, output [rows, D]; k, v [keys, D]; the rest [rows, keys] or
    [rows]. ``rest`` is what the keys outside the window add to each output row, ``outside`` their weight."""

    q: Floats
    k: Floats
    v: Floats
    scores: Floats
    visible: Bools
    row_max: Floats
    shares: Floats
    total: Floats
    lse: Floats
    weights: Floats
    output: Floats
    kernel: Floats
    rest: Floats
    outside: Floats


def part_of(trace: Trace, window: Window) -> Part:
    """Return the numbers of a head inside ``window``."""
    head, rows, keys = trace.reference, window.rows, window.keys
    weights = head.weights(rows, keys)
    row_max = head.row_max[rows]
    visible = head.visibility.rows(rows.start, rows.stop, keys)
    scores = head.scores(rows, keys)
    with np.errstate(invalid="ignore", over="ignore"):
        top = np.where(np.isneginf(row_max), 0.0, row_max)[:, None]
        shares = np.where(visible, np.exp(scores - top), 0.0)
        rest = head.output[rows] - weights @ head.v[keys]
    if window.keys == slice(0, window.tk):
        rest = np.zeros_like(rest)
    outside = np.zeros(len(weights)) if window.keys == slice(0, window.tk) else 1 - weights.sum(axis=1)
    return Part(
        q=head.q[rows],
        k=head.k[keys],
        v=head.v[keys],
        scores=scores,
        visible=visible,
        row_max=row_max,
        shares=shares,
        total=head.total[rows],
        lse=head.lse[rows],
        weights=weights,
        output=head.output[rows],
        kernel=trace.layer.kernel.output[rows, trace.head].float64(),
        rest=rest,
        outside=outside,
    )


def recomputed(part: Part, scale: float) -> dict[str, float]:
    """Return for s, e, a, o the largest difference between a table and what its factors' tables give (finite cells)."""
    q, k, v, s, m, total, e, a = (
        _rounded(x) for x in (part.q, part.k, part.v, part.scores, part.row_max, part.total, part.shares, part.weights)
    )
    seen = part.visible
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        found = {
            "s": np.where(seen, q @ k.T * scale - s, 0.0),
            "e": np.where(seen, np.exp(s - m[:, None]) - e, 0.0),
            "a": np.where(seen, e / total[:, None] - a, 0.0),
            "o": a @ v + part.rest - _rounded(part.output),
        }
    return {name: _largest(values) for name, values in found.items()}


def _rounded(values: Floats) -> Floats:
    return np.round(values, WALK_DECIMALS)


def _largest(values: Floats) -> float:
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if finite.size else 0.0


# ------------------------------------------------------------------------------------------------ exact numbers


def data(trace: Trace, part: Part, names: tuple[Shown, ...], window: Window, where: str) -> dict[str, object]:
    """Return what a click computes from: decimal strings, each the shortest that gives the very number back; a row of a
    matrix is one string, with blanks between.

    ``rounding`` says which type a string is to be read as: the type the run used, or float64.
    """
    layer = trace.layer
    write = _writer(layer.captures["q"].array.dtype)
    return {
        "format": "report/1",
        "where": where,
        "layer": layer.request.layer,
        "head": trace.head,
        "kv_head": layer.model.kv_head(trace.head),
        "scale": repr(float(trace.reference.scale)),
        "rounding": "float64" if layer.captures["q"].array.dtype == "F64" else "float32",
        "rows": [window.rows.start, window.rows.stop],
        "keys": [window.keys.start, window.keys.stop],
        "tq": window.tq,
        "tk": window.tk,
        "tokens": {str(name.position): name.text for part in (window.rows, window.keys) for name in names[part]},
        "q": write(part.q),
        "k": write(part.k),
        "v": write(part.v),
        "visible": ["".join("1" if seen else "0" for seen in row) for row in part.visible],
        "row_max": _exact(part.row_max),
        "total": _exact(part.total),
        "kernel": write(part.kernel),
        "outside": _exact(part.outside),
        "rest": []
        if window.keys == slice(0, window.tk)
        else [" ".join(f"{value:.12g}" for value in row) for row in part.rest],
    }


def _exact(values: Floats) -> list[str]:
    return [repr(float(value)) for value in values]


def _writer(dtype: str) -> Callable[[Floats], list[str]]:
    if dtype == "F64":
        return lambda values: [" ".join(_exact(row)) for row in values]
    return lambda values: [" ".join(map(str, row)) for row in values.astype(np.float32)]
