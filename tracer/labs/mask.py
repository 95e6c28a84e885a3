"""``trace lab mask``: the causal mask where it belongs, and three ways of getting it wrong, told apart by what they do.

Must not know: terminals.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tracer.arrays import Floats
from tracer.errors import InputError
from tracer.labs.figures import cell, figure, formula, grid, named, short
from tracer.labs.lesson import Lesson, going_on
from tracer.labs.words import Words, said
from tracer.maths.attention import Head, head, seen_by
from tracer.maths.visibility import Bools, Visibility
from tracer.page.numbers import fixed
from tracer.page.record import Beside, Block, Column, Line, Matrix, Piece, Prose, Role, Row, Section, Table, line
from tracer.page.wording import muted
from tracer.render.jsonable import numbers
from tracer.texts import Listing, Message

NAME = "mask"
EMPTY_ROWS = "trace lab mask --queries 5 --keys 2"
MOST = 12
_WIDTH = 4
_ROUNDING = 1e-12  # outputs are of the size of 1; float64 rounds them at 1e-16
_VERY_NEGATIVE = float(np.finfo(np.float32).min)  # what many programs add in place of −∞


@dataclass(frozen=True, eq=False)
class Variant:
    """One way of masking: its weights [Tq, Tk], and which outputs moved when the last key and value were changed.

    ``rounding`` are those of which only the last bits moved. ``hidden_weight`` is the largest weight on a key that must
    not be seen; ``row_sums`` the smallest and the largest, rows without any key left out.
    """

    id: str
    weights: Floats
    moved: tuple[int, ...]
    rounding: tuple[int, ...]
    hidden_weight: float
    row_sums: tuple[float, float]
    right: bool


@dataclass(frozen=True, eq=False)
class Masked:
    """A small head under its mask, and every variant of masking it."""

    head: Head
    visible: Bools
    variants: tuple[Variant, ...]
    may_move: tuple[int, ...]  # the queries that may see the last key


def masked(queries: int, keys: int, window: int | None, seed: int) -> Masked:
    """Return a random head of that size under a causal mask (and window), and its variants; raises InputError."""
    for name, size in (("--keys", keys), ("--queries", queries)):
        if not 1 <= size <= MOST:
            raise InputError("labs.size", option=name, lowest=1, highest=MOST, found=size)
    random = np.random.default_rng(seed)
    q, k, v = (random.standard_normal((size, _WIDTH)) for size in (queries, keys, keys))
    visibility = Visibility(tq=queries, tk=keys, causal=True, left=None if window is None else window - 1)
    one = head(q, k, v, _WIDTH**-0.5, visibility)
    other = _last_changed(one, random)
    visible = visibility.rows(0, queries)
    variants = tuple(_variant(id, one, other, visible) for id in ("first", "none", "late", "again"))
    may_move = tuple(int(i) for i in np.flatnonzero(visible[:, -1]))
    return Masked(one, visible, tuple(replace(each, right=_is_right(each, may_move)) for each in variants), may_move)


def _is_right(variant: Variant, may_move: tuple[int, ...]) -> bool:
    return variant.moved == may_move and variant.hidden_weight == 0


def _last_changed(one: Head, random: np.random.Generator) -> Head:
    """Return the same head with another key and value in the last place."""
    k, v = one.k.copy(), one.v.copy()
    k[-1], v[-1] = random.standard_normal((2, one.k.shape[1])) * 2
    return head(one.q, k, v, one.scale, one.visibility)


def _variant(id: str, one: Head, other: Head, visible: Bools) -> Variant:
    weights, changed = weights_of(id, one), weights_of(id, other)
    apart = np.abs(weights @ one.v - changed @ other.v).max(axis=1)
    filled = visible.any(axis=1)
    sums = weights.sum(axis=1)[filled]
    return Variant(
        id,
        weights,
        tuple(int(i) for i in np.flatnonzero(apart > _ROUNDING)),
        tuple(int(i) for i in np.flatnonzero((apart > 0) & (apart <= _ROUNDING))),
        float(weights[~visible].max(initial=0.0)),
        (float(sums.min(initial=np.inf)), float(sums.max(initial=-np.inf))),
        right=False,
    )


def weights_of(variant: str, one: Head) -> Floats:
    """Return the weights [Tq, Tk] that a way of masking gives; rows without any key are 0.

    ``first``: before the softmax; ``none``: not at all; ``late``: after it; ``again``: late, then shared out again.
    """
    every = slice(0, len(one.q))
    if variant == "first":
        return one.weights(every)
    open_to_all = Visibility(tq=len(one.q), tk=len(one.k), causal=False)
    unmasked = seen_by(one, open_to_all).weights(every)
    if variant == "none":
        return unmasked
    visible = one.visibility.rows(0, len(one.q))
    kept = np.where(visible, unmasked, 0.0)
    if variant == "late":
        return kept
    total = kept.sum(axis=1, keepdims=True)
    return kept / np.where(total > 0, total, 1.0)


def lesson(*, queries: int | None = None, keys: int = 5, window: int | None = None, seed: int = 0) -> Lesson:
    """Return the lab; raises InputError."""
    found = masked(keys if queries is None else queries, keys, window, seed)
    after: list[Message] = [said("mask_after_place"), said("mask_after_again"), said("mask_after_matrix")]
    if found.head.empty_rows:
        after.insert(0, said("mask_after_empty"))
    return Lesson(
        name=NAME,
        before=said("mask_before"),
        sections=lambda say: tuple(_sections(say, found)),
        figures=lambda _: _figures(found),
        after=tuple(after),
        question=said("mask_question"),
        next=going_on(
            NAME,
            "trace lab mask --queries 5 --keys 2",
            "trace lab mask --window 2",
            "trace lab axes",
            "trace qwen3 --head 2",
        ),
    )


# ------------------------------------------------------------------------------------------------------ the page


def _sections(say: Words, found: Masked) -> list[Section]:
    sections = [_permissions(say, found), _effects(say, found), _weights(say, found)]
    if found.head.empty_rows:
        sections.append(_empty(say, found))
    return sections


def _names(found: Masked) -> tuple[list[str], list[str]]:
    tq, tk = found.visible.shape
    return [named("q", i) for i in range(tq)], [named("k", j) for j in range(tk)]


def _permissions(say: Words, found: Masked) -> Section:
    queries, keys = _names(found)
    every = slice(0, len(queries))
    weights = found.head.weights(every)
    right: Bools = found.visible
    blocks: list[Block] = [
        Prose(line(say("mask_permissions"))),
        Beside(
            (
                grid(
                    formula(say("visible_title"), say("visible_note")),
                    queries,
                    keys,
                    right.astype(np.float64),
                    write=short,
                ),
                grid(formula("S + M"), queries, keys, found.head.scores(every), write=_two, visible=right),
                grid(formula("A"), queries, keys, weights, write=_two, levels=weights, visible=right),
            )
        ),
        Prose(muted(say("legend"))),
    ]
    if len(queries) != len(keys):
        blocks.append(Prose(line(say("mask_aligned", queries=len(queries), keys=len(keys)))))
    return Section("mask_permissions", "1", line(say("mask_permissions_heading")), tuple(blocks))


def _two(value: float) -> str:
    return fixed(value, 2)


def _effects(say: Words, found: Masked) -> Section:
    rows = []
    for each in found.variants:
        role, mark = _mark(each)
        moved = ", ".join(map(str, each.moved)) or "–"
        if each.rounding:
            moved += f" (≈ {', '.join(map(str, each.rounding))})"
        low, high = each.row_sums
        sums = figure(low) if np.isclose(low, high) else f"{figure(low)} – {figure(high)}"
        rows.append(
            Row(
                (
                    line(Piece(f"{mark} ", role), Piece(say(f"mask_{each.id}"), Role.STRONG)),
                    line(Piece(moved, Role.NUMBER if each.right else role)),
                    cell(each.hidden_weight),
                    line(Piece(sums, Role.NUMBER)),
                )
            )
        )
    columns = (
        Column(say("column_masked"), names=True),
        Column(say("column_moved")),
        Column(say("column_hidden"), numeric=True),
        Column(say("column_sums_seen" if found.head.empty_rows else "column_sums"), numeric=True),
    )
    may = Listing(map(str, found.may_move)) or "–"
    lead = Prose(line(say("mask_effects", last=found.visible.shape[1] - 1, may=may)))
    blocks: list[Block] = [lead, Table(columns, tuple(rows))]
    if any(each.rounding for each in found.variants):
        blocks.append(Prose(muted(say("mask_rounding"))))
    return Section("mask_effects", "2", line(say("mask_effects_heading")), tuple(blocks))


def _mark(variant: Variant) -> tuple[Role, str]:
    if not variant.right:
        return Role.FAIL, "✗"
    return (Role.UNTESTED, "≈") if variant.rounding else (Role.PASS, "✓")


def _weights(say: Words, found: Masked) -> Section:
    queries, keys = _names(found)
    shown: list[Matrix] = []
    for each in found.variants[1:]:
        title: Line = line(Piece(say(f"mask_{each.id}"), Role.PASS if each.right else Role.FAIL))
        wide = np.concatenate([each.weights, each.weights.sum(axis=1, keepdims=True)], axis=1)
        filled = np.broadcast_to(_filled(found, each)[:, None], wide.shape)
        shown.append(grid(title, queries, [*keys, "Σ"], wide, write=_two, levels=wide * 1.0, visible=filled))
    blocks: list[Block] = [Prose(line(say("mask_variants"))), Beside(tuple(shown))]
    if found.head.empty_rows:
        blocks.append(Prose(muted(say("mask_variants_empty"))))
    return Section("mask_variants", "3", line(say("mask_variants_heading")), tuple(blocks))


def _filled(found: Masked, variant: Variant) -> Bools:
    """Return which rows of a variant's weights are rows at all, [Tq]: where nothing was left to share out, none is."""
    if variant.id == "none":
        return np.ones(len(found.visible), dtype=np.bool_)
    return np.asarray(found.visible.any(axis=1), dtype=np.bool_)


def _empty(say: Words, found: Masked) -> Section:
    """Return what programs make of a row without any key."""
    keys = found.visible.shape[1]
    row = found.head.empty_rows[0]
    scores = found.head.q[row] @ found.head.k.T * found.head.scale
    with np.errstate(invalid="ignore"):
        minus_infinity = np.exp(np.full(keys, -np.inf) - -np.inf)
    pushed = scores.astype(np.float32) + np.float32(_VERY_NEGATIVE)
    share = np.exp(pushed - pushed.max()) / np.exp(pushed - pushed.max()).sum()
    results = (
        ("mask_empty_infinite", minus_infinity),
        ("mask_empty_negative", share.astype(np.float64)),
        ("mask_empty_zero", np.zeros(keys)),
    )
    rows = tuple(
        Row((line(say(name)), line(Piece("  ".join(figure(float(value)) for value in values), Role.NUMBER))))
        for name, values in results
    )
    columns = (Column(say("column_does"), names=True), Column("A"))
    lead = Prose(line(say("mask_empty", rows=Listing(map(str, found.head.empty_rows)))))
    return Section("mask_empty", "4", line(say("mask_empty_heading")), (lead, Table(columns, rows)))


# ------------------------------------------------------------------------------------------------------ JSON


def _figures(found: Masked) -> Mapping[str, Any]:
    every = slice(0, len(found.head.q))
    return {
        "visible": found.visible.tolist(),
        "empty_rows": list(found.head.empty_rows),
        "scores": numbers(found.head.scores(every)),
        "may_move": list(found.may_move),
        "variants": [
            {
                "id": each.id,
                "right": each.right,
                "weights": numbers(np.where(_filled(found, each)[:, None], each.weights, np.nan)),
                "row_sums": numbers(np.where(_filled(found, each), each.weights.sum(axis=1), np.nan)),
                "hidden_weight": each.hidden_weight,
                "moved": list(each.moved),
                "moved_by_rounding": list(each.rounding),
            }
            for each in found.variants
        ],
    }
