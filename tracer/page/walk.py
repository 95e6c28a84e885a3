"""One query position followed to its output: dot products, scale, mask, max, exp, sum, weights, weighted sum.

Every number printed here follows from others printed here, within their rounding: the leading decimals are the same
for all. Must not know: how the numbers were captured, layout.
"""

from dataclasses import dataclass

import numpy as np

from tracer.arrays import Floats
from tracer.maths.attention import Head, Row
from tracer.page import numbers
from tracer.page.numbers import WALK_DECIMALS, fixed
from tracer.page.record import Block, Column, Label, Line, Matrix, Piece, Prose, Role, Section, Table, line
from tracer.page.record import Row as TableRow
from tracer.page.tokens import Shown
from tracer.page.wording import Words, muted
from tracer.result import Trace

_READABLE = 8  # up to this head_dim every term of a dot product is written out
_TERMS = 3
_DIMENSIONS = 6


@dataclass(frozen=True, eq=False)
class _Walk:
    """What the three sections share: the row, the keys shown of those visible, and the keys left to a common row."""

    say: Words
    reference: Head
    row: Row
    names: tuple[Shown, ...]
    keys: tuple[int, ...]
    others: tuple[int, ...]


def sections(say: Words, trace: Trace, names: tuple[Shown, ...], query: int, size: int) -> list[Section | None]:
    """Return the sections that follow token ``query``; where more than ``size`` keys are visible, those with the
    largest weights are shown and the rest taken together."""
    row = trace.reference.row(query - trace.layer.cached)
    visible = np.flatnonzero(row.visible)
    if not visible.size:
        return [Section("walk", "", line(say("walk_heading")), (Prose(line(say("walk_empty", query=query))),))]
    ranked = visible[np.argsort(-row.weights[visible], kind="stable")]
    keys, others = sorted(map(int, ranked[:size])), sorted(map(int, ranked[size:]))
    walk = _Walk(say, trace.reference, row, names, tuple(keys), tuple(others))
    return [_dots(walk), _softmax(walk), _sum(walk, trace)]


def _name(walk: _Walk, key: int) -> tuple[Line, Line]:
    shown = walk.names[key]
    return line(Piece(shown.label.position, Role.MUTED)), line(Piece(shown.text, Role.TOKEN))


def _number(value: float, level: float | None = None) -> Line:
    return line(Piece(fixed(value, WALK_DECIMALS), Role.NUMBER, level=level))


# ------------------------------------------------------------------------------------------------ dot products


def _dots(walk: _Walk) -> Section:
    say, row = walk.say, walk.row
    width = walk.reference.q.shape[1]
    whole = width <= _READABLE
    lead = (
        say("walk_dots_whole", dimensions=width) if whole else say("walk_dots_largest", dimensions=width, terms=_TERMS)
    )
    blocks: list[Block] = [Prose(line(lead))]
    if walk.others:
        blocks.append(Prose(line(Piece(_stated(walk), Role.STRONG))))
    rows = tuple(
        TableRow((*_name(walk, key), line(Piece(_terms(walk, key), Role.NUMBER)), _number(row.dots[key])))
        for key in walk.keys
    )
    columns = (
        Column(say("column_key"), numeric=True, names=True),
        Column(say("column_token"), names=True),
        Column(say("column_terms")),
        Column("q·k", numeric=True),
    )
    blocks.append(Table(columns, rows))
    hidden = walk.reference.visibility.tk - len(walk.keys) - len(walk.others)
    if hidden:
        blocks.append(Prose(muted(say("walk_hidden", count=hidden))))
    return Section("walk_dots", "5", line(say("walk_dots_heading")), tuple(blocks))


def _stated(walk: _Walk) -> str:
    return walk.say("walk_window", shown=len(walk.keys), visible=len(walk.keys) + len(walk.others))


def _terms(walk: _Walk, key: int) -> str:
    """Return the products that make q·k: all of them, or the largest and the sum of the rest."""
    q, k = walk.reference.q[walk.row.query], walk.reference.k[key]
    products = q * k
    if len(q) <= _READABLE:
        return " + ".join(_product(float(a), float(b)) for a, b in zip(q, k, strict=True))
    largest = sorted(np.argsort(-np.abs(products), kind="stable")[:_TERMS])
    rest = float(products.sum() - products[largest].sum())
    terms = [f"[{d}] {_product(float(q[d]), float(k[d]))}" for d in largest]
    return " + ".join([*terms, walk.say.count("walk_rest", len(q) - _TERMS, sum=_bracketed(rest))])


def _product(a: float, b: float) -> str:
    return f"{_bracketed(a)}×{_bracketed(b)}"


def _bracketed(value: float) -> str:
    text = fixed(value, WALK_DECIMALS)
    return f"({text})" if text.startswith(numbers.MINUS) else text


# ----------------------------------------------------------------------------------------------------- softmax


def _softmax(walk: _Walk) -> Section:
    say, row = walk.say, walk.row
    top = max(walk.keys, key=lambda key: row.scores[key])
    rows = [
        TableRow(
            (
                *_name(walk, key),
                _number(row.dots[key]),
                _number(row.scores[key]),
                _number(row.scores[key] - row.row_max),
                _number(row.shifted[key]),
                _number(row.weights[key], float(row.weights[key])),
            )
        )
        for key in walk.keys
    ]
    if walk.others:
        others = list(walk.others)
        rows.append(
            TableRow(
                (
                    (),
                    muted(say.count("walk_others", len(others))),
                    *((),) * 3,
                    _number(float(row.shifted[others].sum())),
                    _number(float(row.weights[others].sum()), float(row.weights[others].sum())),
                )
            )
        )
    weight = float(row.weights.sum())
    rows.append(
        TableRow(((), line(Piece(say("walk_total"), Role.STRONG)), *((),) * 3, _number(row.total), _number(weight)))
    )
    columns = (
        Column(say("column_key"), numeric=True, names=True),
        Column(say("column_token"), names=True),
        Column("q·k", numeric=True),
        Column("S", numeric=True),
        Column("S − m", numeric=True),
        Column("exp(S − m)", numeric=True),
        Column("A", numeric=True),
    )
    lead = say("walk_softmax_lead", scale=numbers.exact(walk.reference.scale))
    facts = say(
        "walk_softmax_facts",
        max=fixed(row.row_max, WALK_DECIMALS),
        key=top,
        total=fixed(row.total, WALK_DECIMALS),
        lse=fixed(row.lse, WALK_DECIMALS),
    )
    blocks = (Prose(line(lead)), Table(columns, tuple(rows)), Prose(line(facts)))
    return Section("walk_softmax", "6", line(say("walk_softmax_heading")), blocks)


# ------------------------------------------------------------------------------------------------ weighted sum


def _sum(walk: _Walk, trace: Trace) -> Section:
    say, row, reference = walk.say, walk.row, walk.reference
    width = reference.v.shape[1]
    shown = width if width <= _READABLE else _DIMENSIONS
    rows = [(walk.names[key].label, float(row.weights[key]), reference.v[key]) for key in walk.keys]
    if walk.others:
        others = list(walk.others)
        weight = float(row.weights[others].sum())
        total = row.weights[others] @ reference.v[others]
        mean: Floats = total / weight if weight > 0 else np.zeros(width)
        rows.append((Label("", say.count("walk_others", len(others))), weight, mean))
    cells = [
        (
            Piece(fixed(weight, WALK_DECIMALS), Role.NUMBER, level=weight),
            *(Piece(fixed(float(value), WALK_DECIMALS), Role.NUMBER) for value in values[:shown]),
        )
        for _, weight, values in rows
    ]
    labels = [label for label, _, _ in rows]
    results = [("O = Σ A·V", row.output)]
    kernel = trace.layer.kernel.output.float64()[row.query, trace.head]
    results.append((say("walk_kernel_row"), kernel))
    for name, values in results:
        labels.append(Label("", name))
        cells.append((Piece(""), *(Piece(fixed(float(value), WALK_DECIMALS), Role.STRONG) for value in values[:shown])))
    columns = (Label("", "A"), *(Label("", f"V[{d}]") for d in range(shown)))
    title = line(Piece("O = Σⱼ Aⱼ·Vⱼ", Role.FORMULA), "  ", *muted(say("walk_sum_note", shown=shown, dimensions=width)))
    blocks: list[Block] = [Prose(line(say("walk_sum_lead")))]
    if walk.others:
        blocks.append(Prose(muted(say("walk_others_mean"))))
    blocks += [
        Matrix(title, tuple(labels), columns, tuple(cells)),
        Prose(line(Piece(_spelled(walk, [(w, float(v[0])) for _, w, v in rows]), Role.NUMBER))),
    ]
    return Section("walk_sum", "7", line(say("walk_sum_heading")), tuple(blocks))


def _spelled(walk: _Walk, products: list[tuple[float, float]]) -> str:
    """Return the first component of the output written out: its largest products and the sum of the rest."""
    ranked = sorted(products, key=lambda pair: -abs(pair[0] * pair[1]))
    largest, rest = ranked[:_TERMS], ranked[_TERMS:]
    terms = [_product(a, b) for a, b in largest]
    if rest:
        terms.append(walk.say.count("walk_rest", len(rest), sum=_bracketed(sum(a * b for a, b in rest))))
    return f"O[0] = {' + '.join(terms)} = {fixed(float(walk.row.output[0]), WALK_DECIMALS)}"
