"""Commands, options and arguments as click has them, with their texts as Messages, so that one declaration speaks every
language; the language is the context's ``obj``. A mistake in usage leaves here as an InputError.

Must not know: any particular command.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click
from click.shell_completion import CompletionItem

from tracer.cli.usage import explained
from tracer.errors import InputError
from tracer.texts import Message

Run = Callable[..., int]


@dataclass(frozen=True)
class Example:
    """A command line worth trying, and what it shows."""

    line: str
    text: Message


@dataclass(frozen=True)
class About:
    """What a help page says about a command: one line, more to read after it, lines to try; how it is called where that
    is not simply its name, arguments and options; options of another command that belong on its page, too; and what
    exit codes say where that is not what they say everywhere."""

    line: Message
    more: Message | None = None
    usage: Message | None = None
    examples: tuple[Example, ...] = ()
    borrowed: tuple[click.Parameter, ...] = ()
    exits: Mapping[int, Message] = field(default_factory=dict)


class Option(click.Option):
    """An option with its help text and the heading it stands under."""

    def __init__(self, *names: str, text: Message, heading: str = "cli.heading_general", **attributes: Any) -> None:
        super().__init__(list(names), **attributes)
        self.text = text
        self.heading = heading

    @property
    def label(self) -> str:
        """``-o, --output FILE``."""
        value = "" if self.is_flag else f" {self.metavar}"
        return ", ".join(self.opts) + value


class Argument(click.Argument):
    """A positional argument with its help text."""

    def __init__(self, name: str, *, text: Message, metavar: str, **attributes: Any) -> None:
        super().__init__([name], metavar=metavar, **attributes)
        self.text = text
        self.label = metavar if self.required else f"[{metavar}]{'...' if self.nargs == -1 else ''}"


class Command(click.Command):
    """A command that explains itself, and whose callback returns an exit code."""

    def __init__(self, name: str, *, about: About, callback: Run, params: Sequence[click.Parameter]) -> None:
        super().__init__(name, callback=click.pass_context(callback), params=list(params), add_help_option=False)
        self.about = about

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, raising an InputError in the reader's terms where click would raise a UsageError."""
        ctx.allow_extra_args = True  # they come back as ``rest``, so that the error is ours
        try:
            rest = super().parse_args(ctx, args)
        except click.UsageError as error:
            raise explained(error, ctx) from error
        if rest and not ctx.resilient_parsing:
            raise InputError("cli.extra_arguments", extra=" ".join(rest), command=ctx.command_path)
        return rest

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Return the options that begin with ``incomplete``."""
        return option_completions(self, ctx, incomplete)


class Group(click.Group):
    """Commands under one name. ``without_command`` runs, too, where no further word was given."""

    def __init__(
        self,
        name: str,
        *,
        about: About,
        without_command: Callable[..., int],
        commands: Sequence[click.Command],
        params: Sequence[click.Parameter],
    ) -> None:
        super().__init__(
            name,
            commands=list(commands),
            params=list(params),
            add_help_option=False,
            no_args_is_help=False,
            invoke_without_command=True,
            callback=without_command,
        )
        self.about = about

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, raising an InputError in the reader's terms where click would raise a UsageError."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise explained(error, ctx) from error

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that ``args`` names; raises InputError with a suggestion where there is none."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            raise explained(error, ctx) from error

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Return the commands, then the options, that begin with ``incomplete``."""
        found = [
            CompletionItem(name, help=line_of(command).text(language_of(ctx)))
            for name, command in self.commands.items()
            if name.startswith(incomplete) and not incomplete.startswith("-")
        ]
        return [*found, *option_completions(self, ctx, incomplete)]


def option_completions(command: click.Command, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
    """Return the option names of ``command`` that begin with ``incomplete``, once it begins with a dash."""
    if not incomplete.startswith("-"):
        return []
    return [
        CompletionItem(name, help=option.text.text(language_of(ctx)))
        for option in command.params
        if isinstance(option, Option) and not option.hidden
        for name in option.opts
        if name.startswith(incomplete)
    ]


def about(command: click.Command) -> About:
    """Return what the help page says about ``command``; only commands of this module have that."""
    if not isinstance(command, Command | Group):
        raise TypeError(f"{command.name} is no tracer command")
    return command.about


def line_of(command: click.Command) -> Message:
    """Return the one line that says what ``command`` does."""
    return about(command).line


def language_of(ctx: click.Context) -> str:
    """Return the language this run speaks."""
    language: str = ctx.find_root().obj
    return language
