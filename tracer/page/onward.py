"""What a reader can do next: the options and commands that work from where the page came from.

Must not know: options' meanings, any output format.
"""

from enum import StrEnum

from tracer.page.record import Facts, Piece, Role, Section, line
from tracer.page.wording import Words
from tracer.result import Trace


class Origin(StrEnum):
    """Where a page's trace came from: a run, a run that is kept in a file as well, or such a file."""

    RUN = "run"
    KEPT = "kept"
    FILE = "file"


def onward(say: Words, trace: Trace, query: int | None, origin: Origin, *, document: bool) -> Section:
    """Return the section; ``document``: the page is part of a report, which shows one head whatever was asked for."""
    rows = _position(trace, query, origin)
    if document or origin is Origin.FILE:
        heads = trace.layer.model.heads
        rows += [(f"--head {(trace.head + 1) % heads}", "next_head")] if heads > 1 else []
    else:
        rows += [("--head", "next_overview")]
    if origin is Origin.RUN:
        rows += [("--save FILE.safetensors", "next_save")]
    elif origin is Origin.KEPT:
        rows += [("trace show FILE", "next_show")]
    else:
        if not document and not trace.layer.cached:  # a report cannot show a part of a prompt
            rows += [("--format html -o R.html", "next_html")]
        rows += [("trace diff FILE OTHER", "next_diff")]
    shown = tuple((line(Piece(option, Role.CODE)), line(say(text))) for option, text in rows)
    return Section("next", "", line(say("next_heading")), (Facts(shown),))


def _position(trace: Trace, query: int | None, origin: Origin) -> list[tuple[str, str]]:
    first, last = trace.layer.cached, len(trace.layer.tokens) - 1
    if query is None:
        return [(f"--query {last}", "next_query")]
    if origin is not Origin.FILE:
        return [("…", "next_whole")]
    # Without --query a file is shown at the position that it was saved with, where there was one.
    return [(f"--query {last if query != last else first}", "next_position")] if first != last else []
