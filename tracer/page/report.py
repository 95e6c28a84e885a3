"""The report of one head, in both languages: the ordinary page's parts, and what only a document has room for.

Must not know: HTML.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import replace

from tracer.errors import InputError
from tracer.names import MODEL
from tracer.page import cards, grids, practice, reference, route, scaling, wrong
from tracer.page.cards import card_id
from tracer.page.head import head_page
from tracer.page.onward import Origin
from tracer.page.overview import measure, overview_page
from tracer.page.part import bytes_of
from tracer.page.record import Page, Pictures, Section
from tracer.page.sheet import Both, Chapter, Heading, Pair, Paragraph, Part, Report, both, one_line
from tracer.page.tokens import Shown, groups, shown
from tracer.page.window import Window, window
from tracer.result import Trace

WINDOW = 64
_STEP = 8
_MOST_BYTES = 1_040_000  # of the head's tables and numbers; with the rest of a report less than 1.5 MB
_WALKED = 16
_MOST_FOR_HEADS = 1024  # measuring all heads takes time with the square of the tokens
_QUOTED = 12  # tokens of the prompt that a citation begins with
_HEADS_SECTIONS = ("worth", "heads", "pictures")


def usual_window(trace: Trace) -> int:
    """Return how many queries and keys a report shows unless told otherwise: WINDOW, or of a head so wide that its file
    would pass 1.5 MB as many as do not."""
    q = trace.layer.captures["q"].array
    sizes = range(WINDOW, _STEP, -_STEP)
    return next((size for size in sizes if bytes_of(size, q.shape[-1], q.dtype) <= _MOST_BYTES), _STEP)


def report(
    trace: Trace,
    language: str,
    *,
    query: int | None = None,
    size: int | None = None,
    origin: Origin = Origin.RUN,
) -> Report:
    """Return the report of a trace's head; ``language`` is shown first, the other one can be switched to.

    ``query`` is followed to its output, the last one where None; ``size`` bounds how many queries and keys are shown
    (None: see usual_window). ``origin`` decides what can be done next.

    Raises InputError for a query that is not in the prompt or a size below 1.
    """
    if trace.layer.cached:
        raise InputError("nanovllm.report")
    visibility = trace.reference.visibility
    size = usual_window(trace) if size is None else size
    followed = visibility.tq - 1 if query is None else query
    part = window(visibility.tq, visibility.tk, size, query)
    names = shown(trace.layer.tokens)
    pages = _both_pages(trace, None, size, origin)
    walked = _both_pages(trace, followed, min(size, _WALKED), origin)
    where = _where(trace)
    chapters = (
        _chapter("ran", _of(pages, "failures", "ran", "steps", "warnings")),
        _chapter("head", _head(trace, names, part, where)),
        _chapter("walk", _of(walked, *(id for id in _ids(walked) if id.startswith("walk")))),
        _chapter("source", (Paragraph(both("source_lead")), cards.source(trace, names, part.rows.start, where))),
        _chapter("path", (*route.paths(trace.layer, where), Paragraph(both("page.path_legend")))),
        _chapter("wrong", _wrong(trace, names, where)),
        _chapter("temperature", _temperature(trace, names, followed)),
        _chapter("scaling", scaling.why(trace.reference)),
        _chapter("practice", (Paragraph(both("practice_lead")), practice.practice(trace, names, where))),
        _chapter("heads", _heads(trace)),
        _chapter("reference", reference.reference()),
        _chapter("files", _of(pages, "tokens", "sources", "checks", "next")),
    )
    en, zh = pages
    return Report(
        language=language,
        title=Both(en.title, zh.title),
        verdict=Both(en.verdict, zh.verdict),
        cite=where,
        chapters=tuple(chapter for chapter in chapters if chapter.parts),
    )


Pages = tuple[Page, Page]


def _both_pages(trace: Trace, query: int | None, size: int, origin: Origin) -> Pages:
    en, zh = (
        head_page(trace, language, query=query, size=size, origin=origin, document=True) for language in ("en", "zh")
    )
    return en, zh


def _ids(pages: Pages) -> tuple[str, ...]:
    return tuple(section.id for section in pages[0].sections)


def _of(pages: Pages, *ids: str) -> tuple[Part, ...]:
    """Return the blocks of the sections ``ids`` of both pages, each section's heading before its blocks."""
    parts: list[Part] = []
    for id in ids:
        for en, zh in zip(_named(pages[0], id), _named(pages[1], id), strict=True):
            if en.heading:
                parts.append(Heading(Both(en.heading, zh.heading), f"{en.id}"))
            parts += [Pair(a, b) for a, b in zip(en.blocks, zh.blocks, strict=True)]
    return tuple(parts)


def _named(page: Page, id: str) -> Iterable[Section]:
    return (section for section in page.sections if section.id == id)


def _chapter(id: str, parts: tuple[Part, ...]) -> Chapter:
    return Chapter(id, both(f"chapter_{id}"), parts)


def _head(trace: Trace, names: tuple[Shown, ...], part: Window, where: str) -> tuple[Part, ...]:
    links = {
        "x": card_id("hidden"),
        "W_q": card_id("q_proj"),
        "W_k": card_id("k_proj"),
        "W_v": card_id("v_proj"),
        "RMSNorm": card_id("q_norm"),
        "RoPE": card_id("q_rope"),
        "Q": card_id("q"),
        "K": card_id("k"),
        "V": card_id("v"),
        "scale": "p-scale-0",
        "M": "path-causal",
        "S": "g-s",
        "m": "g-r",
        "A": card_id("kernel_weights") if "kernel_weights" in trace.layer.captures else "g-a",
        "O": card_id("output"),
    }
    known = {card_id(each.name) for each in cards.everything(trace.layer)} | {
        "p-scale-0",
        "path-causal",
        "g-s",
        "g-r",
        "g-a",
    }
    found = {symbol: target for symbol, target in links.items() if target in known}
    return (
        Paragraph(both("head_lead")),
        Paragraph(both("head_two_sums")),
        grids.numbers(trace, names, part, where, found),
    )


def _wrong(trace: Trace, names: tuple[Shown, ...], where: str) -> tuple[Part, ...]:
    if trace.reference.nonfinite:
        return (Paragraph(both("wrong_nonfinite")),)
    parts: list[Part] = [Paragraph(both("wrong_lead"))]
    if len(trace.layer.tokens) > wrong.most_tokens():
        parts.append(Paragraph(both("wrong_tokens", count=wrong.most_tokens())))
    return (*parts, *wrong.wrongs(trace, names, where))


def _temperature(trace: Trace, names: tuple[Shown, ...], query: int) -> tuple[Part, ...]:
    slider = scaling.temperature(trace.reference, names, query)
    return () if slider is None else (Paragraph(both("temperature_lead")), slider)


def _heads(trace: Trace) -> tuple[Part, ...]:
    if len(trace.layer.tokens) > _MOST_FOR_HEADS:
        command = f"trace {MODEL} --layer {trace.layer.request.layer}"
        return (Paragraph(both("heads_many", most=_MOST_FOR_HEADS, tokens=len(trace.layer.tokens), command=command)),)
    found = measure([trace.layer], [trace])
    pages = tuple(overview_page([trace.layer], language, measured=found) for language in ("en", "zh"))
    lead = Paragraph(both("heads_lead", head=trace.head))
    return (lead, *map(_unlegended, _of((pages[0], pages[1]), *_HEADS_SECTIONS)), Paragraph(both("map_legend")))


def _unlegended(part: Part) -> Part:
    """Return ``part``; without its legend where that explains how a terminal draws pictures."""
    if isinstance(part, Pair) and isinstance(part.en, Pictures) and isinstance(part.zh, Pictures):
        return Pair(replace(part.en, legend=()), replace(part.zh, legend=()))
    return part


def _where(trace: Trace) -> str:
    """Return what names this run in a citation: command, checkpoint, and its tokens by number and by their ids."""
    layer = trace.layer
    kept = layer.checkpoint
    run = f"trace {MODEL} --layer {layer.request.layer} --head {trace.head}"
    ids = ",".join(map(str, layer.request.token_ids))
    digest = hashlib.sha256(ids.encode("ascii")).hexdigest()
    text = "".join(group.text for group in groups(layer.tokens[:_QUOTED])).replace("␣", " ").strip()
    more = "…" if len(layer.tokens) > _QUOTED else ""
    tokens = f"{len(layer.tokens)} tokens {digest[:12]} “{text}{more}”"
    return one_line(f"{run} · {kept.name} {kept.headers_sha256[:12]} · {tokens}")
