"""The numbers of one head inside a window, how far their rounded forms carry, and their exact forms for clicks.

Must not know: wording, HTML.
"""

import base64
from dataclasses import dataclass

import numpy as np

from tracer.arrays import Floats
from tracer.maths.attention import Head
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
    row_max, total, lse, output = _rows(head, rows)
    visible = head.visibility.rows(rows.start, rows.stop, keys)
    scores = head.scores(rows, keys)
    with np.errstate(invalid="ignore", over="ignore"):
        top = np.where(np.isneginf(row_max), 0.0, row_max)[:, None]
        shares = np.where(visible, np.exp(scores - top), 0.0)
        weights = np.where(visible, np.exp(scores - np.where(np.isneginf(lse), 0.0, lse)[:, None]), 0.0)
        rest = output - weights @ head.v[keys]
    outside = 1 - weights.sum(axis=1)
    if window.keys == slice(0, window.tk):
        rest, outside = np.zeros_like(rest), np.zeros_like(outside)
    return Part(
        q=head.q[rows],
        k=head.k[keys],
        v=head.v[keys],
        scores=scores,
        visible=visible,
        row_max=row_max,
        shares=shares,
        total=total,
        lse=lse,
        weights=weights,
        output=output,
        kernel=trace.layer.kernel.output[rows, trace.head].float64(),
        rest=rest,
        outside=outside,
    )


def _rows(head: Head, rows: slice) -> tuple[Floats, Floats, Floats, Floats]:
    """Return row_max, total, lse and output of ``rows``, in float64 also where a long prompt went through float32."""
    if head.computed.number == "float64":
        return head.row_max[rows], head.total[rows], head.lse[rows], head.output[rows]
    found = [head.row(query) for query in range(rows.start, rows.stop)]
    sums = np.array([(row.row_max, row.total, row.lse) for row in found]).T
    return sums[0], sums[1], sums[2], np.stack([row.output for row in found])


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

# Where the temperature of the lens can stand: its decimal logarithm, doubled.
LENS = tuple(round(-2 + step / 10, 1) for step in range(41))
# How a number is held in the page: as it was captured, so that nothing is lost and little is written.
_HELD = {"F64": ("F64", "<f8"), "F32": ("F32", "<f4"), "F16": ("F32", "<f4"), "BF16": ("BF16", "<u2")}


def bytes_of(count: int, width: int, dtype: str) -> int:
    """Return about how many bytes the tables and numbers of ``count`` queries and keys take in a page, where others are
    outside: four matrices of ``width`` features, four of positions, and what the keys outside add."""
    number = np.dtype(_HELD[dtype][1]).itemsize * 4 / 3  # in base64
    features, positions = 15.5 + number, 13.2  # a cell of a table, the number itself beside it
    outside = width * 8 * 4 / 3 + 2 * len(LENS) * 4 * 4 / 3
    return round(count * (4 * width * features + 4 * count * positions + outside))


def data(trace: Trace, part: Part, names: tuple[Shown, ...], window: Window, where: str) -> dict[str, object]:
    """Return what a click computes from. Matrices are the very numbers as little-endian bytes in base64, row by row;
    ``dtype`` says of what type (F64, F32, or BF16: the upper half of an F32).

    Of a window, ``others`` counts the visible keys of each row that are outside it, ``outside`` is their weight, and
    ``rest`` [rows, D] what they add to the output. ``lens`` are Σ eˣ and Σ x·eˣ over them, x = (S − m)/T, for every T
    of LENS, [rows, len(LENS)] each: with these the softmax and its entropy at T can be told without their scores.
    """
    layer, head, whole = trace.layer, trace.reference, window.keys == slice(0, window.tk)
    q, k, v = (layer.captures[name].array.dtype for name in ("q", "k", "v"))
    seen = head.visibility.at(np.arange(window.rows.start, window.rows.stop)).sum(axis=1)
    return {
        "format": "report/2",
        "where": where,
        "layer": layer.request.layer,
        "head": trace.head,
        "kv_head": layer.model.kv_head(trace.head),
        "scale": repr(float(head.scale)),
        "rows": [window.rows.start, window.rows.stop],
        "keys": [window.keys.start, window.keys.stop],
        "tq": window.tq,
        "tk": window.tk,
        "tokens": {str(name.position): name.text for part in (window.rows, window.keys) for name in names[part]},
        "q": _matrix(part.q, q),
        "k": _matrix(part.k, k),
        "v": _matrix(part.v, v),
        "visible": ["".join("1" if seen else "0" for seen in row) for row in part.visible],
        "row_max": _exact(part.row_max),
        "total": _exact(part.total),
        "kernel": _matrix(part.kernel, layer.kernel.output.dtype),
        "others": [int(count) for count in seen - part.visible.sum(axis=1)],
        "outside": _exact(part.outside),
        "rest": None if whole else _matrix(part.rest, "F64"),
        "lens": None if whole else [_matrix(sums, "F32") for sums in _lens(head, part, window)],
    }


def _lens(head: Head, part: Part, window: Window) -> tuple[Floats, Floats]:
    """Return Σ eˣ and Σ x·eˣ over the keys outside the window, for each row and temperature of LENS."""
    inverse = 1 / 10 ** (np.array(LENS) / 2)
    sums = np.zeros((2, len(part.row_max), len(LENS)))
    for row, query in enumerate(range(window.rows.start, window.rows.stop)):
        scores = head.scores(slice(query, query + 1))[0]
        scores[window.keys] = -np.inf
        visible = scores > -np.inf  # NaN is no score to soften: such a row is NaN with or without these
        x = np.outer(inverse, scores[visible] - part.row_max[row])
        shares = np.exp(x)
        sums[0, row], sums[1, row] = shares.sum(axis=1), np.where(shares > 0, x * shares, 0.0).sum(axis=1)
    return sums[0], sums[1]


def _exact(values: Floats) -> list[str]:
    return [repr(float(value)) for value in values]


def _matrix(values: Floats, dtype: str) -> dict[str, object]:
    """Return a matrix of numbers that ``dtype`` holds exactly."""
    name, held = _HELD[dtype]
    if dtype == "BF16":
        held_values = (np.ascontiguousarray(values, dtype="<f4").view("<u4") >> 16).astype(held)
    else:
        held_values = values.astype(held)
    text = base64.b64encode(held_values.tobytes()).decode("ascii")
    return {"dtype": name, "rows": values.shape[0], "columns": values.shape[1], "base64": text}
