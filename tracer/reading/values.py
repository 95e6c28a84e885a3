"""What a saved trace saw at the places that are shown: shapes and values, only where the very same file was traced.

Must not know: how a trace is made.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tracer.page import numbers
from tracer.page.record import Column, Facts, Line, Piece, Role, Row, Table, line
from tracer.page.wording import shape
from tracer.reading.library import Library
from tracer.reading.wording import Words
from tracer.records import Capture, Hop, LayerTrace, Site


@dataclass(frozen=True)
class Seen:
    """A saved trace, asked by place."""

    layer: LayerTrace

    def lines(self, say: Words, library: Library, place: str) -> tuple[Facts | Table, ...]:
        """Return what the trace saw at ``place``; nothing where it saw nothing there, a note where another file ran."""
        given = library.given(place)
        site = library.site(place)
        capture = self.layer.captures.get(given.get("capture", ""))
        if capture is not None:
            return (_tensor(say, capture) if capture.site.sha256 == site.sha256 else _other(say, capture.site),)
        hops = self.hops(site)
        return (_values(say, hops),) if hops else ()

    def tensor(self, say: Words, capture: str) -> Table:
        """Return shape and values of a tensor of the trace."""
        return _tensor(say, self.layer.captures[capture])

    def hop(self, site: Site, value: str) -> Hop | None:
        """Return the hop of ``value`` (scale, causal) that stands at ``site`` of the same file; None for any other
        value, of which a trace keeps no hops."""
        return self.hops(site).get(value)

    def hops(self, site: Site) -> Mapping[str, Hop]:
        """Return what went through ``site`` of the same file, by value: one dictionary may hand on several."""
        return {
            value: hop
            for value, path in followed(self.layer).items()
            for hop in path
            if hop.site.sha256 == site.sha256 and hop.site.span == site.span
        }

    def source(self, say: Words) -> Line:
        """Return which run the numbers are from."""
        request, layer = self.layer.request, self.layer
        return line(
            Piece(
                say(
                    "seen_in",
                    checkpoint=layer.checkpoint.name,
                    layer=request.layer,
                    engine=request.engine.value,
                    tokens=len(layer.tokens),
                ),
                Role.MUTED,
            )
        )


def followed(layer: LayerTrace) -> Mapping[str, Sequence[Hop]]:
    """Return the hops of each value that a trace follows."""
    return {"scale": layer.scale.hops, "causal": layer.causal.hops}


def value_at(say: Words, hop: Hop) -> Line:
    """Return a hop's value in a few words."""
    if not hop.seen:
        return line(Piece(say("not_run"), Role.MUTED))
    same = f"  {say('same_object')}" if hop.same_object else ""
    return line(Piece(f"{say('seen_value')} ", Role.LABEL), Piece(numbers.exact(hop.value), Role.NUMBER), same)


def _values(say: Words, hops: Mapping[str, Hop]) -> Facts:
    rows = []
    for value, hop in hops.items():
        label = say("seen_value") if len(hops) == 1 else say("seen_value_of", value=value)
        seen = Piece(numbers.exact(hop.value), Role.NUMBER) if hop.seen else Piece(say("not_run"), Role.MUTED)
        rows.append((line(Piece(label, Role.LABEL)), line(seen)))
    return Facts(tuple(rows))


def _other(say: Words, site: Site) -> Facts:
    note = say("seen_elsewhere", project=site.project, version=site.version)
    return Facts(((line(Piece(say("seen_value"), Role.LABEL)), line(Piece(note, Role.MUTED))),))


def _tensor(say: Words, capture: Capture) -> Table:
    values = capture.array.float64()
    row: list[Line] = [
        line(Piece(capture.name, Role.CODE)),
        line(shape(capture.axes, capture.array.shape)),
    ]
    if values.size:
        flat = values.reshape(-1, values.shape[-1])[-1] if values.ndim else values.reshape(1)
        first = ", ".join(numbers.significant(float(each)) for each in flat[:4])
        more = ", …" if flat.size > 4 else ""
        row += [
            line(Piece(numbers.significant(float(np.sqrt(np.mean(np.square(values))))), Role.NUMBER)),
            line(Piece(f"[{first}{more}]", Role.NUMBER)),
        ]
    else:
        row += [(), ()]
    columns = (
        Column(say("column_tensor")),
        Column(say("column_shape")),
        Column(say("column_rms"), numeric=True),
        Column(say("column_last_row"), spare=1),
    )
    return Table(columns, (Row(tuple(row)),))
