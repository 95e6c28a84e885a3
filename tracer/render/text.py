"""A trace as text for a terminal, a pipe, a file or a notebook: the page built and lowered in one call.

Must not know: command lines.
"""

from collections.abc import Sequence

from rich.color import ColorSystem

from tracer.page.head import head_page
from tracer.page.onward import Origin
from tracer.page.overview import overview_page
from tracer.records import LayerTrace
from tracer.render.terminal.render import render
from tracer.render.terminal.screen import Screen
from tracer.result import Trace
from tracer.texts import DEFAULT_LANGUAGE

_NOTEBOOK_WIDTH = 110


def head_text(
    trace: Trace,
    language: str,
    screen: Screen,
    *,
    query: int | None = None,
    window: int | None = None,
    origin: Origin = Origin.RUN,
) -> str:
    """Return the page of a trace's head. ``window`` None: as many rows and keys as the width reads well. ``origin``
    decides what can be done next.

    Raises InputError for a query that is not in the prompt or a window below 1.
    """
    size = default_window(screen.width) if window is None else window
    return render(head_page(trace, language, query=query, size=size, origin=origin), screen)


def overview_text(layers: Sequence[LayerTrace], language: str, screen: Screen, *, traces: Sequence[Trace] = ()) -> str:
    """Return the page of all heads of one or more layers of one prompt; ``traces`` are heads whose checks were made."""
    return render(overview_page(layers, language, traces), screen)


def default_window(width: int) -> int:
    """Return how many rows and keys of a prompt a screen of that width shows unless asked otherwise."""
    return 8 if width < 60 else 16 if width < 120 else 24


def repr_of(trace: Trace) -> str:
    """Return a trace in one line, for Python's prompt."""
    layer = trace.layer
    ended = ", ".join(
        f"{count} {status}"
        for status in ("fail", "not_testable", "pass")
        if (count := sum(check.status == status for check in trace.checks))
    )
    return (
        f"<Trace {layer.checkpoint.name!r} layer={layer.request.layer} head={trace.head} "
        f"tokens={len(layer.tokens)} kernel={layer.request.kernel.value!r} checks: {ended or 'none'}>"
    )


def html_of(trace: Trace, language: str = DEFAULT_LANGUAGE) -> str:
    """Return a trace's page as an HTML fragment, for notebooks: the terminal page with its colours, links upstream."""
    from tracer.render.terminal.fragment import fragment

    page = head_page(trace, language, query=trace.layer.request.query, size=default_window(_NOTEBOOK_WIDTH))
    return fragment(page, Screen(_NOTEBOOK_WIDTH, ColorSystem.TRUECOLOR, "utf-8", links=True))
