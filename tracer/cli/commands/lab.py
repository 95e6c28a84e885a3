"""``trace lab``: small experiments with attention, from a calculation by hand to a kernel on a GPU.

Must not know: what a lab computes or says. numpy comes only with a lab that was asked for well, torch only with those
that must run something.
"""

import importlib
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracer.cli import common, options, streams, words
from tracer.cli.command import About, Command, Example, Group, Option, language_of
from tracer.cli.conversation import Conversation
from tracer.cli.ranges import Real, Sizes
from tracer.cli.values import Device, File, Place, Text, Whole
from tracer.errors import InputError
from tracer.texts import Message, message

if TYPE_CHECKING:
    from tracer.labs.lesson import Lesson
    from tracer.render.terminal.screen import Screen

WHAT = "cli.heading_what"
OUTPUT = "cli.heading_output"


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
        lesson = replace(lesson, next=tuple(each for each in lesson.next if not _is_this(ctx, each.command)))
        _deliver(lesson, format, output, language_of(ctx))
        return lesson.exit_code

    return run


def _is_this(ctx: click.Context, command: str) -> bool:
    """Return whether ``command`` is what was just run: to go on with it would lead nowhere."""
    asked = shlex.split(command)
    if asked[1:3] != ["lab", ctx.info_name]:
        return False
    again = ctx.command.make_context(ctx.info_name, asked[3:], parent=ctx.parent)
    return all(_same(ctx.params[name], value) for name, value in again.params.items() if name not in _ANSWER)


# How an answer is given, not what is asked.
_ANSWER = frozenset(("format", "output"))


def _same(given: object, suggested: object) -> bool:
    """Return whether two values of an option ask for the same: ``[0,0]`` and ``[0, 0]`` do."""
    texts = isinstance(given, str) and isinstance(suggested, str)
    return given == suggested or (texts and "".join(str(given).split()) == "".join(str(suggested).split()))


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
    if output is not None and format != "json":
        raise InputError("labs.quiz_to_file")
    options.check_outputs(output)
    from tracer.cli import answers
    from tracer.labs import attention
    from tracer.labs import quiz as quizzing
    from tracer.render import json_text

    language = language_of(ctx)
    solution = attention.solved(**values)
    quizzing.check(solution, values["query"])
    score = quizzing.run(solution, values["query"], language, Conversation(quiet=format == "json"), values["seed"])
    if format == "json":
        answers.deliver(json_text.dumps(score.json(language)).encode("utf-8"), output, language)
    return 0


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

SOFTMAX = Command(
    "softmax",
    about=About(
        line=_text("cli_softmax"),
        more=_text("cli_softmax_more"),
        examples=(
            Example("trace lab softmax", _text("example_softmax")),
            Example('trace lab softmax --scores "[1000, 999]"', _text("example_softmax_own")),
        ),
    ),
    callback=_lab("softmax"),
    params=[
        _option("--scores", Text(), "JSON|FILE", "opt_softmax_scores"),
        *_output_options(),
        *common.options(),
    ],
)

SCALE = Command(
    "scale",
    about=About(
        line=_text("cli_scale"),
        more=_text("cli_scale_more"),
        examples=(
            Example("trace lab scale", _text("example_scale")),
            Example("trace lab scale --run --layer 1", _text("example_scale_run")),
            Example("trace lab scale --trace head.safetensors --head 2", _text("example_scale_trace")),
        ),
    ),
    callback=_lab("scale_page"),
    params=[
        _option("--dims", Sizes("16,64,256"), "D,D,...", "opt_dims", default=(1, 4, 16, 64, 128, 256, 1024)),
        _option("--samples", Whole(1), "N", "opt_samples", default=10_000),
        _option("--trace", File(), "FILE", "opt_trace"),
        Option("--run", is_flag=True, heading=WHAT, text=_text("opt_run")),
        _option("--head", Whole(), "N", "opt_head"),
        _option("--layer", Whole(), "N", "opt_layer", heading="cli.heading_model"),
        _option("--checkpoint", Place(), "DIR|HUB_ID", "opt_checkpoint", heading="cli.heading_model"),
        _option("--revision", Text(), "R", "opt_revision", heading="cli.heading_model"),
        _option("--prompt", Text(), "TEXT", "opt_prompt", heading="cli.heading_model"),
        _seed(default=0),
        *_output_options(),
        *common.options(),
    ],
)

MASK = Command(
    "mask",
    about=About(
        line=_text("cli_mask"),
        more=_text("cli_mask_more"),
        examples=(
            Example("trace lab mask", _text("example_mask_lab")),
            Example("trace lab mask --queries 5 --keys 2", _text("example_mask_empty")),
        ),
    ),
    callback=_lab("mask"),
    params=[
        _option("--keys", Whole(1), "N", "opt_keys", default=5),
        _option("--queries", Whole(1), "N", "opt_queries"),
        _option("--window", Whole(1), "N", "opt_window"),
        _seed(default=0),
        *_output_options(),
        *common.options(),
    ],
)

AXES = Command(
    "axes",
    about=About(
        line=_text("cli_axes"),
        more=_text("cli_axes_more"),
        examples=(Example("trace lab axes", _text("example_axes")),),
    ),
    callback=_lab("axes"),
    params=[
        _option("--tq", Whole(1), "N", "opt_tq", default=2),
        _option("--tk", Whole(1), "N", "opt_tk", default=3),
        _option("--d", Whole(1), "N", "opt_d", default=4),
        _option("--dv", Whole(1), "N", "opt_dv", default=5),
        _seed(default=0),
        *_output_options(),
        *common.options(),
    ],
)

FLASH = Command(
    "flash",
    about=About(
        line=_text("cli_flash"),
        more=_text("cli_flash_more"),
        examples=(
            Example("trace lab flash", _text("example_flash")),
            Example("trace lab flash --tile 5 --query 4", _text("example_flash_tile")),
        ),
    ),
    callback=_lab("flash"),
    params=[
        _option("--tile", Whole(1), "N", "opt_tile", default=4),
        _option("--keys", Whole(1), "N", "opt_flash_keys", default=12),
        _option("--query", Whole(), "I", "opt_flash_query"),
        Option("--all-keys", is_flag=True, heading=WHAT, text=_text("opt_all_keys")),
        Option("--backward", is_flag=True, heading=WHAT, text=_text("opt_backward")),
        _seed(default=0),
        *_output_options(),
        *common.options(),
    ],
)

GPU = Command(
    "gpu",
    about=About(
        line=_text("cli_gpu"),
        more=_text("cli_gpu_more"),
        examples=(
            Example("trace lab gpu", _text("example_gpu")),
            Example("trace lab gpu --device cpu --lengths 64,128,256", _text("example_gpu_lengths")),
        ),
    ),
    callback=_lab("gpu"),
    params=[
        _option("--lengths", Sizes("1024,2048,4096"), "T,T,...", "opt_lengths"),
        _option("--device", Device(words.DEVICES), "NAME", "opt_device", default="auto"),
        _seed(default=0),
        *_output_options(),
        *common.options(),
    ],
)

COMMAND = Group(
    "lab",
    about=About(
        line=_text("cli_lab"),
        more=_text("cli_lab_more"),
        examples=(
            Example("trace lab attention", _text("example_attention")),
            Example("trace lab attention --quiz --seed 7", _text("example_quiz")),
        ),
    ),
    without_command=common.short_help,
    commands=(ATTENTION, SOFTMAX, SCALE, MASK, AXES, FLASH, GPU),
    params=common.options(),
)
