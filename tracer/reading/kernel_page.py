"""What one call of a flash kernel replaces: the explicit lines it stands for, and what it does tile by tile.

Must not know: output formats.
"""

from tracer.errors import TracerError
from tracer.page.record import Block, Column, Page, Piece, Prose, Role, Row, Section, Table, line
from tracer.page.wording import place as place_piece
from tracer.reading import catalogue
from tracer.reading.excerpts import around
from tracer.reading.library import Library
from tracer.reading.topics import formulas, release_heading
from tracer.reading.values import Seen
from tracer.reading.wording import Words

# What the explicit code does, in its order, and the part of the kernel's work that stands for it.
_REPLACED = (("scores", "scores"), ("mask", "mask"), ("softmax", "softmax"), ("output", "output"))
_STAGES = ("load", "multiply", "hide", "rescale", "add", "finish")
_PLACES = ("call", "pad", "scale", "causal.call", "kernel")


def kernel_page(say: Words, kernel: Library, explicit: Library, seen: Seen | None) -> Page:
    """Return the page: the explicit operations with their places, the tiles, the way through flash-attn's Python."""
    sections = [
        Section("text", "", (), (Prose(line(say.own(catalogue.lessons()["kernel"].texts)["text"])),)),
        Section("replaced", "", line(say("replaced_heading")), tuple(_replaced(say, explicit))),
        Section("tiles", "", line(say("tiles_heading")), tuple(_tiles(say))),
        Section("memory", "", line(say("memory_heading")), tuple(_memory(say, seen))),
    ]
    blocks: list[Block] = []
    for place in _PLACES:
        site = kernel.site(place)
        text = kernel.table.files[kernel.table.anchors[place].file].text
        blocks += [Prose(line(say(f"flash_{place.replace('.', '_')}"))), around(site, text, place)]
    sections.append(Section("way", "", release_heading(kernel), tuple(blocks)))
    title = line(Piece(say("kernel_title"), Role.STRONG))
    return Page("kernel", say.language, title, (), tuple(sections))


def _replaced(say: Words, explicit: Library) -> list[Block]:
    rows = []
    try:
        for place, name in _REPLACED:
            site = explicit.site(place)
            rows.append(
                Row(
                    (
                        line(Piece(" ".join(site.code.split()), Role.CODE)),
                        line(place_piece(site)),
                        line(say(f"replaced_{name}")),
                    )
                )
            )
    except TracerError as error:
        return [Prose(line(Piece(error.text(say.language), Role.WARNING)))]
    columns = (Column(say("column_explicit")), Column(say("column_place"), spare=1), Column(say("column_inside")))
    return [Table(columns, tuple(rows))]


def _tiles(say: Words) -> list[Block]:
    stages = tuple(
        Row((line(Piece(str(number), Role.STRONG)), line(say(f"tile_{stage}"))))
        for number, stage in enumerate(_STAGES, 1)
    )
    return [
        Prose(line(say("tiles_lead"))),
        Table((Column(), Column()), stages),
        formulas(say, ("tile", "lse")),
        Prose(line(say("tiles_causal"))),
    ]


def _memory(say: Words, seen: Seen | None) -> list[Block]:
    blocks: list[Block] = [Prose(line(say("memory_general")))]
    if seen is not None:
        queries = seen.layer.captures["q"].array.shape
        keys = seen.layer.captures["k"].array.shape[0]
        numbers = {
            "tq": queries[0],
            "tk": keys,
            "scores": queries[0] * keys,
            "kept": 2 * queries[0],
            "heads": queries[1],
        }
        blocks += [Prose(line(say("memory_seen", **numbers))), Prose(seen.source(say))]
    return blocks
