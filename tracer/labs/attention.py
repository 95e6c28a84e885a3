"""``trace lab attention``: one position calculated by hand to the end, with every intermediate number.

Must not know: how numbers are computed, terminals.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tracer.errors import InputError
from tracer.labs.figures import (
    MOST_SHOWN,
    cell,
    computed_factor,
    factor,
    figure,
    formula,
    grid,
    is_cut,
    named,
    short,
    strong,
    vector,
)
from tracer.labs.hand import DRAWN, LESSON, OWN, Solution, Step, problem, solve
from tracer.labs.lesson import Lesson, going_on
from tracer.labs.words import Words, said
from tracer.maths.visibility import Bools
from tracer.page.record import Beside, Block, Column, Line, Piece, Prose, Role, Row, Section, Table, line
from tracer.page.wording import muted
from tracer.render.jsonable import number, numbers
from tracer.texts import Listing, Message

NAME = "attention"
_TERMS = 8  # products written out at most; more are added up
WHOLE_MODEL = "trace qwen3 --head 2 --query 5"
EXERCISE = 'trace lab attention --scores "[0, 0]"'


def solved(
    *,
    q: str | None = None,
    k: str | None = None,
    v: str | None = None,
    scores: str | None = None,
    mask: str | None = None,
    scale: float | None = None,
    temperature: float = 1.0,
    query: int = 0,
    seed: int | None = None,
) -> Solution:
    """Return the problem that the options describe, solved; raises InputError, also for a query that is not there."""
    texts = {"q": q, "k": k, "v": v, "scores": scores, "mask": mask}
    solution = solve(problem(texts, scale=scale, temperature=temperature, seed=seed))
    if query >= len(solution.head.q):
        raise InputError("labs.query_range", query=query, last=len(solution.head.q) - 1)
    return solution


def lesson(*, query: int = 0, **options: Any) -> Lesson:
    """Return the lab; raises InputError."""
    solution = solved(query=query, **options)
    step = solution.step(query)
    return Lesson(
        name=NAME,
        before=said("attention_before"),
        sections=lambda say: _sections(say, solution, step),
        figures=lambda _: _figures(solution),
        after=_after(solution, step),
        question=said("attention_question" if solution.problem.origin == LESSON else "attention_question_own"),
        next=going_on(
            NAME, EXERCISE, "trace lab attention --quiz", "trace lab softmax", "trace qwen3 --head 2 --query 5"
        ),
    )


def _after(solution: Solution, step: Step) -> tuple[Message, ...]:
    if step.empty:
        return (said("attention_empty_after"),)
    total = float(step.row.output.sum())
    if np.count_nonzero(step.row.visible) == 1:
        found = [said("attention_after_single")]
    elif np.isclose(total, 1):
        found = [said("attention_after_one")]
    else:
        found = [said("attention_after_sum", total=figure(total))]
    # Where exp(S) is infinite or all 0 there is no first column to divide, and nothing to compare.
    told = np.isfinite(step.exp).all() and step.exp.any()
    found.append(said("attention_after_max" if told else "attention_after_max_lost", max=figure(step.row.row_max)))
    if solution.problem.temperature != 1:
        found.append(said("attention_after_temperature", temperature=short(solution.problem.temperature)))
    return tuple(found)


# ------------------------------------------------------------------------------------------------------ the page


def _sections(say: Words, solution: Solution, step: Step) -> Sequence[Section]:
    parts = [_given(say, solution), _scores(say, solution, step)]
    if step.empty:
        parts.append(Section("attention_empty", "", line(say("attention_empty_heading")), (_empty(say, step),)))
    else:
        parts += [_weights(say, step), _output(say, solution, step)]
    if len(solution.head.q) > 1:
        parts.append(_whole(say, solution))
    return parts


def _empty(say: Words, step: Step) -> Prose:
    return Prose(line(Piece(say("attention_empty", query=step.row.query), Role.WARNING)))


def _given(say: Words, solution: Solution) -> Section:
    asked = solution.problem
    origin = {LESSON: "origin_lesson", DRAWN: "origin_drawn", OWN: "origin_own"}[asked.origin]
    blocks: list[Block] = [Prose(line(say(origin)))]
    if asked.mask is not None:
        blocks.append(Prose(line(say("mask_given"))))
    keys = [named("k", j) for j in range(len(asked.v))]
    matrices = []
    if asked.scores is not None:
        rows = [named("s", i) for i in range(len(asked.scores))]
        matrices.append(grid(formula("S", say("given_scores")), rows, keys, asked.scores, write=short))
    elif asked.q is not None and asked.k is not None:
        parts = [f"[{d}]" for d in range(asked.q.shape[1])]
        queries = [named("q", i) for i in range(len(asked.q))]
        matrices.append(grid(formula("Q", "[Tq, D]"), queries, parts, asked.q, write=short))
        matrices.append(grid(formula("K", "[Tk, D]"), keys, parts, asked.k, write=short))
    parts = [f"[{e}]" for e in range(asked.v.shape[1])]
    values = [named("v", j) for j in range(len(asked.v))]
    matrices.append(grid(formula("V", "[Tk, Dv]"), values, parts, asked.v, write=short))
    blocks.append(Beside(tuple(matrices)))
    if is_cut(*(x for x in (asked.q, asked.k, asked.v, asked.scores) if x is not None)):
        blocks.append(Prose(strong(say("cut", most=MOST_SHOWN))))
    return Section("attention_given", "", line(say("heading_given")), tuple(blocks))


def _scores(say: Words, solution: Solution, step: Step) -> Section:
    asked, row = solution.problem, step.row
    scale = say("scale_is", scale=figure(asked.scale), width=solution.head.q.shape[1])
    if asked.scores is not None:
        scale = ""
    elif not np.isclose(asked.scale, solution.head.q.shape[1] ** -0.5, rtol=1e-9):
        scale = say("scale_own", scale=short(asked.scale), usual=figure(solution.head.q.shape[1] ** -0.5))
    if asked.temperature != 1:
        scale += say("temperature_is", temperature=short(asked.temperature))
    rows = tuple(
        Row(
            (
                strong(named("k", j)),
                line(Piece(_products(say, solution, row.query, j), Role.NUMBER)),
                cell(float(row.dots[j])),
                cell(float(row.scores[j])) if row.visible[j] else _hidden(say),
            )
        )
        for j in range(len(row.dots))
    )
    columns = (
        Column("key", names=True),
        Column("" if asked.scores is not None else say("column_products")),
        Column("S₀" if asked.scores is not None else "q·k", numeric=True),
        Column("S", numeric=True),
    )
    lead = say("step_scores_given" if asked.scores is not None else "step_scores", query=row.query)
    prose: list[Block] = [Prose(line(text.strip())) for text in (lead, scale) if text]
    blocks = (*prose, Table(columns, rows))
    return Section("attention_scores", "1", line(say("heading_scores")), blocks)


def _hidden(say: Words) -> Line:
    return line(Piece(say("hidden"), Role.MASKED))


def _products(say: Words, solution: Solution, query: int, key: int) -> str:
    """Return the products that add up to q·k, the first ones written out."""
    if solution.problem.q is None or solution.problem.k is None:
        return ""
    q, k = solution.problem.q[query], solution.problem.k[key]
    terms = [f"{factor(float(a))}×{factor(float(b))}" for a, b in zip(q[:_TERMS], k[:_TERMS], strict=True)]
    if len(q) > _TERMS:
        rest = float(q[_TERMS:] @ k[_TERMS:])
        terms.append(say("others", count=len(q) - _TERMS, sum=computed_factor(rest)))
    return " + ".join(terms)


def _weights(say: Words, step: Step) -> Section:
    row = step.row
    rows = [
        Row(
            (
                strong(named("k", j)),
                cell(float(row.scores[j])),
                cell(float(step.exp[j])),
                cell(float(row.scores[j] - row.row_max)),
                cell(float(row.shifted[j])),
                cell(float(row.weights[j]), float(row.weights[j])),
            )
        )
        for j in map(int, np.flatnonzero(row.visible))
    ]
    total = float(step.exp.sum())
    rows.append(Row((strong(say("total")), (), cell(total), (), cell(row.total), cell(float(row.weights.sum())))))
    columns = (
        Column("key", names=True),
        Column("S", numeric=True),
        Column("exp(S)", numeric=True),
        Column("S − m", numeric=True),
        Column("exp(S − m)", numeric=True),
        Column("A", numeric=True),
    )
    blocks: list[Block] = [Prose(line(say("step_weights", max=figure(row.row_max)))), Table(columns, tuple(rows))]
    if not np.isfinite(total):
        blocks.append(Prose(line(Piece(say("exp_overflows"), Role.WARNING))))
    elif total == 0:
        blocks.append(Prose(line(Piece(say("exp_vanishes"), Role.WARNING))))
    blocks += [Prose(line(_as_lists(row.scores, step))), Prose(muted(say("step_weights_note")))]
    return Section("attention_weights", "2", line(say("heading_weights")), tuple(blocks))


def _as_lists(scores: Any, step: Step) -> Piece:
    """Return the way from scores to weights as lists, as one writes it on paper."""
    seen = step.row.visible
    lists = (vector(part[seen]) for part in (scores, step.exp, step.row.weights))
    return Piece(
        "  →  ".join(f"{name} {text}" for name, text in zip(("S", "exp", "A"), lists, strict=True)), Role.STRONG
    )


def _output(say: Words, solution: Solution, step: Step) -> Section:
    row, v = step.row, solution.problem.v
    keys = [int(j) for j in np.flatnonzero(row.visible)]
    shown = min(v.shape[1], _TERMS)
    rows = [
        Row(
            (
                strong(named("k", j)),
                cell(float(row.weights[j]), float(row.weights[j])),
                line(Piece(vector(v[j][:shown], short), Role.NUMBER)),
                line(Piece(vector(row.weights[j] * v[j][:shown]), Role.NUMBER)),
            )
        )
        for j in keys
    ]
    rows.append(Row((strong("O"), (), (), line(Piece(vector(row.output[:shown]), Role.STRONG)))))
    columns = (Column("key", names=True), Column("A", numeric=True), Column("v"), Column("A·v"))
    lead = say("step_output")
    if shown < v.shape[1]:
        lead += say("step_output_shown", shown=shown, width=v.shape[1])
    terms = [f"{figure(float(row.weights[j]))}×{factor(float(v[j][0]))}" for j in keys[:_TERMS]]
    if len(keys) > _TERMS:
        rest = float(row.weights[keys[_TERMS:]] @ v[keys[_TERMS:], 0])
        terms.append(say("others", count=len(keys) - _TERMS, sum=computed_factor(rest)))
    spelled = f"O[0] = {' + '.join(terms)} = {figure(float(row.output[0]))}"
    blocks = (Prose(line(lead)), Table(columns, tuple(rows)), Prose(line(Piece(spelled, Role.NUMBER))))
    return Section("attention_output", "3", line(say("heading_output")), blocks)


def _whole(say: Words, solution: Solution) -> Section:
    """Return all queries at once: who sees what, scores, weights and output as matrices."""
    head = solution.head
    every = slice(0, len(head.q))
    visible: Bools = head.visibility.rows(0, len(head.q))
    queries = [named("q", i) for i in range(len(head.q))]
    keys = [named("k", j) for j in range(len(head.v))]
    seen = visible.astype(np.float64)
    parts = [f"[{e}]" for e in range(head.v.shape[1])]
    filled = np.broadcast_to(visible.any(axis=1, keepdims=True), head.output.shape)
    weights = head.weights(every)
    blocks: list[Block] = [
        Prose(line(say("step_whole"))),
        grid(formula(say("visible_title"), say("visible_note")), queries, keys, seen, write=short),
        grid(formula("S", "[Tq, Tk]"), queries, keys, head.scores(every), visible=visible),
        grid(formula("A", say("rows_sum")), queries, keys, weights, levels=weights, visible=visible),
        grid(formula("O = A·V", "[Tq, Dv]"), queries, parts, head.output, visible=filled, legend=muted(say("legend"))),
    ]
    if is_cut(weights, head.output):
        blocks.insert(1, Prose(strong(say("cut", most=MOST_SHOWN))))
    if head.empty_rows:
        rows = Listing(map(str, head.empty_rows))
        blocks.append(Prose(line(Piece(say("empty_rows", rows=rows), Role.WARNING))))
    return Section("attention_whole", "", line(say("heading_whole")), tuple(blocks))


# ------------------------------------------------------------------------------------------------------ JSON


def _figures(solution: Solution) -> Mapping[str, Any]:
    asked = solution.problem
    return {
        "given": {
            "origin": asked.origin,
            "q": None if asked.q is None else numbers(asked.q),
            "k": None if asked.k is None else numbers(asked.k),
            "v": numbers(asked.v),
            "scores": None if asked.scores is None else numbers(asked.scores),
            "scale": None if asked.scores is not None else asked.scale,
            "temperature": asked.temperature,
        },
        "visible": solution.head.visibility.rows(0, len(solution.head.q)).tolist(),
        "queries": [step_figures(solution.step(query)) for query in range(len(solution.head.q))],
        "empty_rows": list(solution.head.empty_rows),
    }


def step_figures(step: Step) -> dict[str, Any]:
    """Return one query as JSON: hidden scores are null; a row without any key has neither weights nor output."""
    row = step.row
    return {
        "query": row.query,
        "empty": step.empty,
        "dots": numbers(row.dots),
        "scores": numbers(row.scores),
        "exp": numbers(step.exp),
        "row_max": number(row.row_max),
        "shifted_exp": numbers(row.shifted),
        "total": number(row.total),
        "lse": number(row.lse),
        "weights": None if step.empty else numbers(row.weights),
        "output": None if step.empty else numbers(row.output),
    }
