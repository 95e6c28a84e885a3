"""``trace lint``: faults of attention in any source tree, without running it.

Must not know: how a fault is found, how a report is drawn.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracer.cli import common, options, streams
from tracer.cli.command import About, Argument, Command, Example, language_of
from tracer.cli.values import File
from tracer.texts import message

if TYPE_CHECKING:
    from tracer.lint.records import Report

FORMATS = ("terminal", "json", "sarif")


def _lint(ctx: click.Context, /, paths: tuple[Path, ...], format: str, output: Path | None, verbose: bool) -> int:
    options.check_outputs(output)
    from tracer.cli.answers import deliver
    from tracer.lint.run import lint

    language = language_of(ctx)
    progress = streams.Progress(language, verbose)
    try:
        report = lint(paths, lambda count, total: progress(message("lint.progress", count=count, total=total)))
    finally:
        progress.done()
    deliver(_rendered(report, format, output, language), output, language)
    return report.exit_code


def _rendered(report: "Report", format: str, output: Path | None, language: str) -> str | bytes:
    if format != "terminal":
        from tracer.lint.jsonable import to_json
        from tracer.lint.sarif import to_sarif
        from tracer.render import json_text

        made = to_json(report, language) if format == "json" else to_sarif(report, language)
        return json_text.dumps(made).encode("utf-8", "backslashreplace")
    from tracer.lint.page import lint_page
    from tracer.render.terminal.render import render
    from tracer.render.terminal.screen import Screen, screen

    if output is not None or sys.stdout is None:
        surface = Screen()
    else:
        surface = screen(streams.width(), streams.colour(sys.stdout), streams.encoding(), os.environ)
    return render(lint_page(report, language), surface)


COMMAND = Command(
    "lint",
    about=About(
        line=message("lint.command"),
        more=message("lint.command_more"),
        examples=(
            Example("trace lint my_port", message("lint.example_folder")),
            Example("trace lint my_port --format sarif -o lint.sarif", message("lint.example_sarif")),
        ),
    ),
    callback=_lint,
    params=[
        Argument("paths", metavar="PATH", nargs=-1, required=True, type=File(), text=message("lint.arg_paths")),
        *options.format_options(FORMATS, message("lint.opt_format")),
        options.verbose_option(),
        *common.options(),
    ],
)
