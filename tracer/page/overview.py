"""All heads of a layer, or of several, side by side: what each attends to, and which are worth opening.

Must not know: how the figures are measured, layout.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracer.checks.reference import reference
from tracer.maths.patterns import Pattern, pattern
from tracer.names import MODEL
from tracer.page import checks, header
from tracer.page.numbers import fixed
from tracer.page.record import (
    Block,
    Column,
    Facts,
    Line,
    Page,
    Picture,
    Pictures,
    Piece,
    Prose,
    Role,
    Row,
    Section,
    Table,
    line,
)
from tracer.page.wording import Words, muted
from tracer.records import LayerTrace
from tracer.result import Trace
from tracer.texts import Listing, Message

_WORTH = 0.5  # a head that puts this much of its weight on one kind of place is named for it
_PICTURES, _OTHERS = 4, 3
_KINDS = ("after_earlier", "previous", "own", "first")


@dataclass(frozen=True, eq=False)
class Measured:
    """One head of one layer and its figures."""

    layer: int
    head: int
    kv_head: int
    pattern: Pattern
    window: int | None  # how many keys a query sees at most


def measure(layers: Sequence[LayerTrace], traces: Sequence[Trace] = ()) -> tuple[Measured, ...]:
    """Return the figures of every head of every layer. ``traces``: heads of these very layers, already recomputed."""
    given = {(id(trace.layer), trace.head): trace.reference for trace in traces}
    return tuple(
        Measured(
            layer.request.layer,
            head,
            layer.model.kv_head(head),
            pattern(given.get((id(layer), head)) or reference(layer, head), layer.request.token_ids),
            layer.model.window,
        )
        for layer in layers
        for head in range(layer.model.heads)
    )


def overview_page(
    layers: Sequence[LayerTrace],
    language: str,
    traces: Sequence[Trace] = (),
    measured: tuple[Measured, ...] | None = None,
) -> Page:
    """Return the page of all heads of ``layers`` (at least one, all of one prompt) in ``language``.

    ``traces`` are heads of these layers whose checks were made: how they ended is said, and each that failed is shown.
    ``measured`` are the heads' figures where they are known already.
    """
    say = Words(language)
    found = measure(layers, traces) if measured is None else measured
    first = layers[0]
    numbers = [layer.request.layer for layer in layers]
    title = (
        say("title_overview", model=MODEL, layer=numbers[0], heads=first.model.heads)
        if len(layers) == 1
        else say("title_layers", model=MODEL, first=numbers[0], last=numbers[-1], heads=len(found))
    )
    worth = _worth(found)
    checked = [
        (say("layer_head", layer=trace.layer.request.layer, head=trace.head), check)
        for trace in traces
        for check in trace.checks
    ]
    sections = [
        checks.failures(say, checked),
        header.ran(say, first, layers),
        _named(say, worth),
        _heads(say, found, len(layers) > 1),
        _pictures(say, tuple(each.measured for each in worth) or found[:1]),
        checks.warnings(say, _warnings(layers)),
        _next(say, worth, found),
    ]
    return Page(
        "overview",
        language,
        line(Piece(title, Role.STRONG)),
        header.verdict(say, tuple(check for _, check in checked)) + header.warned(say, len(_warnings(layers))),
        tuple(section for section in sections if section is not None),
    )


def _warnings(layers: Sequence[LayerTrace]) -> tuple[Message, ...]:
    """Return what the runs of all layers warned of, each warning once."""
    found: list[Message] = []
    for layer in layers:
        found += [warning for warning in layer.warnings if warning not in found]
    return tuple(found)


# ---------------------------------------------------------------------------------------------- worth opening


@dataclass(frozen=True, eq=False)
class _Worth:
    """A head worth opening: for what, how much of its weight that gets, and the next strongest of its kind."""

    measured: Measured
    kind: str
    share: float
    others: tuple[Measured, ...] = ()


def _worth(found: tuple[Measured, ...]) -> tuple[_Worth, ...]:
    """Return the strongest head of each kind, or where none is strong the one with the least entropy. Heads with rows
    that are no numbers have no figures to be chosen by."""
    found = tuple(each for each in found if each.pattern.defined)
    named: list[_Worth] = []
    for kind in _KINDS:
        best = max(found, key=lambda each: _share(each, kind), default=None)
        if best is None:
            break
        share = _share(best, kind)
        if share >= _WORTH and all(other.measured is not best for other in named):
            others = sorted((each for each in found if each is not best), key=lambda each: -_share(each, kind))
            strong = tuple(each for each in others if _share(each, kind) >= _WORTH)
            named.append(_Worth(best, kind, share, strong[:_OTHERS]))
    if not named and any(each.pattern.rows for each in found):
        sharpest = min(found, key=lambda each: each.pattern.relative)
        named.append(_Worth(sharpest, "sharpest", sharpest.pattern.relative))
    return tuple(named[:_PICTURES])


def _share(each: Measured, kind: str) -> float:
    value = getattr(each.pattern, kind)
    return float(value) if value is not None else 0.0


def _named(say: Words, worth: tuple[_Worth, ...]) -> Section | None:
    if not worth:
        return None
    rows = tuple((line(Piece(_name(say, each.measured), Role.STRONG)), _why(say, each)) for each in worth)
    return Section("worth", "", line(say("worth_heading")), (Facts(rows),))


def _why(say: Words, each: _Worth) -> Line:
    reason = say(f"worth_{each.kind}", share=fixed(each.share, 2), repeats=each.measured.pattern.repeats)
    if not each.others:
        return line(reason)
    names = Listing(_name(say, other) for other in each.others)
    return line(reason, *muted(say("worth_also", heads=names)))


def _name(say: Words, each: Measured) -> str:
    return say("layer_head", layer=each.layer, head=each.head)


# ------------------------------------------------------------------------------------------------- all heads


def _heads(say: Words, found: tuple[Measured, ...], several: bool) -> Section:
    columns = (
        *((Column(say("column_layer"), numeric=True, names=True),) if several else ()),
        Column(say("column_head"), numeric=True, names=True),
        Column(say("column_kv"), numeric=True, spare=1),
        Column(say("column_entropy"), numeric=True),
        Column(say("column_previous"), numeric=True),
        Column(say("column_own"), numeric=True),
        Column(say("column_first"), numeric=True),
        Column(say("column_after_earlier"), numeric=True),
        Column(say("column_distances")),
    )
    rows = tuple(_row(each, several) for each in found)
    back = len(found[0].pattern.distances) - 1
    legend = say("overview_legend", back=back)
    if not all(each.pattern.defined for each in found):
        legend += " " + say("overview_undefined")
    blocks: tuple[Block, ...] = (Table(columns, rows), Prose(muted(legend)))
    return Section("heads", "", line(say("heads_heading")), blocks)


def _row(each: Measured, several: bool) -> Row:
    figures = each.pattern
    judged = figures.rows > 0  # else no row had a choice, and a mean of nothing is no number
    return Row(
        (
            *((muted(str(each.layer)),) if several else ()),
            line(Piece(str(each.head), Role.STRONG)),
            muted(str(each.kv_head)),
            line(Piece(fixed(figures.entropy, 2), Role.NUMBER)) if judged else muted("–"),
            _weight(figures.previous if judged else None),
            _weight(figures.own if judged else None),
            _weight(figures.first if judged else None),
            _weight(figures.after_earlier),
            line(Piece("", Role.TOKEN, spark=tuple(np.clip(figures.distances, 0, 1).tolist())))
            if judged
            else muted("–"),
        )
    )


def _weight(value: float | None) -> Line:
    if value is None:
        return muted("–")
    return line(Piece(fixed(value, 2), Role.NUMBER, level=value))


def _pictures(say: Words, drawn: tuple[Measured, ...]) -> Section | None:
    """Return the pictures of the heads worth opening; of the first one where no head has figures to be chosen by."""
    first = drawn[0].pattern
    if not first.rows:
        return None
    legend = say("pictures_legend")
    if first.queries < first.tokens:
        name = "pictures_cached_one" if first.queries == 1 else "pictures_cached"
        legend += " " + say(name, first=first.tokens - first.queries, last=first.tokens - 1)
    rows, places = first.picture.shape
    if first.tokens > places:
        shown = {"queries": first.queries, "tokens": first.tokens, "rows": rows, "places": places}
        name = "pictures_pooled" if first.queries == first.tokens else "pictures_pooled_cached"
        legend += " " + say("pictures_pooled_one" if first.queries == 1 else name, **shown)
    items = tuple(Picture(line(Piece(_name(say, each), Role.STRONG)), _drawn(each)) for each in drawn)
    if any(value is not None and value < 0 for item in items for row in item.values for value in row):
        legend += " " + say("pictures_nan")
    return Section("pictures", "", line(say("pictures_heading")), (Pictures(items, muted(legend)),))


def _drawn(each: Measured) -> tuple[tuple[float | None, ...], ...]:
    """Return the picture of a head: None where no key is visible, −1 where what is visible is NaN."""
    picture = each.pattern.picture
    seen = _seen(each.pattern, each.window)
    return tuple(
        tuple(
            (-1.0 if may else None) if np.isnan(value) else float(value) for value, may in zip(row, whole, strict=True)
        )
        for row, whole in zip(picture, seen, strict=True)
    )


def _seen(figures: Pattern, window: int | None) -> NDArray[np.bool_]:
    """Return for each entry of the picture whether any of its queries may see any of its keys."""
    rows, places = figures.picture.shape
    row_of = np.arange(figures.queries) * rows // figures.queries
    place_of = np.arange(figures.tokens) * places // figures.tokens
    ends = np.append(np.searchsorted(row_of, np.arange(1, rows)), figures.queries)
    begins = np.searchsorted(row_of, np.arange(rows))
    cached = figures.tokens - figures.queries
    first = np.zeros(rows, dtype=np.int64) if window is None else np.maximum(begins + cached - window + 1, 0)
    last = ends - 1 + cached
    column = np.arange(places)[None, :]
    seen: NDArray[np.bool_] = (place_of[first][:, None] <= column) & (column <= place_of[last][:, None])
    return seen


def _next(say: Words, worth: tuple[_Worth, ...], found: tuple[Measured, ...]) -> Section:
    best = worth[0].measured if worth else found[0]
    option = f"--layer {best.layer} --head {best.head}"
    rows = ((line(Piece(option, Role.CODE)), line(say("next_open"))),)
    return Section("next", "", line(say("next_heading")), (Facts(rows),))
