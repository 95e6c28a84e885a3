"""``trace lab``: small experiments with attention, from a calculation by hand to a kernel on a GPU.

Must not know: what a lab computes or says. numpy comes only with a lab that was asked for well, torch only with those
that must run something.
"""

import importlib
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracer.cli import common, options, streams
from tracer.cli.command import About, Command, Example, Group, Option, language_of
from tracer.cli.values import Text, Whole
from tracer.cli.wrap import wrap
from tracer.errors import InputError
from tracer.texts import Message, message

if TYPE_CHECKING:
    from tracer.labs.lesson import Lesson
    from tracer.render.terminal.screen import Screen

WHAT = "cli.heading_what"
OUTPUT = "cli.heading_output"


class Real(click.ParamType[float]):
    """A finite number between two bounds."""

    name = "number"

    def __init__(self, lowest: float, highest: float) -> None:
        self._bounds = (lowest, highest)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; raises InputError."""
        lowest, highest = self._bounds
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not lowest <= number <= highest:  # also NaN
            option = max(param.opts, key=len) if param is not None else ""
            raise InputError("labs.not_a_number", option=option, lowest=lowest, highest=highest, found=str(value))
        return number


def _text(name: str) -> Message:
    return message(f"labs.{name}")


def _option(name: str, kind: Any, metavar: str, text: str, **more: Any) -> Option:
    return Option(name, type=kind, metavar=metavar, heading=more.pop("heading", WHAT), text=_text(text), **more)


def _output_options() -> list[click.Parameter]:
    return [option for option in options.format_options() if "--window" not in option.opts]


def _seed(**more: Any) -> Option:
    return _option("--seed", Whole(), "N", more.pop("text", "opt_seed"), **more)


# ------------------------------------------------------------------------------------------------ answering


def _lab(module: str) -> Callable[..., int]:
    """Return the callback of a lab: its module's ``lesson`` takes the options, and its page or JSON goes out."""

    def run(ctx: click.Context, /, format: str, output: Path | None, **values: Any) -> int:
        options.check_outputs(output)
        lesson: Lesson = importlib.import_module(f"tracer.labs.{module}").lesson(**values)
        _deliver(lesson, format, output, language_of(ctx))
        return lesson.exit_code

    return run


def _deliver(lesson: "Lesson", format: str, output: Path | None, language: str) -> None:
    from tracer.cli import answers
    from tracer.render import json_text
    from tracer.render.terminal.render import render

    if format == "json":
        answers.deliver(json_text.dumps(lesson.json(language)).encode("utf-8"), output, language)
    else:
        answers.deliver(render(lesson.page(language), _screen(output)), output, language)


def _screen(output: Path | None) -> "Screen":
    from tracer.render.terminal.screen import Screen, screen

    if output is not None or sys.stdout is None:
        return Screen()
    return screen(streams.width(), streams.colour(sys.stdout), streams.encoding(), os.environ)


def _attention(ctx: click.Context, /, quiz: bool, **values: Any) -> int:
    if not quiz:
        return _lab("attention")(ctx, **values)
    format, output = values.pop("format"), values.pop("output")
    options.check_outputs(output)
    from tracer.cli import answers
    from tracer.labs import attention
    from tracer.labs import quiz as quizzing
    from tracer.render import json_text

    language = language_of(ctx)
    solution = attention.solved(**values)
    quizzing.check(solution, values["query"])
    score = quizzing.run(solution, values["query"], language, _Conversation(quiet=format == "json"))
    if format == "json":
        answers.deliver(json_text.dumps(score.json(language)).encode("utf-8"), output, language)
    return 0


class _Conversation:
    """Questions on standard output (standard error where that is kept for JSON), answers from standard input."""

    def __init__(self, quiet: bool) -> None:
        self._write: Callable[[str], None] = _to_stderr if quiet else streams.answer
        self._echo = sys.stdin is None or not sys.stdin.isatty()

    def tell(self, text: str) -> None:
        """Say ``text`` in lines of the terminal's width."""
        from tracer.page.visible import visible

        wide = max(min(streams.width(), 100) - 1, 20)
        lines = [piece for part in text.split("\n") for piece in wrap(visible(part), wide)]
        self._write("".join(f"{line}\n" for line in lines) + "\n")

    def ask(self, prompt: str) -> str | None:
        """Return the next line of standard input, None at its end."""
        self._write(prompt)
        data = b"" if sys.stdin is None else sys.stdin.buffer.readline(1 << 16)
        if not data:
            self._write("\n")
            return None
        answer = data.decode("utf-8", errors="replace").rstrip("\r\n")
        if self._echo:  # nobody typed it, so nobody has seen it
            from tracer.page.visible import visible

            self._write(f"{visible(answer[:200])}\n")
        return answer


def _to_stderr(text: str) -> None:
    streams.say(text.removesuffix("\n"))


# ------------------------------------------------------------------------------------------------ the labs

ATTENTION = Command(
    "attention",
    about=About(
        line=_text("cli_attention"),
        more=_text("cli_attention_more"),
        examples=(
            Example("trace lab attention", _text("example_attention")),
            Example('trace lab attention --scores "[0, 0]"', _text("example_exercise")),
            Example('trace lab attention --k keys.npy --v values.csv --q "[1, 2]"', _text("example_own")),
            Example('trace lab attention --mask "[1, 0]" --temperature 0.5', _text("example_mask")),
            Example("trace lab attention --quiz --seed 7", _text("example_quiz")),
        ),
    ),
    callback=_attention,
    params=[
        _option("--q", Text(), "JSON|FILE", "opt_q"),
        _option("--k", Text(), "JSON|FILE", "opt_k"),
        _option("--v", Text(), "JSON|FILE", "opt_v"),
        _option("--scores", Text(), "JSON|FILE", "opt_scores"),
        _option("--mask", Text(), "JSON|FILE|causal", "opt_mask"),
        _option("--scale", Real(-1e6, 1e6), "X", "opt_scale"),
        _option("--temperature", Real(1e-3, 1e6), "X", "opt_temperature", default=1.0),
        _option("--query", Whole(), "I", "opt_query", default=0),
        _seed(text="opt_seed_attention"),
        Option("--quiz", is_flag=True, heading=WHAT, text=_text("opt_quiz")),
        *_output_options(),
        *common.options(),
    ],
)

COMMAND = Group(
    "lab",
    about=About(line=_text("cli_lab"), more=_text("cli_lab_more")),
    without_command=common.short_help,
    commands=(ATTENTION,),
    params=common.options(),
)
