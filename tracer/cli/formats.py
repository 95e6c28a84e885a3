"""``--format`` for what can be shown as an HTML report, too, and what that needs.

Must not know: how a report is made.
"""

import sys
from dataclasses import replace

import click

from tracer.cli import options, words
from tracer.cli.options import RunOptions
from tracer.errors import InputError
from tracer.texts import message

HTML = "html"
FORMATS = (*words.FORMATS, HTML)


def format_options() -> list[click.Parameter]:
    """Return the options that say what comes out and where, HTML among them."""
    return options.format_options(FORMATS, message("report.opt_format"))


def as_report(asked: RunOptions) -> RunOptions:
    """Return the request with HTML as its format. Raises InputError where the whole file would land on a terminal."""
    if asked.output is None and sys.stdout is not None and sys.stdout.isatty():
        raise InputError("report.needs_output")
    found = replace(asked, format=HTML)
    check(found)
    return found


def check(asked: RunOptions) -> None:
    """Raise InputError for what a report cannot show: several layers, or a part of a prompt."""
    if asked.format == HTML and (asked.cached or asked.decode):
        raise InputError("nanovllm.report")
    if asked.format == HTML and asked.layers is not None and len(asked.layers) > 1:
        raise InputError("report.one_layer", first=asked.layers[0])
