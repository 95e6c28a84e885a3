"""The command ``trace``: its commands, and the rule that a model's name stands for tracing that model.

Adding a command: write a module in ``commands/`` with a ``COMMAND``, and name it in ``COMMANDS``.
"""

import os

import click
from click.shell_completion import CompletionItem, get_completion_class

from tracer.cli import common, streams, words
from tracer.cli.command import About, Example, Group, Option, language_of
from tracer.cli.commands import browse, compare, diff, lab, lint, report, run, show, source, vendor, verify
from tracer.cli.values import Word
from tracer.engines.transformers.ranks import check_alone
from tracer.errors import InputError
from tracer.texts import message

NAME = "trace"
COMPLETE_VARIABLE = "_TRACE_COMPLETE"

COMMANDS: tuple[click.Command, ...] = (
    report.COMMAND,
    verify.COMMAND,
    show.COMMAND,
    source.COMMAND,
    browse.COMMAND,
    compare.COMMAND,
    diff.COMMAND,
    lint.COMMAND,
    lab.COMMAND,
    vendor.COMMAND,
)


class Root(Group):
    """``trace``: the first word is a command, or a model's name, which means ``run`` with that model."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; an option of a trace that stands before the model gets an error that says where it belongs."""
        try:
            return super().parse_args(ctx, args)
        except InputError as error:
            option = str(error.message.values.get("option"))
            if error.id == "cli.no_such_option" and any(option in known.opts for known in run.COMMAND.params):
                raise InputError("cli.option_before_model", option=option, model=words.MODELS[0]) from error
            raise

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command for the first word; raises InputError that suggests the model or command it may mean."""
        word = args[0]
        if word in words.MODELS:
            return word, run.COMMAND, args[1:]
        if word in self.commands and word != report.COMMAND.name and not ctx.resilient_parsing:
            check_alone(os.environ, word)
        if word in self.commands or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        raise _unknown(word, list(self.commands), [name for option in self.params for name in option.opts])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Return the models, commands and options that begin with ``incomplete``."""
        what = run.COMMAND.about.line.text(language_of(ctx))
        models = [CompletionItem(model, help=what) for model in words.MODELS if model.startswith(incomplete)]
        return [*models, *super().shell_complete(ctx, incomplete)]


def _unknown(word: str, commands: list[str], options: list[str]) -> InputError:
    model = words.MODELS[0]
    otherwise = message("cli.other_checkpoints", model=model)
    if f"--{word}" in options:  # ``trace help``, as some tools have it
        otherwise = message("cli.did_you_mean", words=f"{NAME} --{word}")
    if "/" in word or "\\" in word:
        return InputError("cli.place_for_model", word=word, model=model)
    return InputError(
        "cli.no_such_model_or_command",
        word=word,
        models=", ".join(words.MODELS),
        commands=", ".join(commands),
        hint=words.hint(word, [*words.MODELS, *commands], otherwise),
    )


def _show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from tracer.cli import versions  # reads the installed packages' records, which only this needs

        streams.answer(versions.page(language_of(ctx)))
        ctx.exit()


def _show_completion(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    shell = None if value is None or ctx.resilient_parsing else get_completion_class(value)
    if shell is not None:
        streams.answer(shell(ctx.command, {}, NAME, COMPLETE_VARIABLE).source() + "\n")
        ctx.exit()


def _options() -> list[click.Parameter]:
    return [
        *common.options(),
        Option(
            "--version",
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_show_version,
            text=message("cli.opt_version"),
        ),
        Option(
            "--show-completion",
            type=Word(words.SHELLS),
            is_eager=True,
            expose_value=False,
            metavar="|".join(words.SHELLS),
            callback=_show_completion,
            text=message("cli.opt_show_completion"),
        ),
    ]


ROOT = Root(
    NAME,
    about=About(
        line=message("cli.trace"),
        more=message("cli.trace_more", models=", ".join(words.MODELS)),
        usage=message("cli.trace_usage"),
        borrowed=tuple(run.OPTIONS),
        examples=(
            Example("trace qwen3 --layer 0 --head 2", message("cli.example_head")),
            Example("trace qwen3 --layer 1", message("cli.example_layer")),
            Example("trace qwen3 --layer 1 --head 3 --prompt 'the cat sat on the mat'", message("cli.example_prompt")),
            Example("trace qwen3 --checkpoint Qwen/Qwen3-0.6B --layer 14 --head 5", message("cli.example_checkpoint")),
        ),
    ),
    without_command=common.short_help,
    commands=COMMANDS,
    params=_options(),
)
