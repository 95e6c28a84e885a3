"""``trace verify MODEL``: is the attention right, and if not, which expression is wrong.

Must not know: how anything is verified or drawn.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from tracer.cli import common, options, prompt, streams, words
from tracer.cli.command import About, Argument, Command, Example, Option, language_of
from tracer.cli.options import RunOptions
from tracer.cli.values import Engine, File, Word
from tracer.errors import InputError
from tracer.texts import Message, message

if TYPE_CHECKING:
    from tracer.render.terminal.screen import Screen
    from tracer.verification.records import Verification

# What a trace of one head may be asked for, and a verification not.
_NOT_HERE = {"query": None}
_ENGINE = "transformers"
_FORMATS = ("terminal", "json")


class _Engine(Engine):
    """Any engine's name, for an answer that says what to do; but only the one that can be verified is offered."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        """Return the engine that can be verified."""
        return [CompletionItem(_ENGINE)] if _ENGINE.startswith(incomplete) else []


def _options() -> list[click.Parameter]:
    """Return the options of a run, but those that a verification has not."""
    engine = Option(
        "--engine",
        type=_Engine(words.ENGINES),
        default=_ENGINE,
        metavar="NAME",
        heading="cli.heading_how",
        text=message("cli.opt_engine", known=_ENGINE),
    )
    offered = [option for option in options.run_options() if option.name not in _NOT_HERE]
    return [engine if option.name == "engine" else option for option in offered]


def _verify(ctx: click.Context, /, **values: Any) -> int:
    language = language_of(ctx)
    if values["prompt_file"] == prompt.STANDARD_INPUT and (values["verbose"] or prompt.from_keyboard()):
        streams.say(message("cli.reading_standard_input").text(language))
    model, every, thorough, junit = (values.pop(name) for name in ("model", "all", "thorough", "junit"))
    some = next((name for name in ("layer", "layers", "head") if every and values[name] is not None), None)
    if some is not None:
        raise InputError("verify.all_with", option=f"--{some}")
    head = values.pop("head")
    asked = options.read(model, {**_NOT_HERE, "window": None, "save": None, "head": None, **values})
    options.check_outputs(asked.output, junit)
    progress = streams.Progress(language, asked.verbose)
    try:
        found = _found(asked, head, every, thorough, progress)
    finally:
        progress.done()
    _deliver(found, asked, junit, language)
    return found.exit_code


def _found(
    asked: RunOptions, head: int | None, every: bool, thorough: bool, progress: streams.Progress
) -> "Verification":
    progress(message("cli.preparing"))
    from tracer.cli import collector
    from tracer.verification.entry import verify_checkpoint  # reaches everything heavy

    collector.release()

    def report(done: int, total: int) -> None:
        progress(message("verify.progress", done=done, total=total))

    return verify_checkpoint(
        asked.checkpoint,
        revision=asked.revision,
        layers=None if every else asked.layers or (asked.layer,),
        heads=None if head is None else (head,),
        prompt=asked.prompt,
        tokens=asked.tokens,
        chat=asked.chat,
        engine=asked.engine,
        kernel=asked.kernel,
        device=asked.device,
        dtype=asked.dtype,
        thorough=thorough,
        progress=report,
    )


def _deliver(found: "Verification", asked: RunOptions, junit: Path | None, language: str) -> None:
    from tracer.cli.answers import deliver

    if junit is not None:
        from tracer.render import junit as xml

        deliver(xml.dumps(found, language).encode("utf-8"), junit, language)
    if asked.format == "json":
        from tracer.render import json_verify

        deliver(json_verify.dumps(found, language).encode("utf-8"), asked.output, language)
        return
    from tracer.render.terminal.render import render
    from tracer.verification.page import verify_page

    page = verify_page(found, language, every=asked.verbose)
    deliver(render(page, _surface(asked.output)), asked.output, language)


def _surface(output: Path | None) -> "Screen":
    from tracer.render.terminal.screen import Screen, screen

    if output is not None or sys.stdout is None:
        return Screen()
    return screen(streams.width(), streams.colour(sys.stdout), streams.encoding(), os.environ)


def _text(name: str) -> Message:
    return message(f"verify.{name}")


_WHAT = "cli.heading_what"
COMMAND = Command(
    "verify",
    about=About(
        line=_text("command"),
        more=_text("command_more"),
        examples=(
            Example("trace verify qwen3", _text("example_one")),
            Example("trace verify qwen3 --all", _text("example_all")),
            Example("trace verify qwen3 --all --format json -o verify.json --junit verify.xml", _text("example_ci")),
            Example("trace verify qwen3 --layer 1 --kernel eager --dtype bfloat16", _text("example_kernel")),
        ),
    ),
    callback=_verify,
    params=[
        Argument("model", metavar="MODEL", type=Word(words.MODELS), text=_text("arg_model")),
        Option("--all", is_flag=True, heading=_WHAT, text=_text("opt_all")),
        Option("--thorough", is_flag=True, heading=_WHAT, text=_text("opt_thorough")),
        *_options(),
        *options.format_options(_FORMATS),
        Option("--junit", type=File(), metavar="FILE", heading="cli.heading_output", text=_text("opt_junit")),
        options.verbose_option(),
        *common.options(),
    ],
)
