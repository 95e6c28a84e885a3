"""The real source beside its numbers: excerpts in which every captured expression leads to a card, and the cards.

Must not know: HTML, colours.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tracer.arrays import Array, Floats
from tracer.maths import stats
from tracer.order import in_order
from tracer.page import numbers
from tracer.page.excerpts import Pointed, excerpt
from tracer.page.grids import token_name
from tracer.page.record import Piece, Role, line
from tracer.page.sheet import Both, Card, ListedLine, Listing, Source, alike, both, one_line
from tracer.page.tokens import Shown
from tracer.page.visible import visible
from tracer.page.wording import place, shape
from tracer.records import LayerTrace, Site
from tracer.result import Trace

_ROWS, _COLUMNS = 5, 6
_HEADS = ("H", "K")
_ANGLES = ("cos", "sin")


@dataclass(frozen=True, eq=False)
class Produced:
    """What one expression produced."""

    name: str
    formula: str
    axes: tuple[str, ...]
    array: Array
    site: Site


def source(trace: Trace, names: tuple[Shown, ...], first: int, where: str) -> Source:
    """Return the excerpts and cards of a trace; slices begin at token ``first``."""
    produced = everything(trace.layer)
    cards = tuple(_card(trace, each, names, first, where) for each in produced)
    return Source(listings(pointed(trace.layer)), cards)


def everything(layer: LayerTrace) -> list[Produced]:
    """Return all that was captured, and what the kernel returned, in the order of the steps."""
    found = {name: Produced(name, one.formula, one.axes, one.array, one.site) for name, one in layer.captures.items()}
    kernel = layer.kernel
    found["output"] = Produced("output", "O = A·V", ("T", "H", "D"), kernel.output, kernel.site)
    if kernel.lse is not None:
        found["lse"] = Produced("lse", "lse = m + ln Σ exp(S − m)", ("H", "T"), kernel.lse, kernel.site)
    ordered = in_order(found)
    angles = [name for name in ordered if name in _ANGLES]  # made before the layer, met where they turn Q
    others = [name for name in ordered if name not in _ANGLES]
    place = others.index("q_rope") if "q_rope" in others else 0
    return [found[name] for name in (*others[:place], *angles, *others[place:])]


def card_id(name: str) -> str:
    """Return the id of the card of what ``name`` names."""
    return f"c-{name}"


def stop_id(path: str, index: int) -> str:
    """Return the id of a stop on a value's path."""
    return f"p-{path}-{index}"


# ------------------------------------------------------------------------------------------------------ excerpts


def pointed(layer: LayerTrace) -> list[tuple[Site, str, str]]:
    """Return every place that can be clicked: site, id of what it leads to, and its name."""
    found = [(each.site, card_id(each.name), each.name) for each in everything(layer)]
    for id, path in (("scale", layer.scale), ("causal", layer.causal)):
        found += [(hop.site, stop_id(id, index), id) for index, hop in enumerate(path.hops)]
    return found


def listings(places: list[tuple[Site, str, str]]) -> tuple[Listing, ...]:
    """Return an excerpt for each function, in the order in which they are first met."""
    by_scope: dict[tuple[str, str, str], list[tuple[Site, str, str]]] = {}
    for each in places:
        by_scope.setdefault((each[0].path, each[0].sha256, each[0].scope), []).append(each)
    return tuple(_listing(group) for group in by_scope.values())


def _listing(group: list[tuple[Site, str, str]]) -> Listing:
    made = excerpt([Pointed(site, card) for site, card, _ in group])
    cut = _indent(group, {row.number: row.marks for row in made.lines})
    lines = tuple(
        ListedLine(row.number, _inert(row.text), _marks(row.number, row.text, group, cut), _begins(row.number, group))
        for row in made.lines
    )
    return Listing(made.place, lines)


def _inert(code: str) -> str:
    """Return a line with a mark in place of each letter that acts, so that columns stay what they are."""
    return code if code.isprintable() else "".join(letter if visible(letter) == letter else "\ufffd" for letter in code)


def _indent(group: list[tuple[Site, str, str]], marks: Mapping[int, tuple[object, ...]]) -> int:
    """Return how many columns of common indentation the excerpt has lost."""
    for site, card, _ in group:
        for mark in marks.get(site.span.line, ()):
            if getattr(mark, "label", None) == card:
                return int(site.span.column - getattr(mark, "start", 0))
    return 0


def _marks(number: int, text: str, group: list[tuple[Site, str, str]], cut: int) -> tuple[tuple[int, int, str], ...]:
    found = []
    for site, card, _ in group:
        span = site.span
        if number and span.line <= number <= span.end_line:
            start = span.column - cut if number == span.line else len(text) - len(text.lstrip())
            end = span.end_column - cut if number == span.end_line else len(text)
            found.append((start, end, card))
    by_span = {(start, end): card for start, end, card in reversed(found)}  # the first to name a span has it
    return tuple((*span, card) for span, card in sorted(by_span.items(), key=lambda item: (item[0][0], -item[0][1])))


def _begins(number: int, group: list[tuple[Site, str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple((card, name) for site, card, name in group if site.span.line == number)


# --------------------------------------------------------------------------------------------------------- cards


def _card(trace: Trace, each: Produced, names: tuple[Shown, ...], first: int, where: str) -> Card:
    figures = stats.of_array(each.array)
    facts = [(both("card_shape"), alike(Piece(shape(each.axes, each.array.shape), Role.NUMBER)))]
    facts.append((both("card_dtype"), alike(Piece(each.array.dtype, Role.NUMBER))))
    for name in ("min", "max", "mean", "std", "rms"):
        value = getattr(figures, name)
        if value is not None:
            facts.append((both(f"card_{name}"), alike(Piece(numbers.significant(value, 4), Role.NUMBER))))
    if figures.nonfinite:
        facts.append((both("card_nonfinite"), alike(Piece(str(figures.nonfinite), Role.WARNING))))
    part, title = _slice(trace, each)
    if part is not None:
        part = part[first : first + _ROWS, :_COLUMNS]
    return Card(
        id=card_id(each.name),
        name=one_line(each.name),
        formula=one_line(each.formula),
        place=line(place(each.site)),
        facts=tuple(facts),
        slice_title=title if part is not None else None,
        rows=tuple(token_name(name) for name in names[first : first + _ROWS]) if part is not None else (),
        columns=tuple(f"{index}" for index in range(part.shape[1])) if part is not None else (),
        cells=_cells(part) if part is not None else (),
        cite=one_line(f"{where} · {each.name} · {each.site.place} · {each.site.code}"),
    )


def _cells(part: Floats) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(numbers.fixed(float(value), numbers.WALK_DECIMALS) for value in row) for row in part)


def _slice(trace: Trace, each: Produced) -> tuple[Floats | None, Both | None]:
    """Return what belongs to the asked head, [tokens, features], and how it is told; None where axes are unknown."""
    model = trace.layer.model
    kv = model.kv_head(trace.head)
    values, axes = each.array.float64(), list(each.axes)
    title = both("slice_whole")
    for index in range(len(axes) - 1, -1, -1):
        axis = axes[index]
        if axis == "B":
            values = values.take([0], axis=index).squeeze(index)
        elif axis in _HEADS:
            title = both("slice_head", head=trace.head) if axis == "H" else both("slice_kv", head=kv)
            values = values.take([trace.head if axis == "H" else kv], axis=index).squeeze(index)
        elif axis in ("H·D", "K·D"):
            number = trace.head if axis == "H·D" else kv
            title = both("slice_head", head=number) if axis == "H·D" else both("slice_kv", head=number)
            columns = np.arange(number * model.head_dim, (number + 1) * model.head_dim)
            values = values.take(columns, axis=index)
            axes[index] = "D"
            continue
        else:
            continue
        del axes[index]
    if len(axes) == 1 and axes[0] in ("T", "Tq"):
        values, axes = values[:, None], [*axes, ""]
    return (values, title) if len(axes) == 2 and axes[0] in ("T", "Tq") else (None, None)
