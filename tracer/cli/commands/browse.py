"""``trace browse``: the annotated source as an application on the terminal.

Must not know: what is on the screen.
"""

import os
import sys
from pathlib import Path
from typing import Any

import click

from tracer.cli import common, exits, words
from tracer.cli.command import About, Argument, Command, Example, Option, language_of
from tracer.cli.values import File, Word
from tracer.errors import InputError
from tracer.texts import message

_ONLY_PRINT = ("dumb", "unknown")  # what a terminal calls itself that obeys no codes, or of which nothing is known


def _browse(ctx: click.Context, /, **values: Any) -> int:
    missing = _no_terminal()
    if missing is not None:
        raise InputError("browse.no_terminal", stream=message(f"browse.stream_{missing}"))
    term = os.environ.get("TERM", "")
    if term.lower() in _ONLY_PRINT:
        raise InputError("browse.dumb_terminal", term=term)
    file: Path | None = values["trace"]
    layer = None
    if file is not None:
        from tracer.saved.read import load

        layer = load(file)
    from tracer.browse.app import BrowseApp  # Textual: half a second
    from tracer.browse.books import Shelf

    app = BrowseApp(Shelf(layer), language_of(ctx))
    app.run()
    if app.fault is not None:
        raise app.fault
    return app.return_code or exits.PASSED


def _no_terminal() -> str | None:
    """Return which stream is no terminal, ``in`` or ``out``; None where both are."""
    for stream, name in ((sys.stdin, "in"), (sys.stdout, "out")):
        if stream is None or not stream.isatty():
            return name
    return None


COMMAND = Command(
    "browse",
    about=About(
        line=message("browse.cli"),
        more=message("browse.cli_more"),
        examples=(
            Example("trace browse qwen3", message("browse.example")),
            Example("trace browse qwen3 --trace head.safetensors", message("browse.example_trace")),
        ),
    ),
    callback=_browse,
    params=[
        Argument("model", metavar="MODEL", type=Word(words.MODELS), text=message("browse.arg_model")),
        Option("--trace", type=File(), metavar="FILE", text=message("browse.opt_trace")),
        *common.options(),
    ],
)
