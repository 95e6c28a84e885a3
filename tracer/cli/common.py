"""What every command has: its help, and the language.

Must not know: any particular command.
"""

import click

from tracer.cli import help, streams, words
from tracer.cli.command import Option
from tracer.cli.values import Word
from tracer.texts import message


def _show_help(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        streams.answer(help.page(ctx))
        ctx.exit()


def options() -> list[click.Parameter]:
    """Return ``--lang`` and ``--help``. The language was read from the raw arguments already; here it is checked."""
    return [
        Option(
            "--lang",
            type=Word(words.LANGS),
            metavar="|".join(words.LANGS),
            expose_value=False,
            text=message("cli.opt_lang"),
        ),
        Option(
            "-h",
            "--help",
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_show_help,
            text=message("cli.opt_help"),
        ),
    ]


@click.pass_context
def short_help(ctx: click.Context) -> int:
    """Show the short help of a group that was called without a command; returns the exit code 0."""
    if ctx.invoked_subcommand is None:
        streams.answer(help.short(ctx))
    return 0
