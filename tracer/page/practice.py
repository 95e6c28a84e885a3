"""Practice: tasks with hidden answers, closed-book questions with explained answers, and what to judge oneself by.

The structure is annotations/practice.toml; every figure in a text is computed here. Must not know: HTML.
"""

import math
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

from tracer import data
from tracer.arrays import Floats
from tracer.counterexamples.spread import spread
from tracer.maths.attention import Head, Row, head
from tracer.maths.visibility import Visibility
from tracer.page.numbers import WALK_DECIMALS, fixed, significant
from tracer.page.record import Piece, Role, line
from tracer.page.sheet import Both, Choice, Figure, Practice, Question, Skill, Task, alike, both
from tracer.page.tokens import Shown
from tracer.records import LayerTrace
from tracer.result import Trace
from tracer.texts import catalogue


@cache
def _structure() -> Mapping[str, Any]:
    return tomllib.loads((data.annotations() / "practice.toml").read_text(encoding="utf-8"))


def practice(trace: Trace, names: tuple[Shown, ...], where: str) -> Practice:
    """Return what there is to practise, the real numbers from ``trace``."""
    structure = _structure()
    tasks = [_task(entry, where) for entry in structure["tasks"]]
    tasks += _real(trace, names, structure["real"], where)
    figures = _facts(trace)
    asked = [
        _question(entry, figures, where) for entry in structure["questions"] if _makes_sense(entry["id"], trace.layer)
    ]
    skills = tuple(Skill(entry["id"], _say(entry["id"])) for entry in structure["skills"])
    return Practice(tuple(tasks), tuple(asked), skills)


def _say(id: str, **values: object) -> Both:
    return both(f"practice.{id}", **values)


def _all(prefix: str, **values: object) -> tuple[Both, ...]:
    """Return the texts ``<prefix>_1``, ``<prefix>_2``, … as far as there are any."""
    return tuple(_say(id, **values) for id in _numbered(prefix))


def _numbered(prefix: str) -> Iterator[str]:
    number = 1
    while f"practice.{prefix}_{number}" in catalogue():
        yield f"{prefix}_{number}"
        number += 1


# -------------------------------------------------------------------------------------------------------- tasks


def _task(entry: Mapping[str, Any], where: str) -> Task:
    figures = worked(entry)
    id = entry["id"]
    return Task(
        id=id,
        title=_say(f"{id}_title"),
        given=_all(f"{id}_given", **figures),
        figures=(),
        answer=_all(f"{id}_answer", **figures),
        cite=f"{where} · practice {id}",
    )


def worked(entry: Mapping[str, Any]) -> dict[str, str]:
    """Return every figure of a small task, as text: products p, scores s, maximum m, exponentials x (plain) and e
    (shifted) with their sums, weights a, output o and its total."""
    v = np.array(entry["v"])
    if "scores" in entry:
        q, k, scale = np.ones((1, 1)), np.array(entry["scores"])[:, None], 1.0
    else:
        q, k = np.array([entry["q"]]), np.array(entry["k"])
        scale = q.shape[1] ** -0.5
    row = head(q, k, v, scale, Visibility(1, len(k), causal=False)).row(0)
    plain = np.exp(row.scores)
    figures = {"d": str(q.shape[1]), "m": _text(row.row_max), "x": _text(plain.sum()), "e": _text(row.total)}
    figures["total"] = f"{row.output.sum():g}"
    for letter, values in (("s", row.scores), ("x", plain), ("e", row.shifted), ("a", row.weights), ("o", row.output)):
        figures |= {f"{letter}{index}": _text(value) for index, value in enumerate(values)}
    figures |= {f"p{index}": f"{value:g}" for index, value in enumerate(row.dots)}
    figures["q"] = _vector(q[0])
    for letter, rows in (("k", k), ("v", v)):
        figures |= {f"{letter}{index}": _vector(values) for index, values in enumerate(rows)}
    return figures


def _vector(values: Floats) -> str:
    return f"[{', '.join(f'{value:g}' for value in values)}]"


def _text(value: float) -> str:
    return fixed(float(value), WALK_DECIMALS)


# ------------------------------------------------------------------------------------------------ from the head


def _real(trace: Trace, names: tuple[Shown, ...], wanted: Mapping[str, Any], where: str) -> list[Task]:
    reference = trace.reference
    found = [_row(reference, count) for count in wanted["visible"]]
    rows = [row for row in found if row is not None]
    tasks = [_weigh(trace, row, names, int(wanted["components"]), where) for row in rows]
    return [*tasks, *(_scale(reference, row, names, where) for row in rows[-1:])]


def _row(reference: Head, visible: int) -> Row | None:
    """Return the first query that sees exactly ``visible`` keys, all of its numbers finite."""
    first, end = reference.visibility.interval(np.arange(reference.visibility.tq))
    for query in np.flatnonzero(end - first == visible):
        row = reference.row(int(query))
        if (
            row.visible.sum() == visible
            and np.isfinite(row.output).all()
            and np.isfinite(row.scores[row.visible]).all()
        ):
            return row
    return None


def _weigh(trace: Trace, row: Row, names: tuple[Shown, ...], components: int, where: str) -> Task:
    keys = [int(key) for key in np.flatnonzero(row.visible)]
    v = trace.reference.v[:, :components]
    kernel = trace.layer.kernel.output[row.query, trace.head].float64()[: v.shape[1]]
    figures: dict[str, object] = {
        "query": row.query,
        "token": names[row.query].text,
        "count": len(keys),
        "m": _text(row.row_max),
        "total": _text(row.total),
        "terms": "; ".join(_sum(row, v, keys, e) for e in range(v.shape[1])),
        "kernel": f"[{', '.join(_text(value) for value in kernel)}]",
    }
    inputs = tuple(alike(f"V[{e}]") for e in range(v.shape[1]))
    given = Figure(
        f"given-{row.query}",
        _say("real_caption_given"),
        (_say("real_column_key"), alike("S"), *inputs),
        tuple((_key(names[key]), (_text(row.scores[key]), *(_text(value) for value in v[key]))) for key in keys),
    )
    answer = Figure(
        f"answer-{row.query}",
        _say("real_caption_answer"),
        (_say("real_column_key"), alike("S − m"), alike("exp(S − m)"), alike("A")),
        tuple(
            (
                _key(names[key]),
                (_text(row.scores[key] - row.row_max), _text(row.shifted[key]), _text(row.weights[key])),
            )
            for key in keys
        ),
    )
    return Task(
        id=f"real-{row.query}",
        title=_say("real_title", **figures),
        given=_all("real_given", **figures),
        figures=(given, answer),
        answer=_all("real_answer", **figures),
        cite=f"{where} · query {row.query} · practice",
    )


def _sum(row: Row, v: Floats, keys: list[int], e: int) -> str:
    terms = " + ".join(f"{_text(row.weights[key])}·{_bracketed(float(v[key, e]))}" for key in keys)
    return f"O[{e}] = {terms} = {_text(row.output[e])}"


def _bracketed(value: float) -> str:
    text = _text(value)
    return f"({text})" if value < 0 else text


def _key(name: Shown) -> Both:
    text = line(Piece(f"{name.position} ", Role.MUTED), Piece(name.short or name.text, Role.TOKEN))
    return Both(text, text)


def _scale(reference: Head, row: Row, names: tuple[Shown, ...], where: str) -> Task:
    key, d = int(np.argmax(np.where(row.visible, row.scores, -np.inf))), reference.q.shape[1]
    dot, scale = float(row.dots[key]), reference.scale
    figures: dict[str, object] = {
        "query": row.query,
        "query_token": names[row.query].text,
        "key": key,
        "key_token": names[key].text,
        "d": d,
        "dot": _text(dot),
        "scale": _text(scale),
        "score": _text(dot * scale),
        "wrong": _text(dot / d),
        "root": _text(d**0.5),
    }
    return Task(
        id="scale",
        title=_say("scale_title"),
        given=_all("scale_given", **figures),
        figures=(),
        answer=_all("scale_answer", **figures),
        cite=f"{where} · S[{row.query}, {key}] · practice",
    )


# ---------------------------------------------------------------------------------------------------- questions


def _facts(trace: Trace) -> dict[str, object]:
    layer, model, found = trace.layer, trace.layer.model, spread(trace.reference)
    return {
        "hidden": model.hidden_size,
        "heads": model.heads,
        "kv_heads": model.kv_heads,
        "group": model.group,
        "last": model.group - 1,
        "head_dim": model.head_dim,
        "expression": layer.scale.expression,
        "scale": _text(_scale_of(layer)),
        "by_hidden": _text((model.hidden_size / model.heads) ** -0.5),
        "ratio": f"{model.hidden_size / model.heads:g}",
        **({} if found is None else {"measured": significant(found.variance / found.width)}),
    }


def _scale_of(layer: LayerTrace) -> float:
    """Return the scale that the source's expression gave; NaN where it gave none."""
    return math.nan if layer.scale.value is None else float(layer.scale.value)


def _makes_sense(id: str, layer: LayerTrace) -> bool:
    """Whether the wrong answers of a question are wrong for this model."""
    model = layer.model
    if id == "origin":  # nor may the right one be wrong, in a run whose scale fails its check
        usual = model.head_dim**-0.5
        return model.hidden_size != model.heads * model.head_dim and math.isclose(_scale_of(layer), usual)
    return id != "groups" or 1 < model.kv_heads < model.heads


def _why(id: str, figures: Mapping[str, object]) -> Both:
    """Return the text ``<id>_why``; where a figure of it could not be measured, ``<id>_why_untold``."""
    untold = f"{id}_why_untold"
    return _say(untold if f"practice.{untold}" in catalogue() and "measured" not in figures else f"{id}_why", **figures)


def _question(entry: Mapping[str, Any], figures: Mapping[str, object], where: str) -> Question:
    id = entry["id"]
    choices = tuple(
        Choice(_say(f"{id}_{choice}", **figures), choice == entry["right"], _why(f"{id}_{choice}", figures))
        for choice in entry["choices"]
    )
    return Question(id, _say(id, **figures), choices, entry["reopen"], f"{where} · question {id}")
