"""A verification as text for Python's prompt, for print and for a notebook.

Must not know: command lines.
"""

import os

from rich.color import ColorSystem

from tracer.language import of_environment
from tracer.records import Status
from tracer.render.terminal.render import render
from tracer.render.terminal.screen import Screen
from tracer.verification.page import verify_page
from tracer.verification.records import Verification

_WIDTH = 100
_NOTEBOOK_WIDTH = 110


def repr_of(found: Verification) -> str:
    """Return a verification in one line, for Python's prompt."""
    statuses = [outcome.check.status for outcome in found.outcomes]
    ended = ", ".join(f"{statuses.count(status)} {status.value}" for status in Status if status in statuses)
    return (
        f"<Verification {found.subject!r} layers={len(found.layers)} heads={len(found.heads)} "
        f"tokens={len(found.tokens)} kernel={found.kernel.value!r} checks: {ended or 'none'}>"
    )


def text_of(found: Verification) -> str:
    """Return the page of a verification without colours, in the language of the environment."""
    return render(verify_page(found, of_environment(os.environ)), Screen(_WIDTH))


def html_of(found: Verification) -> str:
    """Return the page of a verification as an HTML fragment, for notebooks."""
    from tracer.render.terminal.fragment import fragment

    page = verify_page(found, of_environment(os.environ))
    return fragment(page, Screen(_NOTEBOOK_WIDTH, ColorSystem.TRUECOLOR, "utf-8", links=True))
