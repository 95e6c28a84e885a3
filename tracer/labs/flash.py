"""``trace lab flash``: softmax tile by tile, as a flash kernel does it, equal to the softmax of the whole row.

    m' = max(m, max S_tile)      c = exp(m − m')
    Z' = c·Z + Σ exp(S_tile − m')      acc' = c·acc + exp(S_tile − m')·V_tile      O = acc / Z      lse = m + ln Z

The recurrence is that of Milakov and Gimelshein (2018) as FlashAttention (Dao et al., 2022) uses it. Must not know:
terminals.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracer.arrays import Floats
from tracer.errors import InputError
from tracer.labs.figures import cell, figure, formula, strong, vector
from tracer.labs.lesson import Lesson, going_on
from tracer.labs.words import Words, said
from tracer.maths.attention import Head, head
from tracer.maths.criterion import difference
from tracer.maths.visibility import Visibility
from tracer.page.numbers import significant
from tracer.page.record import Block, Column, Facts, Piece, Prose, Role, Row, Section, Table, line
from tracer.page.wording import muted
from tracer.render.jsonable import number, numbers
from tracer.texts import Message

NAME = "flash"
MOST_KEYS = 4096
# float64 sums of a few thousand terms in another order differ by less.
TOLERANCE = 1e-12
_SHOWN_TILES = 16
_MOST_QUERIES, _MOST_STEPS = 64, 3_000
_WIDTH = 4


@dataclass(frozen=True, eq=False)
class Tile:
    """What one tile did to a query's running numbers. ``scores`` [keys]: −inf where hidden; ``acc`` [Dv].

    A tile with no visible key is skipped: nothing of it is read, and nothing changes.
    """

    keys: range
    skipped: bool
    scores: Floats
    old_max: float
    new_max: float
    factor: float
    added: float
    total: float
    acc: Floats


@dataclass(frozen=True, eq=False)
class Online:
    """One query done tile by tile: ``output`` [Dv] and ``lse``, and the output of who forgets to rescale."""

    tiles: tuple[Tile, ...]
    output: Floats
    lse: float
    without_rescaling: Floats


def online(one: Head, query: int, tile: int, backward: bool = False) -> Online:
    """Return one query's attention computed from ``tile`` keys at a time, first to last or ``backward``."""
    starts = range(0, len(one.k), tile)
    width = one.v.shape[1]
    top, total, acc = -np.inf, 0.0, np.zeros(width)
    forgotten_total, forgotten = 0.0, np.zeros(width)
    tiles = []
    for start in reversed(starts) if backward else starts:
        keys = range(start, min(start + tile, len(one.k)))
        cols = slice(keys.start, keys.stop)
        visible = one.visibility.rows(query, query + 1, cols)[0]
        if not visible.any():
            tiles.append(Tile(keys, True, np.full(len(keys), -np.inf), top, top, 1.0, 0.0, total, acc))
            continue
        scores = one.scores(slice(query, query + 1), cols)[0]
        new_max = max(top, float(scores.max()))
        factor = float(np.exp(top - new_max))
        shares = np.exp(scores - new_max)
        added = float(shares.sum())
        total, acc = factor * total + added, factor * acc + shares @ one.v[cols]
        forgotten_total, forgotten = forgotten_total + added, forgotten + shares @ one.v[cols]
        tiles.append(Tile(keys, False, scores, top, new_max, factor, added, total, acc))
        top = new_max
    return Online(tuple(tiles), acc / total, float(top + np.log(total)), forgotten / forgotten_total)


@dataclass(frozen=True, eq=False)
class Compared:
    """Queries of a head tile by tile against the reference: how many, and the largest differences."""

    output: float
    lse: float
    rows: int

    @property
    def equal(self) -> bool:
        """Whether both agree to rounding."""
        return max(self.output, self.lse) <= TOLERANCE


def compared(one: Head, tile: int, backward: bool) -> Compared:
    """Return how far tile by tile and all at once lie apart, over as many queries as take a moment, evenly spread."""
    keys = len(one.k)
    count = min(keys, _MOST_QUERIES, max(1, _MOST_STEPS * tile // keys))
    rows = [keys - 1 - place * keys // count for place in range(count)]
    found = [online(one, query, tile, backward) for query in rows]
    output = difference(np.array([each.output for each in found]), one.output[rows])
    lse = difference(np.array([each.lse for each in found]), one.lse[rows])
    return Compared(output.largest, lse.largest, count)


def small_head(keys: int, seed: int, causal: bool) -> Head:
    """Return a random head of ``keys`` queries and keys."""
    random = np.random.default_rng(seed)
    q, k, v = (random.standard_normal((keys, _WIDTH)) * spread for spread in (2, 1, 1))
    return head(q, k, v, _WIDTH**-0.5, Visibility(tq=keys, tk=keys, causal=causal))


def lesson(
    *,
    keys: int = 12,
    tile: int = 4,
    query: int | None = None,
    all_keys: bool = False,
    backward: bool = False,
    seed: int = 0,
) -> Lesson:
    """Return the lab; raises InputError."""
    for name, size, most in (("--keys", keys, MOST_KEYS), ("--tile", tile, MOST_KEYS)):
        if not 1 <= size <= most:
            raise InputError("labs.size", option=name, lowest=1, highest=most, found=size)
    place = keys - 1 if query is None else query
    if place >= keys:
        raise InputError("labs.query_range", query=place, last=keys - 1)
    one = small_head(keys, seed, causal=not all_keys)
    followed = online(one, place, tile, backward)
    checked = compared(one, tile, backward)
    return Lesson(
        name=NAME,
        before=said("flash_before"),
        sections=lambda say: _sections(say, one, place, followed, checked, tile),
        figures=lambda _: _figures(one, place, followed, checked, tile),
        after=_after(one, place, followed),
        question=said("flash_question"),
        next=going_on(
            NAME, "trace lab flash --tile 1", "trace lab flash --backward", "trace lab gpu", "trace qwen3 --head 2"
        ),
        exit_code=0 if checked.equal else 1,
    )


def _after(one: Head, place: int, followed: Online) -> tuple[Message, ...]:
    rescaled = sum(not tile.skipped and 0 < tile.factor < 1 for tile in followed.tiles)
    apart = float(np.abs(followed.without_rescaling - one.output[place]).max())
    one_tile = sum(not tile.skipped for tile in followed.tiles) == 1
    found = [said("flash_after_one_tile" if one_tile else "flash_after_memory")]
    found.append(said("flash_after_rescaled", count=rescaled))
    if rescaled:
        found.append(said("flash_after_forgotten", apart=figure(apart)))
    if any(tile.skipped for tile in followed.tiles):
        found.append(said("flash_after_skipped"))
    return tuple(found)


# ------------------------------------------------------------------------------------------------------ the page


def _sections(say: Words, one: Head, place: int, followed: Online, checked: Compared, tile: int) -> Sequence[Section]:
    return (
        _rules(say),
        _tiles(say, place, followed, tile),
        _end(say, one, place, followed),
        _equal(say, one, checked, tile),
    )


def _rules(say: Words) -> Section:
    rows = (
        (formula("m' = max(m, max S)"), line(say("flash_rule_max"))),
        (formula("c = exp(m − m')"), line(say("flash_rule_factor"))),
        (formula("Z' = c·Z + Σ exp(S − m')"), line(say("flash_rule_total"))),
        (formula("acc' = c·acc + Σ exp(S − m')·v"), line(say("flash_rule_acc"))),
    )
    return Section("flash_rules", "1", line(say("flash_rules_heading")), (Facts(rows),))


def _tiles(say: Words, place: int, followed: Online, tile: int) -> Section:
    rows = []
    for number_, each in enumerate(followed.tiles[:_SHOWN_TILES]):
        name = strong(f"{number_}")
        keys = line(f"{each.keys.start}–{each.keys.stop - 1}" if len(each.keys) > 1 else f"{each.keys.start}")
        if each.skipped:
            rows.append(Row((name, keys, line(Piece(say("flash_skipped"), Role.MASKED)), (), (), ())))
            continue
        rows.append(
            Row(
                (
                    name,
                    keys,
                    cell(each.new_max),
                    cell(each.factor),
                    cell(each.total),
                    line(Piece(vector(each.acc), Role.NUMBER)),
                )
            )
        )
    columns = (
        Column(say("column_tile"), names=True),
        Column(say("column_keys")),
        Column("m'", numeric=True),
        Column("c", numeric=True),
        Column("Z'", numeric=True),
        Column("acc'"),
    )
    blocks: list[Block] = [Prose(line(say("flash_tiles", query=place, tile=tile))), Table(columns, tuple(rows))]
    if len(followed.tiles) > _SHOWN_TILES:
        blocks.append(Prose(muted(say("flash_more", shown=_SHOWN_TILES, tiles=len(followed.tiles)))))
    scores = followed.tiles[0].scores
    if len(scores) <= 8 and not followed.tiles[0].skipped:
        blocks.append(Prose(muted(say("flash_first", scores=vector(scores)))))
    return Section("flash_tiles", "2", line(say("flash_tiles_heading")), tuple(blocks))


def _end(say: Words, one: Head, place: int, followed: Online) -> Section:
    columns = (
        Column(names=True),
        Column("O"),
        Column("lse", numeric=True),
    )
    rows = (
        Row((strong(say("flash_tilewise")), line(vector(followed.output)), cell(followed.lse))),
        Row((strong(say("flash_at_once")), line(vector(one.output[place])), cell(float(one.lse[place])))),
        Row((strong(say("flash_forgotten")), line(Piece(vector(followed.without_rescaling), Role.FAIL)), ())),
    )
    blocks = (Prose(line(say("flash_end"))), Table(columns, rows))
    return Section("flash_end", "3", line(say("flash_end_heading")), blocks)


def _equal(say: Words, one: Head, checked: Compared, tile: int) -> Section:
    role, mark = (Role.PASS, "✓") if checked.equal else (Role.FAIL, "✗")
    result = say(
        "flash_equal_all" if checked.rows == len(one.q) else "flash_equal",
        rows=checked.rows,
        queries=len(one.q),
        output=significant(checked.output),
        lse=significant(checked.lse),
    )
    keys = len(one.k)
    kept, whole = min(tile, keys) + one.v.shape[1] + 2, keys + one.v.shape[1] + 2
    blocks = (
        Prose(line(Piece(f"{mark} ", role), result)),
        Prose(line(say("flash_memory" if kept < whole else "flash_memory_whole", kept=kept, whole=whole, keys=keys))),
    )
    return Section("flash_equal", "4", line(say("flash_equal_heading")), blocks)


# ------------------------------------------------------------------------------------------------------ JSON


def _figures(one: Head, place: int, followed: Online, checked: Compared, tile: int) -> Mapping[str, Any]:
    return {
        "tile_size": tile,
        "keys": len(one.k),
        "query": place,
        "tiles": [
            {
                "keys": [each.keys.start, each.keys.stop],
                "skipped": each.skipped,
                "scores": numbers(each.scores),
                "row_max": number(each.new_max),
                "factor": number(each.factor),
                "added": number(each.added),
                "total": number(each.total),
                "acc": numbers(each.acc),
            }
            for each in followed.tiles
        ],
        "output": numbers(followed.output),
        "lse": number(followed.lse),
        "reference": {"output": numbers(one.output[place]), "lse": number(float(one.lse[place]))},
        "without_rescaling": numbers(followed.without_rescaling),
        "compared": {
            "queries": checked.rows,
            "output": checked.output,
            "lse": checked.lse,
            "tolerance": TOLERANCE,
            "equal": checked.equal,
        },
    }
