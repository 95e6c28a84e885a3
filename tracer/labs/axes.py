"""``trace lab axes``: which axis each product sums over and which it leaves, and what mixing them up does.

Must not know: terminals.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracer.arrays import Floats
from tracer.errors import InputError
from tracer.labs.figures import factor, figure, formula, grid, named, short, strong
from tracer.labs.lesson import Lesson, going_on
from tracer.labs.words import Words, said
from tracer.maths.attention import Head, head
from tracer.maths.visibility import Visibility
from tracer.page.record import Beside, Block, Column, Line, Piece, Prose, Role, Row, Section, Table, line
from tracer.page.wording import muted
from tracer.render.jsonable import numbers

NAME = "axes"
LONGEST = 12
_HEADS, _KV_HEADS, _TOKENS, _WIDTH = 4, 2, 3, 2


@dataclass(frozen=True, eq=False)
class Axes:
    """A small head with axes of the asked sizes, in whole numbers, and the two softmaxes of its scores [Tq, Tk].

    ``over_keys`` is right: its rows sum to 1. ``over_queries`` is the mistake: its columns do.
    """

    head: Head
    over_keys: Floats
    over_queries: Floats


@dataclass(frozen=True, eq=False)
class Heads:
    """Splitting [T, H·D] into heads, right and wrong; each entry tells token and head it came from, [H, T, D].

    ``shared`` and ``tiled``: the KV head that each query head reads, right and wrong.
    """

    right: tuple[tuple[str, ...], ...]
    wrong: tuple[tuple[str, ...], ...]
    shared: tuple[int, ...]
    tiled: tuple[int, ...]


def axes(tq: int, tk: int, d: int, dv: int, seed: int) -> Axes:
    """Return a small head with these axes; raises InputError for an axis that cannot be looked at."""
    for name, size in (("--tq", tq), ("--tk", tk), ("--d", d), ("--dv", dv)):
        if not 1 <= size <= LONGEST:
            raise InputError("labs.size", option=name, lowest=1, highest=LONGEST, found=size)
    random = np.random.default_rng(seed)
    q, k, v = (random.integers(-2, 4, shape).astype(np.float64) for shape in ((tq, d), (tk, d), (tk, dv)))
    found = head(q, k, v, float(d) ** -0.5, Visibility(tq=tq, tk=tk, causal=False))
    scores = found.scores(slice(0, tq))
    down = np.exp(scores - scores.max(axis=0))
    return Axes(found, found.weights(slice(0, tq)), down / down.sum(axis=0))


def heads() -> Heads:
    """Return both ways of splitting a projection into heads and of sharing KV heads."""
    names = np.array([[f"t{t}h{h}" for h in range(_HEADS) for _ in range(_WIDTH)] for t in range(_TOKENS)])
    right = names.reshape(_TOKENS, _HEADS, _WIDTH).transpose(1, 0, 2)[:, :, 0]
    wrong = names.reshape(_HEADS, _TOKENS, _WIDTH)[:, :, 0]
    groups = _HEADS // _KV_HEADS
    return Heads(
        tuple(tuple(map(str, row)) for row in right),
        tuple(tuple(map(str, row)) for row in wrong),
        tuple(int(kv) for kv in np.repeat(np.arange(_KV_HEADS), groups)),
        tuple(int(kv) for kv in np.tile(np.arange(_KV_HEADS), groups)),
    )


def lesson(*, tq: int = 2, tk: int = 3, d: int = 4, dv: int = 5, seed: int = 0) -> Lesson:
    """Return the lab; raises InputError."""
    found, split = axes(tq, tk, d, dv, seed), heads()
    wrong = found.over_queries.sum(axis=1)
    return Lesson(
        name=NAME,
        before=said(f"axes_before{_kind(found)}"),
        sections=lambda say: (_shapes(say, found), _sums(say, found), _wrong_axis(say, found), _split(say, split)),
        figures=lambda _: _figures(found, split),
        after=(
            said("axes_after_left"),
            said("axes_after_softmax", sums=", ".join(figure(float(each)) for each in wrong)),
            said("axes_after_heads"),
        ),
        question=said(f"axes_question{_kind(found)}"),
        next=going_on(NAME, "trace lab axes --tq 3 --tk 3 --d 3 --dv 3", "trace lab mask", "trace qwen3 --head 2"),
    )


def _kind(found: Axes) -> str:
    """Return which texts speak of these axes: ``_equal`` where two of them cannot be told apart by their length."""
    sizes = [*found.head.q.shape, *found.head.v.shape]
    return "" if len(set(sizes)) == len(sizes) else "_equal"


# ------------------------------------------------------------------------------------------------------ the page


def _shapes(say: Words, found: Axes) -> Section:
    (tq, d), (tk, dv) = found.head.q.shape, found.head.v.shape
    listed = (
        ("Q", f"[Tq={tq}, D={d}]", "", ""),
        ("K", f"[Tk={tk}, D={d}]", "", ""),
        ("S = QKᵀ·scale", f"[Tq={tq}, Tk={tk}]", "D", "id,jd->ij"),
        ("A = softmax(S)", f"[Tq={tq}, Tk={tk}]", say("axes_normalises"), ""),
        ("V", f"[Tk={tk}, Dv={dv}]", "", ""),
        ("O = A·V", f"[Tq={tq}, Dv={dv}]", "Tk", "ij,je->ie"),
    )
    rows = tuple(
        Row((formula(name), line(shape), line(Piece(gone, Role.STRONG)), line(Piece(sums, Role.CODE))))
        for name, shape, gone, sums in listed
    )
    columns = (Column(names=True), Column(say("column_left")), Column(say("column_gone")), Column("einsum", spare=1))
    return Section("axes_shapes", "1", line(say("axes_shapes_heading")), (Table(columns, rows),))


def _sums(say: Words, found: Axes) -> Section:
    """Return the matrices, and one entry of each product as its sum."""
    one = found.head
    (tq, d), (tk, dv) = one.q.shape, one.v.shape
    queries, keys = [named("q", i) for i in range(tq)], [named("k", j) for j in range(tk)]
    parts, features = [f"[{x}]" for x in range(d)], [f"[{x}]" for x in range(dv)]
    i, j, e = tq - 1, tk - 1, dv - 1
    products = [f"{factor(float(a))}×{factor(float(b))}" for a, b in zip(one.q[i], one.k[j], strict=True)]
    score = float(one.scores(slice(i, i + 1))[0, j])
    mixed = [f"{figure(float(w))}×{factor(float(x))}" for w, x in zip(found.over_keys[i], one.v[:, e], strict=True)]
    blocks: list[Block] = [
        Beside(
            (
                grid(formula("Q"), queries, parts, one.q, write=short),
                grid(formula("Kᵀ"), parts, keys, one.k.T, write=short),
                grid(formula("S"), queries, keys, one.scores(slice(0, tq))),
            )
        ),
        Prose(line(say("axes_sum_d"))),
        _spelled(f"S[{i},{j}] = ({' + '.join(products)}) × {figure(one.scale)} = {figure(score)}"),
        Beside(
            (
                grid(formula("A"), queries, keys, found.over_keys, levels=found.over_keys),
                grid(formula("V"), keys, features, one.v, write=short),
                grid(formula("O"), queries, features, one.output),
            )
        ),
        Prose(line(say("axes_sum_keys"))),
        _spelled(f"O[{i},{e}] = {' + '.join(mixed)} = {figure(float(one.output[i, e]))}"),
    ]
    return Section("axes_sums", "2", line(say("axes_sums_heading")), tuple(blocks))


def _spelled(text: str) -> Prose:
    return Prose(line(Piece(text, Role.NUMBER)))


def _wrong_axis(say: Words, found: Axes) -> Section:
    tq, tk = found.over_keys.shape
    queries, keys = [named("q", i) for i in range(tq)], [named("k", j) for j in range(tk)]

    def with_sums(weights: Floats) -> Floats:
        """Add the sum of each row and each column; the corner says nothing."""
        wide = np.concatenate([weights, weights.sum(axis=1, keepdims=True)], axis=1)
        return np.concatenate([wide, wide.sum(axis=0, keepdims=True)], axis=0)

    named_rows, named_columns = [*queries, "Σ"], [*keys, "Σ"]
    pair = (
        grid(_title(say("axes_right")), named_rows, named_columns, with_sums(found.over_keys)),
        grid(_title(say("axes_wrong"), Role.FAIL), named_rows, named_columns, with_sums(found.over_queries)),
    )
    blocks = (Prose(line(say("axes_wrong_lead"))), Beside(pair), Prose(muted(say("axes_corner"))))
    return Section("axes_wrong", "3", line(say("axes_wrong_heading")), blocks)


def _title(text: str, role: Role = Role.PASS) -> Line:
    return line(Piece(text, role))


def _split(say: Words, split: Heads) -> Section:
    columns = (Column("", names=True), Column(say("axes_right")), Column(say("axes_wrong")))
    reading = tuple(
        Row((strong(say("axes_head", head=h)), line(" ".join(right)), line(Piece(" ".join(wrong), Role.FAIL))))
        for h, (right, wrong) in enumerate(zip(split.right, split.wrong, strict=True))
    )
    sharing = tuple(
        Row(
            (strong(say("axes_head", head=h)), line(f"KV {right}"), line(Piece(f"KV {wrong}", _unless(right == wrong))))
        )
        for h, (right, wrong) in enumerate(zip(split.shared, split.tiled, strict=True))
    )
    blocks = (
        Prose(line(say("axes_split", tokens=_TOKENS, heads=_HEADS))),
        Table(columns, reading),
        Prose(line(say("axes_share", heads=_HEADS, kv=_KV_HEADS))),
        Table(columns, sharing),
    )
    return Section("axes_heads", "4", line(say("axes_heads_heading")), blocks)


def _unless(same: bool) -> Role:
    return Role.TEXT if same else Role.FAIL


# ------------------------------------------------------------------------------------------------------ JSON


def _figures(found: Axes, split: Heads) -> Mapping[str, Any]:
    one = found.head
    (tq, d), (tk, dv) = one.q.shape, one.v.shape
    return {
        "axes": {"Tq": tq, "Tk": tk, "D": d, "Dv": dv},
        "q": numbers(one.q),
        "k": numbers(one.k),
        "v": numbers(one.v),
        "scale": one.scale,
        "scores": numbers(one.scores(slice(0, tq))),
        "weights": numbers(found.over_keys),
        "output": numbers(one.output),
        "wrong_axis": {
            "weights": numbers(found.over_queries),
            "row_sums": numbers(found.over_queries.sum(axis=1)),
            "column_sums": numbers(found.over_queries.sum(axis=0)),
        },
        "heads": {
            "right": [list(each) for each in split.right],
            "wrong": [list(each) for each in split.wrong],
            "kv_head": list(split.shared),
            "kv_head_tiled": list(split.tiled),
        },
    }
