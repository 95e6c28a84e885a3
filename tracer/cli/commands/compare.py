"""``trace compare MODEL``: the same checkpoint and prompt on two engines, versions or kernels, step by step.

Must not know: how sides are run, lined up or drawn.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from tracer.cli import common, options, prompt, streams, words
from tracer.cli import progress as telling
from tracer.cli.command import About, Argument, Command, Example, Option, language_of
from tracer.cli.options import RunOptions
from tracer.cli.values import Engine, Word
from tracer.errors import InputError
from tracer.texts import Message, message

if TYPE_CHECKING:
    from tracer.compare.records import Comparison
    from tracer.render.terminal.screen import Screen

# What a trace of one head is asked for has no meaning for all heads of two runs.
_NOT_HERE = {"layers": None, "head": None, "query": None, "engine": "transformers", "kernel": "auto"}


class Names(click.ParamType[tuple[str, ...]]):
    """Words of one kind, separated by commas."""

    name = "names"

    def __init__(self, kind: Word) -> None:
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Return the words; raises InputError for one that is not known, with a suggestion."""
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).split(",")]
        if not all(parts):
            raise InputError("compare.empty_name", found=value, known=", ".join(self._kind.known))
        return tuple(self._kind.convert(part, param, ctx) for part in parts)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        """Return what is typed with its last word completed, to each known word that is not among those before."""
        before, comma, last = incomplete.rpartition(",")
        named = before.split(",")
        return [
            CompletionItem(f"{before}{comma}{word}")
            for word in self._kind.known
            if word.startswith(last) and word not in named
        ]


def _compare(ctx: click.Context, /, **values: Any) -> int:
    language = language_of(ctx)
    if values["prompt_file"] == prompt.STANDARD_INPUT and (values["verbose"] or prompt.from_keyboard()):
        streams.say(message("cli.reading_standard_input").text(language))
    model, engines, kernels = (values.pop(name) for name in ("model", "engines", "kernels"))
    if len(engines) < 2 and len(kernels) < 2:
        raise InputError("compare.one_side", engines=",".join(words.ENGINES))
    asked = options.read(model, {**_NOT_HERE, "window": None, "save": None, **values})
    progress = streams.Progress(language, asked.verbose)
    try:
        found = _found(asked, engines, kernels, progress)
    finally:
        progress.done()
    _deliver(found, asked, language)
    return max(comparison.exit_code for comparison in found)


def _found(
    asked: RunOptions, engines: tuple[str, ...], kernels: tuple[str, ...], progress: streams.Progress
) -> "tuple[Comparison, ...]":
    progress(message("cli.preparing"))
    from tracer.compare.run import Asked, compare  # reaches the pipeline, and with it everything heavy

    return compare(
        Asked(
            engines=engines,
            kernels=kernels,
            layer=asked.layer,
            checkpoint=asked.checkpoint,
            revision=asked.revision,
            prompt=asked.prompt,
            tokens=asked.tokens,
            chat=asked.chat,
            device=asked.device,
            dtype=asked.dtype,
            progress=telling.running(progress),
            report=telling.fetching(progress),
        )
    )


def _deliver(found: "Sequence[Comparison]", asked: RunOptions, language: str) -> None:
    from tracer.cli.answers import deliver

    if asked.format == "json":
        from tracer.compare import json

        deliver(json.dumps(found, language).encode("utf-8"), asked.output, language)
        return
    from tracer.compare.page import compare_page
    from tracer.render.terminal.render import render

    surface = _surface(asked.output)
    deliver("\n".join(render(compare_page(one, language), surface) for one in found), asked.output, language)


def _surface(output: Path | None) -> "Screen":
    from tracer.render.terminal.screen import Screen, screen

    if output is not None or sys.stdout is None:
        return Screen()
    return screen(streams.width(), streams.colour(sys.stdout), streams.encoding(), os.environ)


def _run_options() -> list[click.Parameter]:
    """The options of a run that both sides share."""
    return [option for option in options.run_options() if option.name not in _NOT_HERE]


def _text(name: str, **values: Mapping[str, object] | str) -> Message:
    return message(f"compare.{name}", **values)


_WHAT = "cli.heading_what"
COMMAND = Command(
    "compare",
    about=About(
        line=_text("command"),
        more=_text("command_more"),
        examples=(
            Example("trace compare qwen3 --engines transformers,nano-vllm", _text("example_engines")),
            Example("trace compare qwen3 --engines transformers,nano-vllm --dtype bfloat16", _text("example_dtype")),
            Example("trace compare qwen3 --engines transformers,transformers@5.16.1", _text("example_versions")),
            Example("trace compare qwen3 --kernels cpu-flash,eager,sdpa", _text("example_kernels")),
        ),
        exits={0: _text("exit_0"), 1: _text("exit_1"), 3: _text("exit_3")},
    ),
    callback=_compare,
    params=[
        Argument("model", metavar="MODEL", type=Word(words.MODELS), text=_text("arg_model")),
        Option(
            "--engines",
            type=Names(Engine(words.ENGINES)),
            default=("transformers",),
            metavar="A,B",
            heading=_WHAT,
            text=_text("opt_engines", known=", ".join(words.ENGINES)),
        ),
        Option(
            "--kernels",
            type=Names(Word(words.KERNELS)),
            default=("auto",),
            metavar="A,B",
            heading=_WHAT,
            text=_text("opt_kernels", known=", ".join(words.KERNELS)),
        ),
        *_run_options(),
        *options.format_options(),
        options.verbose_option(),
        *common.options(),
    ],
)
