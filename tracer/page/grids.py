"""The matrices of one head, element by element, with their axes; and the exact numbers they are rounded from.

Everything in a table can be computed again from other tables, within the rounding that is measured and stated. Must
not know: source files, HTML.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tracer.arrays import Floats
from tracer.maths.attention import Head
from tracer.maths.visibility import Bools
from tracer.page.numbers import WALK_DECIMALS, fixed, significant
from tracer.page.part import Part, data, part_of, recomputed
from tracer.page.record import Piece, Role
from tracer.page.sheet import Both, Grid, Name, Numbers, alike, both
from tracer.page.tokens import Shown
from tracer.page.window import Window
from tracer.records import LayerTrace
from tracer.result import Trace
from tracer.texts import Listing

_SHADES = 4
_FAINT = 0.3  # numbers below this share of the largest get no colour
Shades = tuple[tuple[int | None, ...], ...]
FORMULAS = ("projected", "scores", "row_max", "weights", "output")


def numbers(trace: Trace, names: tuple[Shown, ...], window: Window, where: str, links: Mapping[str, str]) -> Numbers:
    """Return the grids of a head. ``where`` names the run in citations; ``links``: symbol → element id."""
    part = part_of(trace, window)
    make = _Maker(trace.layer, trace.head, names, window, where)
    warnings = [both("nonfinite", tensor=name, count=count) for name, count in trace.reference.nonfinite]
    if trace.reference.empty_rows:
        warnings.append(both("empty_rows", rows=Listing(map(str, trace.reference.empty_rows))))
    stated = None
    if not window.whole:
        stated = both(window.text, **window.values)
    return Numbers(
        FORMULAS,
        links,
        (
            make.features("q", "Q", part.q, window.rows, "q"),
            make.transposed(part.k),
            make.scores(part),
            make.visible(part),
            make.rows(part),
            make.shares(part),
            make.weights(part),
            make.features("v", "V", part.v, window.keys, "v"),
            make.features("o", "O", part.output, window.rows, "output"),
        ),
        stated,
        tuple(warnings),
        _checked(part, trace.reference),
        data(trace, part, names, window, where),
    )


@dataclass(frozen=True)
class _Maker:
    layer: LayerTrace
    head: int
    names: tuple[Shown, ...]
    window: Window
    where: str

    def features(self, id: str, symbol: str, values: Floats, tokens: slice, card: str) -> Grid:
        """A matrix of tokens × features."""
        axes = both("axes_features", rows=_range(tokens), axis="Tk" if id == "v" else "Tq", width=values.shape[1])
        columns = _dimensions(values.shape[1])
        return self._grid(id, symbol, axes, self._tokens(tokens), columns, values, _signed(values), card)

    def transposed(self, k: Floats) -> Grid:
        """K lying on its side: features × keys."""
        axes = both("axes_transposed", keys=_range(self.window.keys), width=k.shape[1])
        names = _dimensions(k.shape[1])
        return self._grid("kt", "Kᵀ", axes, names, self._tokens(self.window.keys), k.T, _signed(k.T), "k")

    def scores(self, part: Part) -> Grid:
        """Scores; hidden cells are none."""
        shades = _where(part.visible, _signed(np.where(part.visible, part.scores, 0.0)))
        return self._square("s", "S", part.scores, part.visible, shades)

    def visible(self, part: Part) -> Grid:
        """Who sees what: ✓ or ·, no number."""
        texts = tuple(tuple("✓" if seen else "·" for seen in row) for row in part.visible)
        shades = tuple(tuple(1 if seen else None for seen in row) for row in part.visible)
        return self._made("m", "M", self._axes(), self._rows(), self._keys(), texts, shades, "call")

    def rows(self, part: Part) -> Grid:
        """Per row: the largest score, the sum of the exponentials, the logsumexp, and the kernel's own."""
        columns = [part.row_max, part.total, part.lse]
        titles = [both("column_max"), both("column_total"), both("column_lse")]
        lse = self.layer.kernel.lse
        if lse is not None:
            columns.append(lse[self.head, self.window.rows].float64())
            titles.append(both("column_kernel_lse"))
        values = np.stack(columns, axis=1)
        shades = tuple((0,) * values.shape[1] for _ in values)
        names = tuple(Name("", title) for title in titles)
        return self._grid(
            "r", "m, Σ", both("axes_rows", rows=_range(self.window.rows)), self._rows(), names, values, shades, "call"
        )

    def shares(self, part: Part) -> Grid:
        """exp(S − m)."""
        return self._square("e", "E", part.shares, part.visible, _where(part.visible, _positive(part.shares)))

    def weights(self, part: Part) -> Grid:
        """Weights; where keys are left out, a last column holds what these weigh together."""
        shades = _where(part.visible, _positive(part.weights))
        grid = self._square("a", "A", part.weights, part.visible, shades)
        if self.window.keys == slice(0, self.window.tk):
            return grid
        rest = np.clip(part.outside, 0.0, None)
        texts = tuple((*row, _text(value)) for row, value in zip(grid.texts, rest, strict=True))
        shade = _positive(rest[:, None])
        shades = tuple((*row, *more) for row, more in zip(grid.shades, shade, strict=True))
        return self._made(
            "a", "A", grid.axes, grid.rows, (*grid.columns, Name("", both("elsewhere"))), texts, shades, "call"
        )

    def _square(self, id: str, symbol: str, values: Floats, seen: Bools, shades: Shades) -> Grid:
        texts = tuple(
            tuple(_text(value) if see else "·" for value, see in zip(row, sees, strict=True))
            for row, sees in zip(values, seen, strict=True)
        )
        return self._made(id, symbol, self._axes(), self._rows(), self._keys(), texts, shades, "call")

    def _grid(
        self,
        id: str,
        symbol: str,
        axes: Both,
        rows: tuple[Name, ...],
        columns: tuple[Name, ...],
        values: Floats,
        shades: Shades,
        card: str,
    ) -> Grid:
        texts = tuple(tuple(_text(value) for value in row) for row in values)
        return self._made(id, symbol, axes, rows, columns, texts, shades, card)

    def _made(
        self,
        id: str,
        symbol: str,
        axes: Both,
        rows: tuple[Name, ...],
        columns: tuple[Name, ...],
        texts: tuple[tuple[str, ...], ...],
        shades: Shades,
        card: str,
    ) -> Grid:
        return Grid(
            id=id,
            symbol=symbol,
            title=both(f"grid_{id}"),
            axes=axes,
            sums=both(f"sums_{id}"),
            note=both(f"note_{id}"),
            rows=rows,
            columns=columns,
            texts=texts,
            shades=shades,
            expression=card,
            cite=f"{self.where} · {symbol}",
        )

    def _axes(self) -> Both:
        return both("axes_square", rows=_range(self.window.rows), keys=_range(self.window.keys))

    def _rows(self) -> tuple[Name, ...]:
        return self._tokens(self.window.rows)

    def _keys(self) -> tuple[Name, ...]:
        return self._tokens(self.window.keys)

    def _tokens(self, part: slice) -> tuple[Name, ...]:
        return tuple(token_name(name) for name in self.names[part])


def token_name(name: Shown) -> Name:
    """Return a token as the name of a row or column."""
    return Name(str(name.position), alike(Piece(name.short or name.text, Role.TOKEN)), token=True)


def _dimensions(count: int) -> tuple[Name, ...]:
    return tuple(Name("", alike(f"d={index}")) for index in range(count))


def _range(part: slice) -> str:
    return f"{part.start}–{part.stop - 1}" if part.stop - part.start > 1 else str(part.start)


def _text(value: float) -> str:
    return fixed(float(value), WALK_DECIMALS)


def _signed(values: Floats) -> Shades:
    """Return −4 to 4 for each value, by its size against the largest."""
    finite = np.abs(values[np.isfinite(values)])
    top = float(finite.max()) if finite.size and finite.max() > 0 else 1.0
    with np.errstate(invalid="ignore"):
        steps = np.clip(np.nan_to_num(values / top), -1, 1)
    shades = np.sign(steps) * np.ceil((np.abs(steps) - _FAINT) / (1 - _FAINT) * _SHADES).clip(0)
    return tuple(tuple(int(step) for step in row) for row in shades)


def _positive(values: Floats) -> Shades:
    """Return 0 to 4 for values from 0 to 1; what rounds to nothing gets no colour."""
    with np.errstate(invalid="ignore"):
        steps = np.clip(np.nan_to_num(values), 0, 1)
    shades = np.where(steps < 0.02, 0, np.ceil(steps * _SHADES).clip(1))
    return tuple(tuple(int(step) for step in row) for row in shades)


def _where(visible: Bools, shades: Shades) -> Shades:
    return tuple(
        tuple(shade if seen else None for shade, seen in zip(row, sees, strict=True))
        for row, sees in zip(shades, visible, strict=True)
    )


# ------------------------------------------------------------------------- how far the rounded numbers carry


def _at_most(value: float) -> str:
    """Return ``value`` rounded up to one digit: what it stays within."""
    if value == 0:
        return "0"
    step = 10.0 ** math.floor(math.log10(value))
    return significant(math.ceil(value / step) * step, 1)


def _checked(part: Part, head: Head) -> Both:
    """Return how far numbers recomputed from the rounded tables lie from the tables."""
    apart = recomputed(part, head.scale)
    return both("recomputed", decimals=WALK_DECIMALS, **{name: _at_most(value) for name, value in apart.items()})
