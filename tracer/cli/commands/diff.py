"""``trace diff``: what differs between two saved traces, without torch and without a model.

Must not know: how traces are read, compared or drawn.
"""

from typing import Any

import click

from tracer.cli import common, options
from tracer.cli.command import About, Argument, Command, Example, language_of
from tracer.cli.values import File
from tracer.texts import message


def _diff(ctx: click.Context, /, **values: Any) -> int:
    asked = options.DiffOptions(**values)
    options.check_outputs(asked.output, inputs=[asked.a, asked.b])
    from tracer.cli import answers  # brings numpy and rich: only for a well-formed request

    return answers.diff(asked, language_of(ctx))


COMMAND = Command(
    "diff",
    about=About(
        line=message("cli.diff"),
        more=message("cli.diff_more"),
        examples=(Example("trace diff before.safetensors after.safetensors", message("cli.example_diff")),),
        exits={0: message("diff.exit_0"), 1: message("diff.exit_1")},
    ),
    callback=_diff,
    params=[
        Argument("a", metavar="A", type=File(), text=message("cli.arg_diff_a")),
        Argument("b", metavar="B", type=File(), text=message("cli.arg_diff_b")),
        *options.format_options(),
        *common.options(),
    ],
)
