"""Step 4: the call that computed attention, its arguments by name, and how scale and causality reached it.

Must not know: the numbers inside.
"""

from collections.abc import Mapping

from tracer.page import numbers
from tracer.page.excerpts import Pointed, excerpt
from tracer.page.record import Block, Column, Line, Piece, Prose, Role, Row, Section, Table, line
from tracer.page.steps import label
from tracer.page.wording import Words, file_name, muted, place, shape
from tracer.records import Hop, LayerTrace, Lineage

# Arguments that decide the result get a row and an explanation; the rest one line.
_EXPLAINED = (
    "softmax_scale", "scaling", "causal", "is_causal", "attention_mask", "cu_seqlens_q", "cu_seqlens_k",
    "max_seqlen_q", "max_seqlen_k", "window_size",
)  # fmt: skip


def call(say: Words, layer: LayerTrace) -> Section:
    """Return step 4."""
    function = layer.kernel.function
    blocks: list[Block] = [
        Prose(line(say(f"call_lead_{way(layer)}", function=function, provider=layer.kernel.provider))),
        excerpt([Pointed(layer.kernel.site, label(say, "call"))]),
        _arguments(say, layer),
    ]
    others = {name: value for name, value in layer.kernel.arguments.items() if name not in _EXPLAINED}
    if others:
        blocks.append(Prose(muted(say("other_arguments", arguments=_joined(others)))))
    blocks += [*_path(say, "scale", layer.scale), Prose(muted(say("path_legend")))]
    blocks += _path(say, "causal" if layer.causal.value is not None else "mask", layer.causal)
    return Section("call", "4", line(say("call_heading")), tuple(blocks))


def way(layer: LayerTrace) -> str:
    """Return how attention was computed: flash, sdpa or eager."""
    kind = layer.request.kernel.value
    return kind if kind in ("sdpa", "eager") else "flash"


def _arguments(say: Words, layer: LayerTrace) -> Table:
    """Return the arguments by name, those that say the same in one row."""
    captured = ((name, layer.captures[name]) for name in ("q", "k", "v"))
    values = {name: shape(capture.axes, capture.array.shape) for name, capture in captured}
    given = layer.kernel.arguments
    values |= {name: _value(given[name]) for name in _EXPLAINED if name in given}
    rows: dict[tuple[str, str], list[str]] = {}
    for name, value in values.items():
        rows.setdefault((value, say(f"argument_{name}")), []).append(name)
    return Table(
        (Column(), Column(), Column()),
        tuple(
            Row((line(Piece(", ".join(names), Role.CODE)), line(Piece(value, Role.NUMBER)), muted(meaning)))
            for (value, meaning), names in rows.items()
        ),
    )


def _joined(arguments: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={_value(value)}" for name, value in arguments.items())


def _value(value: object) -> str:
    if isinstance(value, Mapping) and "shape" in value:
        return f"{value['dtype']} {list(value['shape'])}"
    return numbers.exact(value)


# ------------------------------------------------------------------------------------------------------- paths


def _path(say: Words, name: str, lineage: Lineage) -> list[Block]:
    """Return a value's way from its definition to the kernel, hop by hop, with what proves each."""
    lead = Prose(line(say(f"path_{name}", value=numbers.exact(lineage.value), expression=lineage.expression)))
    rows: list[Row] = []
    file = None
    for index, hop in enumerate(lineage.hops):
        if hop.site.path != file:
            file = hop.site.path
            rows.append(Row(heading=line(Piece(file_name(hop.site), Role.PLACE))))
        rows.append(
            Row(
                (
                    line(place(hop.site, whole=False)),
                    line(Piece(hop.site.code, Role.CODE)),
                    line(Piece(f"→ {hop.binds}", Role.CODE)),
                    _proof(say, hop, index == 0),
                )
            )
        )
    return [lead, Table((Column(numeric=True), Column(), Column(), Column()), tuple(rows))]


def _proof(say: Words, hop: Hop, first: bool) -> Line:
    """Return what shows that this hop holds the value of the one before it."""
    parts = []
    if first:
        parts.append(Piece(say("proof_definition"), Role.MUTED))
    elif hop.linked:
        parts.append(Piece(say("proof_source"), Role.MUTED))
    if hop.same_object:
        parts.append(Piece(say("proof_object"), Role.MUTED))
    elif hop.value is not None:
        parts.append(Piece(say("proof_value", value=numbers.exact(hop.value)), Role.MUTED))
    if hop.same_object is False:
        parts.append(Piece(say("proof_other_object"), Role.WARNING))
    if not hop.seen:
        parts.append(Piece(say("proof_unseen"), Role.WARNING))
    return tuple(piece for part in parts for piece in (Piece(say("proof_gap"), Role.MUTED), part))[1:]
