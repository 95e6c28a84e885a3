"""``trace lab softmax``: where exp overflows or vanishes in each floating point format, and why subtracting the
largest score prevents both and changes nothing else.

Must not know: terminals.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracer.arrays import Floats
from tracer.errors import InputError
from tracer.labs import given
from tracer.labs.figures import cell, figure, short, strong, vector
from tracer.labs.lesson import Lesson, going_on
from tracer.labs.words import Words, said
from tracer.page.record import Block, Column, Line, Piece, Prose, Role, Row, Section, Table, line
from tracer.render.jsonable import number, numbers
from tracer.texts import Message

NAME = "softmax"
DTYPES = ("float16", "float32", "float64")
SCORES = "[2, 1, 0]"
# Each added to every score: float16, float32 and float64 overflow one after the other, and then all vanish.
SHIFTS = (0.0, 10.0, 90.0, 710.0, -20.0, -110.0, -800.0)
_MOST_SCORES = 12


@dataclass(frozen=True, eq=False)
class Tried:
    """Softmax of one row in one format, ``exp`` and ``total`` as that format holds them; all [n] but ``total``."""

    exp: Floats
    total: float
    weights: Floats

    @property
    def fault(self) -> str | None:
        """What went wrong: ``overflow``, ``vanished``, or None."""
        if np.isfinite(self.weights).all():
            return None
        return "vanished" if self.total == 0 else "overflow"


@dataclass(frozen=True, eq=False)
class Shifted:
    """One number added to every score, and the softmax of it, plain and with the largest score subtracted first, both
    by format. Scores that a format cannot hold are infinite in it before any exp is taken."""

    shift: float
    scores: Floats
    plain: Mapping[str, Tried]
    stable: Mapping[str, Tried]


def tried(scores: Floats, dtype: str, *, subtract: bool) -> Tried:
    """Return the softmax of ``scores`` [n] in ``dtype`` throughout; ``subtract`` the largest first."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        held: NDArray[Any] = scores.astype(dtype)
        if subtract:
            held = held - held.max()
        exp = np.exp(held)
        total = exp.sum(dtype=dtype)
        weights = exp / total
    return Tried(exp.astype(np.float64), float(total), weights.astype(np.float64))


def shifted(scores: Floats, shift: float) -> Shifted:
    """Return what each format makes of ``scores`` [n] + ``shift``."""
    moved = scores + shift
    return Shifted(
        shift,
        moved,
        {dtype: tried(moved, dtype, subtract=False) for dtype in DTYPES},
        {dtype: tried(moved, dtype, subtract=True) for dtype in DTYPES},
    )


def bounds(dtype: str) -> tuple[float, float]:
    """Return the scores between which ``dtype`` holds exp: below the first it is rounded to 0, above the second to ∞.

    Rounding goes to the nearest number: half a step above the largest is infinite, half the smallest is zero.
    """
    limits = np.finfo(dtype)
    step = 2.0 ** -(limits.nmant + 1)  # of the largest number, relative to the power of two above it
    high = np.log(2.0) * float(limits.maxexp) + np.log1p(-step / 2)
    low = np.log(np.float64(limits.smallest_subnormal)) - np.log(2.0)
    return float(low), float(high)


def lesson(*, scores: str | None = None) -> Lesson:
    """Return the lab for the reader's own ``scores``, or the built-in ones; raises InputError."""
    row = given.vector("--scores", SCORES if scores is None else scores)
    if len(row) > _MOST_SCORES:
        raise InputError("labs.softmax_many", most=_MOST_SCORES, found=len(row))
    found = [shifted(row, shift) for shift in SHIFTS]
    return Lesson(
        name=NAME,
        before=said("softmax_before"),
        sections=lambda say: _sections(say, row, found),
        figures=lambda _: _figures(row, found),
        after=_after(found),
        question=said("softmax_question"),
        next=going_on(NAME, 'trace lab softmax --scores "[1000, 999]"', "trace lab flash", "trace lab scale"),
    )


def _after(found: Sequence[Shifted]) -> tuple[Message, ...]:
    faults = sum(each.plain[dtype].fault is not None for each in found for dtype in DTYPES)
    kept = sum(each.stable[dtype].fault is None for each in found for dtype in DTYPES)
    total = len(found) * len(DTYPES)
    counted = said(
        "softmax_after_all" if kept == total else "softmax_after_count", faults=faults, total=total, kept=kept
    )
    return (counted, said("softmax_after_why"), said("softmax_after_precision"))


# ------------------------------------------------------------------------------------------------------ the page


def _sections(say: Words, row: Floats, found: Sequence[Shifted]) -> Sequence[Section]:
    return (_limits(say), _steps(say, found[0]), _table(say, row, found))


def _limits(say: Words) -> Section:
    """Return up to which score each format holds exp, and its largest number."""
    rows = []
    for dtype in DTYPES:
        low, high = bounds(dtype)
        largest = Piece(f"{float(np.finfo(dtype).max):.5g}", Role.NUMBER)
        rows.append(Row((strong(dtype), line(largest), cell(high), cell(low))))
    columns = (
        Column(say("column_format"), names=True),
        Column(say("column_largest"), numeric=True),
        Column(say("column_overflows"), numeric=True),
        Column(say("column_vanishes"), numeric=True),
    )
    blocks = (Prose(line(say("softmax_limits"))), Table(columns, tuple(rows)))
    return Section("softmax_limits", "1", line(say("softmax_limits_heading")), blocks)


def _steps(say: Words, first: Shifted) -> Section:
    plain, stable = first.plain["float64"], first.stable["float64"]
    top = float(first.scores.max())
    rows = [
        Row(
            (
                strong(str(j)),
                cell(float(first.scores[j])),
                cell(float(plain.exp[j])),
                cell(float(plain.weights[j]), float(plain.weights[j])),
                cell(float(first.scores[j] - top)),
                cell(float(stable.exp[j])),
                cell(float(stable.weights[j]), float(stable.weights[j])),
            )
        )
        for j in range(len(first.scores))
    ]
    rows.append(Row((strong(say("total")), (), cell(plain.total), (), (), cell(stable.total), ())))
    titles = ("S", "exp(S)", "A", "S − m", "exp(S − m)", "A")
    columns = (Column("key", names=True), *(Column(title, numeric=True) for title in titles))
    blocks = (Prose(line(say("softmax_steps", max=figure(top)))), Table(columns, tuple(rows)))
    return Section("softmax_steps", "2", line(say("softmax_steps_heading")), blocks)


def _table(say: Words, row: Floats, found: Sequence[Shifted]) -> Section:
    rows = tuple(
        Row(
            (
                line(Piece(short(each.shift), Role.STRONG)),
                *(_first(say, each.plain[dtype]) for dtype in DTYPES),
                _first(say, each.stable["float16"]),
                _first(say, each.stable["float64"]),
            )
        )
        for each in found
    )
    columns = (
        Column(say("column_added"), numeric=True, names=True),
        *(Column(dtype, numeric=True) for dtype in DTYPES),
        Column("float16 −m", numeric=True),
        Column("float64 −m", numeric=True),
    )
    place = int(row.argmax())
    lead = say("softmax_table", scores=vector(row, short), place=place)
    blocks: list[Block] = [
        Prose(line(lead)),
        Table(columns, rows),
        Prose(line(Piece(say("softmax_legend"), Role.MUTED))),
    ]
    if _rounded(found):
        blocks.append(Prose(line(say("softmax_rounded"))))
    return Section("softmax_table", "3", line(say("softmax_table_heading")), tuple(blocks))


def _rounded(found: Sequence[Shifted]) -> bool:
    """Return whether some weight that is a number differs from float64's in the decimals that are shown."""
    weights = [way[dtype].weights.max() for each in found for way in (each.plain, each.stable) for dtype in DTYPES]
    exact = found[0].stable["float64"].weights.max()
    return any(figure(float(weight)) != figure(float(exact)) for weight in weights if np.isfinite(weight))


def _first(say: Words, one: Tried) -> Line:
    """Return the weight of the largest score, or what went wrong in place of it."""
    if one.fault is not None:
        return line(Piece("0/0 = NaN" if one.fault == "vanished" else "∞/∞ = NaN", Role.FAIL))
    return cell(float(one.weights.max()))


# ------------------------------------------------------------------------------------------------------ JSON


def _figures(row: Floats, found: Sequence[Shifted]) -> Mapping[str, Any]:
    return {
        "scores": numbers(row),
        "bounds": {dtype: dict(zip(("zero_below", "infinite_above"), bounds(dtype), strict=True)) for dtype in DTYPES},
        "shifts": [
            {
                "shift": each.shift,
                "scores": numbers(each.scores),
                "plain": {dtype: _entry(each.plain[dtype]) for dtype in DTYPES},
                "max_subtracted": {dtype: _entry(each.stable[dtype]) for dtype in DTYPES},
            }
            for each in found
        ],
    }


def _entry(one: Tried) -> dict[str, Any]:
    return {
        "exp": numbers(one.exp),
        "total": number(one.total),
        "weights": numbers(one.weights),
        "fault": one.fault,
    }
