"""``trace lab scale``: the figures of tracer.labs.scale as a lesson, random and real heads side by side.

Must not know: how they are computed, terminals.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from tracer.errors import InputError
from tracer.labs import real, scale
from tracer.labs.figures import bar, cell, figure
from tracer.labs.lesson import Lesson, going_on
from tracer.labs.words import Words, said
from tracer.page.numbers import significant
from tracer.page.record import Block, Column, Line, Piece, Prose, Role, Row, Section, Table, line
from tracer.page.wording import muted
from tracer.render.jsonable import number
from tracer.texts import Message

NAME = "scale"
DIMENSIONS = (1, 4, 16, 64, 128, 256, 1024)
SAMPLES = 10_000
_EXAMPLE = "trace lab scale --run --layer 1"


def lesson(
    *,
    dims: tuple[int, ...] = DIMENSIONS,
    samples: int = SAMPLES,
    trace: Path | None = None,
    run: bool = False,
    checkpoint: str | None = None,
    revision: str | None = None,
    layer: int | None = None,
    head: int | None = None,
    prompt: str | None = None,
    seed: int = 0,
) -> Lesson:
    """Return the lab; real heads come from the saved ``trace``, or with ``run`` from a model. Raises InputError."""
    scale.check(dims, samples)
    _check_source(trace, run, checkpoint=checkpoint, revision=revision, layer=layer, head=head, prompt=prompt)
    heads = None
    if trace is not None:
        heads = real.from_file(trace, head)
    elif run:
        heads = real.from_run(checkpoint, revision, layer or 0, head, prompt)
    found = [scale.spread(d, samples, seed) for d in sorted(set(dims))]
    measured = [scale.real(each, one) for each, one in heads.heads] if heads is not None else []
    return Lesson(
        name=NAME,
        before=said("scale_before"),
        sections=lambda say: _sections(say, found, heads, measured),
        figures=lambda _: _figures(found, heads, measured, seed),
        after=_after(found, measured),
        question=said("scale_question"),
        next=going_on(
            NAME, _EXAMPLE, "trace lab attention --temperature 0.25", "trace lab softmax", "trace qwen3 --head 2"
        ),
    )


def _check_source(trace: Path | None, run: bool, **given: object) -> None:
    if trace is not None and run:
        raise InputError("labs.scale_two_sources")
    of_a_run = [f"--{name}" for name, value in given.items() if value is not None and name != "head"]
    if of_a_run and not run:
        raise InputError("labs.scale_needs_run", options=", ".join(of_a_run))
    if given["head"] is not None and trace is None and not run:
        raise InputError("labs.scale_needs_heads")
    if given["revision"] is not None and given["checkpoint"] is None:
        raise InputError("cli.revision_alone")


def _after(found: Sequence[scale.Spread], measured: Sequence[scale.RealHead]) -> tuple[Message, ...]:
    last = found[-1]
    texts = [
        said("scale_after_random", d=last.d, variance=significant(last.variance), scaled=figure(last.scaled_variance)),
        said(
            "scale_after_sharp", d=last.d, without=_percent(last.largest_unscaled), with_=_percent(last.largest_scaled)
        ),
    ]
    if not measured:
        return (*texts, said("scale_after_motive"))
    ratios = [each.variance / each.d for each in measured]
    if len(ratios) == 1:
        texts.append(said("scale_after_real_one", ratio=significant(ratios[0])))
    else:
        texts.append(said("scale_after_real", low=significant(min(ratios)), high=significant(max(ratios))))
    return (*texts, said("scale_after_motive_real"))


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%"


# ------------------------------------------------------------------------------------------------------ the page


def _sections(
    say: Words, found: Sequence[scale.Spread], heads: real.Heads | None, measured: Sequence[scale.RealHead]
) -> list[Section]:
    sections = [_variance(say, found), _entropy(say, found)]
    if heads is not None:
        sections.append(_real(say, heads, measured))
    return sections


def _variance(say: Words, found: Sequence[scale.Spread]) -> Section:
    """Return variance against d: on a logarithmic scale the bars grow by the same step for every factor."""
    top = max(np.log2(max(each.variance, 2.0)) for each in found)
    rows = tuple(
        Row(
            (
                _count(each.d),
                line(Piece(significant(each.variance), Role.NUMBER)),
                bar(float(np.log2(max(each.variance, 1.0)) / top), 24),
                cell(each.scaled_variance),
            )
        )
        for each in found
    )
    columns = (
        Column("d", numeric=True, names=True),
        Column("Var(q·k)", numeric=True),
        Column(say("column_log"), spare=1),
        Column("Var(q·k/√d)", numeric=True),
    )
    blocks: tuple[Block, ...] = (
        Prose(line(say("scale_variance", samples=found[0].samples))),
        Table(columns, rows),
        Prose(muted(say("scale_error", error=f"{significant(100 * (2 / found[0].samples) ** 0.5, 2)}%"))),
    )
    return Section("scale_variance", "1", line(say("scale_variance_heading")), blocks)


def _count(value: int) -> Line:
    return line(Piece(str(value), Role.STRONG))


def _entropy(say: Words, found: Sequence[scale.Spread]) -> Section:
    rows = tuple(
        Row(
            (
                _count(each.d),
                cell(each.entropy_unscaled),
                bar(each.entropy_unscaled, 12),
                cell(each.entropy_scaled),
                bar(each.entropy_scaled, 12),
                cell(each.entropy_by_d),
            )
        )
        for each in found
    )
    columns = (
        Column("d", numeric=True, names=True),
        Column(say("column_unscaled"), numeric=True),
        Column(" ", spare=2),
        Column("1/√d", numeric=True),
        Column(" ", spare=1),
        Column("1/d", numeric=True),
    )
    blocks: tuple[Block, ...] = (Prose(line(say("scale_entropy", keys=scale.KEYS))), Table(columns, rows))
    return Section("scale_entropy", "2", line(say("scale_entropy_heading")), blocks)


def _real(say: Words, heads: real.Heads, measured: Sequence[scale.RealHead]) -> Section:
    rows = tuple(
        Row(
            (
                _count(each.head),
                line(Piece(significant(each.variance), Role.NUMBER)),
                line(Piece(significant(each.independent), Role.NUMBER)),
                line(Piece(significant(each.scaled_variance), Role.NUMBER)),
                cell(each.entropy_unscaled),
                cell(each.entropy_scaled),
                bar(each.entropy_scaled, 12),
                cell(each.entropy_by_d),
            )
        )
        for each in measured
    )
    columns = (
        Column(say("column_head"), numeric=True, names=True),
        Column("Var(q·k)", numeric=True),
        Column(say("column_independent"), numeric=True),
        Column(say("column_scaled"), numeric=True),
        Column(say("column_h_unscaled"), numeric=True),
        Column("H, 1/√d", numeric=True),
        Column(" ", spare=1),
        Column("H, 1/d", numeric=True),
    )
    lead = say(
        "scale_real", origin=heads.origin, checkpoint=heads.checkpoint, layer=heads.layer, tokens=heads.tokens,
        d=measured[0].d,
    )  # fmt: skip
    blocks: list[Block] = [Prose(line(lead)), Table(columns, rows), Prose(muted(say("scale_real_legend")))]
    if heads.tokens < heads.of:
        blocks.insert(1, Prose(line(Piece(say("real_window", tokens=heads.tokens, of=heads.of), Role.STRONG))))
    return Section("scale_real", "3", line(say("scale_real_heading")), tuple(blocks))


# ------------------------------------------------------------------------------------------------------ JSON


def _figures(
    found: Sequence[scale.Spread],
    heads: real.Heads | None,
    measured: Sequence[scale.RealHead],
    seed: int,
) -> Mapping[str, Any]:
    figures: dict[str, Any] = {"seed": seed, "keys": scale.KEYS, "random": [_entry(each) for each in found]}
    if heads is None:
        return {**figures, "real": None}
    facts = {"checkpoint": heads.checkpoint, "layer": heads.layer, "tokens": heads.tokens, "of_tokens": heads.of}
    return {**figures, "real": {**facts, "heads": [_entry(each) for each in measured]}}


def _entry(record: scale.Spread | scale.RealHead) -> dict[str, Any]:
    return {name: number(value) if isinstance(value, float) else value for name, value in asdict(record).items()}
