"""``trace report MODEL``: one head as an HTML file to stay in.

Must not know: how a trace or a report is made.
"""

from typing import Any

import click

from tracer.cli import common, formats, options, prompt, streams, words
from tracer.cli.command import About, Argument, Command, Example, Option, language_of
from tracer.cli.values import Word
from tracer.texts import message


def _report(ctx: click.Context, /, **values: Any) -> int:
    if values["prompt_file"] == prompt.STANDARD_INPUT and (values["verbose"] or prompt.from_keyboard()):
        streams.say(message("cli.reading_standard_input").text(language_of(ctx)))
    if values["query"] is not None and values["head"] is None:
        values["head"] = 0
    asked = formats.as_report(options.read(values.pop("model"), {**values, "layers": None, "format": formats.HTML}))
    from tracer.cli import answers  # reaches the pipeline, and with it everything heavy: only for a well-formed request

    return answers.trace(asked, language_of(ctx))


# What a report has no use for, and what means something else here than for a page in a terminal.
_LEFT_OUT = ("layers", "format")
_TEXTS = {"head": message("report.opt_head"), "window": message("report.opt_window")}


def _params() -> list[click.Parameter]:
    found = [*options.run_options(), *options.phase_options(), *options.format_options(), options.window_option()]
    for option in found:
        if isinstance(option, Option) and option.name in _TEXTS:
            option.text = _TEXTS[option.name]
    return [option for option in found if option.name not in _LEFT_OUT]


COMMAND = Command(
    "report",
    about=About(
        line=message("report.command"),
        more=message("report.command_more"),
        examples=(
            Example("trace report qwen3 -o report.html", message("report.example")),
            Example("trace report qwen3 --layer 1 --head 5 --lang zh -o report.html", message("report.example_head")),
            Example("trace show head.safetensors --format html -o report.html", message("report.example_saved")),
        ),
    ),
    callback=_report,
    params=[
        Argument("model", metavar="MODEL", type=Word(words.MODELS), text=message("report.arg_model")),
        *_params(),
        options.save_option(),
        options.verbose_option(),
        *common.options(),
    ],
)
