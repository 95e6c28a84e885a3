"""The page of one head: from a trace to everything a reader is shown.

All wording and rounding happens below this module. Must not know: any output format.
"""

from tracer.bounds import check_query
from tracer.names import MODEL
from tracer.page import checks, header, kernel, matrices, provenance, sparse, steps, walk
from tracer.page.onward import Origin, onward
from tracer.page.record import Column, Page, Piece, Prose, Role, Row, Section, Table, line
from tracer.page.tokens import Shown, shown
from tracer.page.window import Window, window
from tracer.page.wording import Words, muted
from tracer.result import Trace

DEFAULT_WINDOW = 16


def head_page(
    trace: Trace,
    language: str,
    *,
    query: int | None = None,
    size: int = DEFAULT_WINDOW,
    origin: Origin = Origin.RUN,
    document: bool = False,
) -> Page:
    """Return the page of a trace's head in ``language``; with ``query`` that position is followed to its output.

    ``size`` bounds how many query rows and keys are shown. ``origin`` and ``document`` (it becomes part of a report)
    decide what can be done next. Raises InputError for a query that is not in the prompt or
    a size below 1.
    """
    say = Words(language)
    layer, reference = trace.layer, trace.reference
    names = shown(layer.tokens)
    kv_head = layer.model.kv_head(trace.head)
    check_query(query, len(layer.tokens), layer.cached)
    row = None if query is None else query - layer.cached
    part = window(reference.visibility.tq, reference.visibility.tk, size, row)
    sections: list[Section | None] = [
        checks.failures(say, [("", check) for check in trace.checks]),
        header.ran(say, layer),
        steps.overview(say, layer, kv_head, trace.head),
    ]
    if query is None:
        after = tuple(layer.captures[name] for name in ("merged", "o_proj") if name in layer.captures)
        sections += [
            steps.projections(say, layer),
            kernel.call(say, layer),
            matrices.inside(say, reference, names, part, kernel.way(layer)),
            sparse.section(say, reference, names),
            matrices.output(say, reference, names, part, after),
            _tokens(say, names, part),
            provenance.sources(say, layer),
        ]
    else:
        sections += walk.sections(say, trace, names, query, size)
    sections += [checks.warnings(say, layer.warnings), checks.checks(say, trace.checks)]
    sections.append(onward(say, trace, query, origin, document=document))
    where = {"layer": layer.request.layer, "head": trace.head, "kv": kv_head}
    title = (
        say("title", model=MODEL, **where)
        if query is None
        else say("title_query", model=MODEL, query=query, token=names[query].text, **where)
    )
    return Page(
        "head" if query is None else "query",
        language,
        line(Piece(title, Role.STRONG)),
        header.verdict(say, trace.checks) + header.warned(say, len(layer.warnings)),
        tuple(section for section in sections if section is not None),
    )


def _tokens(say: Words, names: tuple[Shown, ...], part: Window) -> Section:
    begin = min(part.positions.start, part.keys.start)
    rows = tuple(
        Row(
            (
                line(Piece(str(name.position), Role.MUTED)),
                line(Piece(name.text, Role.TOKEN)),
                muted(str(name.id)),
                muted(name.bytes),
            )
        )
        for name in names[begin : max(part.positions.stop, part.keys.stop)]
    )
    columns = (
        Column(say("column_position"), numeric=True),
        Column(say("column_token")),
        Column(say("column_id"), numeric=True),
        Column(say("column_bytes")),
    )
    return Section(
        "tokens", "", line(say("tokens_heading")), (Table(columns, rows, flow=True), Prose(muted(say("tokens_legend"))))
    )
