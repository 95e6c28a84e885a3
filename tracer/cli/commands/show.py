"""``trace show``: any head and position of a saved trace, without torch and without the model.

Must not know: how a trace is read or drawn.
"""

from typing import Any

import click

from tracer.cli import common, formats, options
from tracer.cli.command import About, Argument, Command, Example, Option, language_of
from tracer.cli.values import File, Whole
from tracer.texts import message

WHAT = "cli.heading_what"


def _show(ctx: click.Context, /, **values: Any) -> int:
    asked = options.ShowOptions(**values)
    options.check_outputs(asked.output, inputs=[asked.file])
    from tracer.cli import answers  # brings numpy and rich: only for a well-formed request

    return answers.show(asked, language_of(ctx))


COMMAND = Command(
    "show",
    about=About(
        line=message("cli.show"),
        more=message("cli.show_more"),
        examples=(
            Example("trace show head.safetensors --head 4", message("cli.example_show")),
            Example("trace show head.safetensors --query 5 --lang zh", message("cli.example_show_query")),
        ),
    ),
    callback=_show,
    params=[
        Argument("file", metavar="FILE", type=File(), text=message("cli.arg_saved")),
        Option("--head", type=Whole(), metavar="N", heading=WHAT, text=message("cli.opt_show_head")),
        Option("--query", type=Whole(), metavar="I", heading=WHAT, text=message("cli.opt_show_query")),
        *formats.format_options(),
        options.window_option(),
        *common.options(),
    ],
)
