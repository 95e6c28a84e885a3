"""Steps 5 to 7: scores, weights and output of the head as matrices with token labels.

A hidden key is drawn apart from a weight of zero. Must not know: colours, widths.
"""

import numpy as np

from tracer.arrays import Floats
from tracer.maths.attention import Head
from tracer.page import numbers
from tracer.page.record import Beside, Block, Label, Line, Matrix, Piece, Prose, Role, Section, line
from tracer.page.steps import steps
from tracer.page.tokens import Shown
from tracer.page.window import Window
from tracer.page.wording import Words, muted
from tracer.records import Capture
from tracer.texts import Listing

MASKED = Piece("·", Role.MASKED)
_OUTPUT_SHOWN = 6


def inside(say: Words, reference: Head, names: tuple[Shown, ...], window: Window, way: str) -> Section:
    """Return steps 5 and 6: the scores and the weights of a window. ``way``: flash, sdpa or eager."""
    scores, weights = _scores(say, reference, names, window), _weights(say, reference, names, window)
    blocks: list[Block] = [Prose(line(say(f"inside_lead_{way}")))]
    stated = window.stated(say)
    if stated:
        blocks.append(Prose(line(Piece(stated, Role.STRONG))))
    blocks.append(Beside((scores, weights)))
    blocks += _warnings(say, reference)
    return Section("inside", "5–6", line(say("inside_heading")), tuple(blocks))


def _title(id: str, say: Words, note: str) -> Line:
    step = next(step for step in steps() if step.id == id)
    number = Piece(f"{step.number} {say(f'step_{id}')}  ", Role.STRONG)
    return line(number, Piece(step.formula, Role.FORMULA), "  ", *muted(note))


def _scores(say: Words, reference: Head, names: tuple[Shown, ...], window: Window) -> Matrix:
    scores = reference.scores(window.rows, window.keys)
    visible = reference.visibility.rows(window.rows.start, window.rows.stop, window.keys)
    finite = scores[visible & np.isfinite(scores)]
    top = reference.row_max[window.rows, None]
    with np.errstate(invalid="ignore", over="ignore"):
        levels = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    return Matrix(
        _title("scores", say, say("scores_note")),
        _labels(names, window.positions),
        _labels(names, window.keys),
        _cells(scores, levels, visible, numbers.matrix_decimals(finite)),
        muted(say("masked_legend")),
        muted(say("parted_legend")),
    )


def _weights(say: Words, reference: Head, names: tuple[Shown, ...], window: Window) -> Matrix:
    weights = reference.weights(window.rows, window.keys)
    visible = reference.visibility.rows(window.rows.start, window.rows.stop, window.keys)
    cells = _cells(weights, weights, visible, 2)
    columns = _labels(names, window.keys)
    legend = say("zero_legend")
    if window.keys != slice(0, window.tk):  # what the keys outside the window get, so that each row still adds up
        rest = reference.weights(window.rows).sum(axis=1) - weights.sum(axis=1)
        cells = tuple(
            (*row, Piece(numbers.fixed(float(value), 2), Role.NUMBER, level=float(value)))
            for row, value in zip(cells, np.clip(rest, 0, None), strict=True)
        )
        columns = (*columns, Label("", say("elsewhere")))
    return Matrix(
        _title("weights", say, say("weights_note")),
        _labels(names, window.positions),
        columns,
        cells,
        muted(legend),
        muted(say("parted_legend")),
    )


def _labels(names: tuple[Shown, ...], part: slice) -> tuple[Label, ...]:
    return tuple(name.label for name in names[part])


def _cells(values: Floats, levels: Floats, visible: np.ndarray, decimals: int) -> tuple[tuple[Piece, ...], ...]:
    return tuple(
        tuple(
            Piece(numbers.fixed(float(value), decimals), Role.NUMBER, level=_level(level)) if seen else MASKED
            for value, level, seen in zip(row, row_levels, row_seen, strict=True)
        )
        for row, row_levels, row_seen in zip(values, levels, visible, strict=True)
    )


def _level(value: float) -> float | None:
    return float(min(max(value, 0.0), 1.0)) if np.isfinite(value) else None


def _warnings(say: Words, reference: Head) -> list[Block]:
    blocks: list[Block] = []
    if reference.empty_rows:
        rows = Listing(map(str, reference.empty_rows))
        blocks.append(Prose(line(Piece(say("empty_rows", rows=rows), Role.WARNING))))
    for name, count in reference.nonfinite:
        blocks.append(Prose(line(Piece(say("nonfinite", tensor=name, count=count), Role.WARNING))))
    return blocks


# ------------------------------------------------------------------------------------------------------ output


def output(
    say: Words, reference: Head, names: tuple[Shown, ...], window: Window, after: tuple[Capture, ...]
) -> Section:
    """Return step 7: the output rows of the head, and what becomes of them."""
    rows = reference.output[window.rows]
    shown = min(_OUTPUT_SHOWN, rows.shape[1])
    rest = rows[:, shown:]
    decimals = numbers.matrix_decimals(rows)
    cells = []
    for row, others in zip(rows, rest, strict=True):
        pieces = [Piece(numbers.fixed(float(value), decimals), Role.NUMBER) for value in row[:shown]]
        if others.size:
            pieces.append(Piece(numbers.fixed(float(np.sqrt(np.mean(np.square(others)))), decimals), Role.NUMBER))
        cells.append(tuple(pieces))
    columns = [Label("", f"d={index}") for index in range(shown)]
    if rest.shape[1]:
        columns.append(Label("", say("rest_rms", count=rest.shape[1])))
    matrix = Matrix(
        _title("output", say, say("output_note")), _labels(names, window.positions), tuple(columns), tuple(cells)
    )
    blocks: list[Block] = [matrix]
    if after:
        blocks.append(_after(say, after))
    return Section("output", "7", line(say("output_heading")), tuple(blocks))


def _after(say: Words, after: tuple[Capture, ...]) -> Prose:
    from tracer.page.wording import place, shape

    last = after[-1]
    return Prose(
        line(
            say("output_after"),
            " ",
            Piece(last.formula, Role.FORMULA),
            f"  {shape(last.axes, last.array.shape)}  ",
            place(last.site),
        )
    )
