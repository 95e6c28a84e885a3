"""``trace MODEL``: run one layer's attention, show one head of it or all, and end with whether the checks passed.

Must not know: how a trace is made, checked or drawn.
"""

from typing import Any

import click

from tracer.cli import common, formats, options, prompt, streams
from tracer.cli.command import About, Command, Example, language_of
from tracer.texts import message


def _run(ctx: click.Context, /, **values: Any) -> int:
    if values["prompt_file"] == prompt.STANDARD_INPUT and (values["verbose"] or prompt.from_keyboard()):
        streams.say(message("cli.reading_standard_input").text(language_of(ctx)))
    asked = options.read(str(ctx.info_name), values)
    formats.check(asked)
    from tracer.cli import answers  # reaches the pipeline, and with it everything heavy: only for a well-formed request

    return answers.trace(asked, language_of(ctx))


OPTIONS = [
    *options.run_options(),
    *options.phase_options(),
    options.device_map_option(),
    *formats.format_options(),
    options.window_option(),
    options.save_option(),
    options.verbose_option(),
]

COMMAND = Command(
    "run",
    about=About(
        line=message("cli.run"),
        more=message("cli.run_more"),
        examples=(
            Example("trace qwen3 --layer 0 --head 2", message("cli.example_head")),
            Example("trace qwen3 --layer 1", message("cli.example_layer")),
            Example("trace qwen3 --head 2 --prompt-file poem.txt --query 5", message("cli.example_query")),
            Example("trace qwen3 --tokens 5,9,5,9,5 --format json -o trace.json", message("cli.example_json")),
            Example("trace qwen3 --engine nano-vllm --decode --head 2", message("nanovllm.example_decode")),
            Example("trace qwen3 --head 2 --kernel sdpa --save head.safetensors", message("cli.example_save")),
        ),
    ),
    callback=_run,
    params=[*OPTIONS, *common.options()],
)
