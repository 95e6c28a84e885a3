"""click's usage errors told in our own words, by their type, never by their English wording.

Must not know: any particular command.
"""

from collections.abc import Iterable

import click

from tracer.cli.words import MODELS, hint, nearest
from tracer.errors import InputError
from tracer.texts import Message, message


def explained(error: click.UsageError, ctx: click.Context) -> InputError:
    """Return ``error``, which came up while ``ctx`` was being parsed, as an InputError: a text in every language."""
    see = message("cli.see_help", command=ctx.command_path)
    match error:
        case click.NoSuchOption():
            return InputError(
                "cli.no_such_option",
                option=error.option_name,
                command=ctx.command_path,
                hint=_hint(error.option_name, ctx, see),
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


def _hint(option: str, ctx: click.Context, otherwise: Message) -> Message:
    """Return which commands have ``option``, or what it may be a misspelling of; an option of this command that the
    word only lengthens or shortens, as --layers does --layer, is likelier than another command."""
    known = [name for each in ctx.command.params for name in each.opts if name.startswith("-")]
    alike = [name for name in nearest(option, known) if name.startswith(option) or option.startswith(name)]
    owners = [] if alike else _owners(option, ctx.find_root())
    return message("cli.option_elsewhere", commands=", ".join(owners)) if owners else hint(option, known, otherwise)


def _owners(option: str, root: click.Context) -> list[str]:
    """Return the commands that have ``option``, as they are called, that of a model first."""
    borrowed = getattr(getattr(root.command, "about", None), "borrowed", ())
    model = [f"{root.info_name} {MODELS[0]}"] if _has(borrowed, option) else []
    return [*model, *_below(option, root.command, str(root.info_name))]


def _below(option: str, command: click.Command, path: str) -> list[str]:
    found: list[str] = []
    for name, inner in command.commands.items() if isinstance(command, click.Group) else ():
        found += [f"{path} {name}"] if _has(inner.params, option) else []
        found += _below(option, inner, f"{path} {name}")
    return found


def _has(params: Iterable[click.Parameter], option: str) -> bool:
    return any(option in param.opts for param in params)


def _bad_option_use(name: str, ctx: click.Context) -> InputError:
    option = next(option for option in ctx.command.params if name in option.opts)
    if isinstance(option, click.Option) and option.is_flag:
        return InputError("cli.option_takes_no_value", option=name)
    return InputError("cli.option_needs_value", option=name, value=option.make_metavar(ctx))
