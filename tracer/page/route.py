"""A value's path through the files, stop by stop, from its definition to the kernel.

Must not know: how it was followed, HTML.
"""

from tracer.page.cards import stop_id
from tracer.page.numbers import exact
from tracer.page.record import Piece, Role, line
from tracer.page.sheet import Both, Path, Stop, both, one_line
from tracer.page.wording import Words, file_name, place
from tracer.records import Hop, LayerTrace, Lineage


def paths(layer: LayerTrace, where: str) -> tuple[Path, ...]:
    """Return the path of the scale, and of the causal flag or mask."""
    causal = "causal" if layer.causal.value is not None else "mask"
    return _path("scale", "scale", layer.scale, layer, where), _path("causal", causal, layer.causal, layer, where)


def _path(id: str, kind: str, lineage: Lineage, layer: LayerTrace, where: str) -> Path:
    stops = []
    file = ""
    for index, hop in enumerate(lineage.hops):
        name = one_line(file_name(hop.site))
        stops.append(
            Stop(
                id=stop_id(id, index),
                file=name if name != file else "",
                place=line(place(hop.site, whole=False)),
                code=one_line(hop.site.code),
                binds=one_line(hop.binds),
                proof=_proof(hop, index == 0),
                sure=hop.seen and hop.same_object is not False,
                cite=one_line(f"{where} · {id} · {hop.site.place} · {hop.site.code}"),
            )
        )
        file = name
    lead = both(f"page.path_{kind}", value=exact(lineage.value), expression=lineage.expression)
    return Path(
        id, lead, tuple(stops), both(f"arrives_{kind}", function=layer.kernel.function, value=exact(lineage.value))
    )


def _proof(hop: Hop, first: bool) -> Both:
    return Both(*(_joined(_proofs(Words(language), hop, first)) for language in ("en", "zh")))


def _joined(parts: list[Piece]) -> tuple[Piece, ...]:
    return tuple(piece for part in parts for piece in (Piece(" · ", Role.MUTED), part))[1:]


def _proofs(say: Words, hop: Hop, first: bool) -> list[Piece]:
    parts = []
    if first or hop.linked:
        parts.append(Piece(say("proof_definition" if first else "proof_source"), Role.MUTED))
    if hop.same_object:
        parts.append(Piece(say("proof_object"), Role.PASS))
    elif hop.value is not None:
        parts.append(Piece(say("proof_value", value=exact(hop.value)), Role.MUTED))
    if hop.same_object is False:
        parts.append(Piece(say("proof_other_object"), Role.FAIL))
    if not hop.seen:
        parts.append(Piece(say("proof_unseen"), Role.WARNING))
    return parts
