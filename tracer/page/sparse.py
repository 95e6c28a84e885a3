"""A long prompt at a glance: figures over all queries, and queries spread over them with their heaviest keys.

Must not know: how the figures are measured.
"""

import numpy as np

from tracer.arrays import Floats
from tracer.maths.attention import Head
from tracer.maths.sparse import sparse, top
from tracer.page.numbers import fixed, share
from tracer.page.record import Column, Piece, Prose, Role, Row, Section, Table, line
from tracer.page.tokens import Shown
from tracer.page.wording import Words, muted

# Up to this many queries the matrices, and --window, show everything that is worth seeing.
_LONG = 256
_QUERIES = 16
_KEYS = 3


def section(say: Words, reference: Head, names: tuple[Shown, ...]) -> Section | None:
    """Return the sparse overview of a long prompt; None for a short one."""
    tq, tk = reference.visibility.tq, reference.visibility.tk
    if tq <= _LONG:
        return None
    figures = sparse(reference)
    queries = np.unique(np.linspace(0, tq - 1, _QUERIES).astype(np.int64))
    heaviest = top(reference, queries, _KEYS)
    rows = []
    for query, keys, weights in zip(queries.tolist(), heaviest.keys, heaviest.weights, strict=True):
        pieces: list[Piece] = []
        for key, weight in zip(keys.tolist(), weights.tolist(), strict=True):
            if weight > 0:
                pieces += [
                    Piece("  " if pieces else ""),
                    Piece(f"{key} ", Role.MUTED),
                    Piece(names[key].text, Role.TOKEN),
                    Piece(f" {share(weight)}", Role.NUMBER, level=min(weight, 1.0)),
                ]
        own = names[query + tk - tq]
        rows.append(
            Row(
                (
                    line(Piece(str(query + tk - tq), Role.MUTED)),
                    line(Piece(own.text, Role.TOKEN)),
                    line(Piece(fixed(float(figures.entropy[query]), 2), Role.NUMBER)),
                    line(_share(figures.first[query])),
                    line(_share(figures.own[query])),
                    tuple(pieces),
                )
            )
        )
    columns = (
        Column(say("column_position"), numeric=True, names=True),
        Column(say("column_token"), names=True),
        Column(say("column_entropy"), numeric=True),
        Column(say("column_first"), numeric=True),
        Column(say("column_own"), numeric=True),
        Column(say("column_heaviest")),
    )
    lead = say(
        "sparse_lead",
        queries=tq,
        first_query=tk - tq,
        last_query=tk - 1,
        entropy=fixed(_mean(figures.entropy), 2),
        first=share(_mean(figures.first)),
        own=share(_mean(figures.own)),
        sharp=int((figures.heaviest > 0.5).sum()),
    )
    left = int((~np.isfinite(figures.entropy)).sum())
    if left:
        lead += " " + say("sparse_left", left=left)
    blocks = (Prose(line(lead)), Table(columns, tuple(rows)), Prose(muted(say("sparse_legend", count=len(queries)))))
    return Section("sparse", "6", line(say("sparse_heading")), blocks)


def _mean(values: Floats) -> float:
    """Return the mean of those that are numbers, NaN where none is."""
    numbers = values[np.isfinite(values)]
    return float(numbers.mean()) if numbers.size else float("nan")


def _share(value: float) -> Piece:
    return Piece(share(float(value)), Role.NUMBER, level=min(float(value), 1.0) if np.isfinite(value) else None)
