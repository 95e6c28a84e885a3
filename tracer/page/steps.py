"""The seven steps from hidden state to output: the map of all, and the tensors of the first three.

Must not know: the numbers inside the scores, the kernel's arguments.
"""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from tracer import data
from tracer.maths import stats
from tracer.page import numbers
from tracer.page.excerpts import Pointed, excerpt
from tracer.page.record import Block, Column, Line, Piece, Prose, Role, Row, Section, Table, line
from tracer.page.wording import Words, muted, place, shape
from tracer.records import Capture, LayerTrace, Site

_OUTSIDE_THE_CALL = ("project", "normalise", "rotate")


@dataclass(frozen=True, slots=True)
class Step:
    """One of the seven steps: its number and id, its formula, and the capture that shows where it is written."""

    number: int
    id: str
    formula: str
    capture: str


@cache
def formulas() -> Mapping[str, Mapping[str, str]]:
    """Return annotations/formulas.toml."""
    return tomllib.loads((data.annotations() / "formulas.toml").read_text(encoding="utf-8"))


@cache
def steps() -> tuple[Step, ...]:
    """Return the seven steps in order."""
    return tuple(
        Step(number, id, entry["formula"], entry["capture"]) for number, (id, entry) in enumerate(formulas().items(), 1)
    )


def label(say: Words, id: str, name: str = "") -> str:
    """Return a step's number and name as it stands at a mark: ``1 project``; ``name`` is that of a part of it."""
    number = next(step.number for step in steps() if step.id == id)
    return f"{number} {say(name or f'step_{id}')}"


def overview(say: Words, layer: LayerTrace, kv_head: int, head: int) -> Section:
    """Return the map: each step's formula, the shape it leaves, and where it is written."""
    rows = [
        Row(
            (
                line(Piece(str(step.number), Role.STRONG)),
                line(Piece(say(f"step_{step.id}"), Role.STRONG)),
                line(Piece(_formula(step, layer), Role.FORMULA)),
                muted(_shape(step, layer)),
                _where(say, step, layer),
            )
        )
        for step in steps()
    ]
    columns = (Column(), Column(), Column(), Column(spare=1), Column())
    mapping = say(
        "kv_mapping", head=head, heads=layer.model.heads, kv=kv_head, kv_heads=layer.model.kv_heads,
        group=layer.model.group,
    )  # fmt: skip
    return Section("steps", "", line(say("steps_heading")), (Table(columns, tuple(rows)), Prose(muted(mapping))))


def _formula(step: Step, layer: LayerTrace) -> str:
    return layer.kernel.function.rsplit(".", 1)[-1] if step.id == "call" else step.formula


def _shape(step: Step, layer: LayerTrace) -> str:
    capture = layer.captures.get(step.capture)
    if capture is not None:
        return shape(capture.axes, capture.array.shape)
    rows, keys = layer.captures["q"].array.shape[0], layer.captures["k"].array.shape[0]
    if step.id in _OUTSIDE_THE_CALL:
        return ""
    inner = {
        "scores": (("Tq", "Tk"), (rows, keys)),
        "weights": (("Tq", "Tk"), (rows, keys)),
        "output": (("Tq", "D"), (rows, layer.captures["v"].array.shape[2])),
    }
    return shape(*inner[step.id]) if step.id in inner else shape(("T", "H", "D"), layer.kernel.output.shape)


def site_of(step: Step, layer: LayerTrace) -> Site | None:
    """Return where a step is written, None where it happens inside the kernel's call."""
    if step.id == "call":
        return layer.kernel.site
    capture = layer.captures.get(step.capture)
    return capture.site if capture is not None else None


def _where(say: Words, step: Step, layer: LayerTrace) -> Line:
    site = site_of(step, layer)
    packed = layer.captures.get(_PACKED)
    if step.id == "project" and site is not None and packed is not None:
        return line(place(packed.site), *muted(say("split_at")), place(site, whole=packed.site.path != site.path))
    if site is not None:
        return line(place(site))
    if step.id in _OUTSIDE_THE_CALL:
        return line(Piece(say("left_out", engine=layer.request.engine.value), Role.WARNING))
    return muted(say("inside_the_call"))


# ------------------------------------------------------------------------------------------- steps 1 to 3

_PACKED = "qkv"  # where one product gives Q, K and V, and an expression of its own splits it
_PROJECTED, _NORMED, _ROTATED = ("q_proj", "k_proj", "v_proj"), ("q_norm", "k_norm"), ("q_rope", "k_rope")
_BEFORE = ("hidden", _PACKED, *_PROJECTED, *_NORMED, *_ROTATED, "q", "k", "v")


def projections(say: Words, layer: LayerTrace) -> Section:
    """Return steps 1 to 3: the source with each expression marked, and the tensors it left."""
    made, split = label(say, "project"), label(say, "project", "split")
    marked = [
        (made, _PACKED),
        *((split if _PACKED in layer.captures else made, name) for name in _PROJECTED),
        *((label(say, "normalise"), name) for name in _NORMED),
        *((label(say, "rotate"), name) for name in _ROTATED),
    ]
    by_scope: dict[tuple[str, str], list[Pointed]] = {}
    for text, name in marked:
        if name in layer.captures:
            site = layer.captures[name].site
            by_scope.setdefault((site.path, site.scope), []).append(Pointed(site, text))
    excerpts = [excerpt(pointed) for pointed in by_scope.values()]
    blocks: list[Block] = [Prose(line(say("projections_lead"))), *excerpts, tensors(say, layer, _BEFORE)]
    return Section("projections", "1–3", line(say("projections_heading")), tuple(blocks))


def tensors(say: Words, layer: LayerTrace, names: tuple[str, ...]) -> Table:
    """Return a table of captured tensors: formula, named axes, root mean square, smallest and largest, place."""
    columns = (
        Column(say("column_tensor")),
        Column(say("column_formula"), spare=3),
        Column(say("column_axes")),
        Column(say("column_rms"), numeric=True),
        Column(say("column_range"), spare=1),
        Column(say("column_place"), spare=2),
    )
    captured = [layer.captures[name] for name in names if name in layer.captures]
    return Table(columns, tuple(_tensor(capture) for capture in captured))


def _tensor(capture: Capture) -> Row:
    found = stats.of_array(capture.array)
    # A tensor with a number that is none shows as such: what the finite ones are like would hide it.
    rms, low, high = (math.nan if found.nonfinite or x is None else x for x in (found.rms, found.min, found.max))
    extent = f"{numbers.fixed(low, 2)} … {numbers.fixed(high, 2)}" if found.count else ""
    return Row(
        (
            line(Piece(capture.name, Role.CODE)),
            line(Piece(capture.formula, Role.FORMULA)),
            line(shape(capture.axes, capture.array.shape)),
            line(Piece(numbers.significant(rms), Role.NUMBER)),
            line(Piece(extent, Role.NUMBER)),
            line(place(capture.site)),
        )
    )
