"""click's usage errors told in our own words, by their type, never by their English wording.

Must not know: any particular command.
"""

import click

from tracer.cli.words import hint
from tracer.errors import InputError
from tracer.texts import message


def explained(error: click.UsageError, ctx: click.Context) -> InputError:
    """Return ``error``, which came up while ``ctx`` was being parsed, as an InputError: a text in every language."""
    see = message("cli.see_help", command=ctx.command_path)
    match error:
        case click.NoSuchOption():
            known = [name for option in ctx.command.params for name in option.opts if name.startswith("-")]
            return InputError(
                "cli.no_such_option",
                option=error.option_name,
                command=ctx.command_path,
                hint=hint(error.option_name, known, see),
            )
        case click.NoSuchCommand():
            known = list(ctx.command.commands) if isinstance(ctx.command, click.Group) else []
            return InputError(
                "cli.no_such_command",
                word=error.command_name,
                known=", ".join(known),
                hint=hint(error.command_name, known, see),
            )
        case click.BadOptionUsage():
            return _bad_option_use(error.option_name, ctx)
        case click.MissingParameter() if error.param is not None:
            return InputError("cli.missing_argument", argument=error.param.make_metavar(ctx), hint=see)
        case click.BadParameter() if error.param is not None:
            name = error.param.opts[0]
            return InputError("cli.bad_value", option=name, detail=error.message, hint=see)
        case _:
            return InputError("cli.usage", detail=error.message, hint=see)


def _bad_option_use(name: str, ctx: click.Context) -> InputError:
    option = next(option for option in ctx.command.params if name in option.opts)
    if isinstance(option, click.Option) and option.is_flag:
        return InputError("cli.option_takes_no_value", option=name)
    return InputError("cli.option_needs_value", option=name, value=option.make_metavar(ctx))
