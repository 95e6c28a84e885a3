"""From a well-formed request to what comes out: trace or load, render, deliver, exit code. The only place where the
command line meets the pipeline and the renderers; everything heavy is imported here, when it is needed.

Must not know: options, usage.
"""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tracer import files
from tracer.cli import collector, streams
from tracer.cli.inert import sentence
from tracer.cli.options import RunOptions, ShowOptions
from tracer.errors import InputError
from tracer.texts import message

if TYPE_CHECKING:
    from tracer.result import Trace


def trace(asked: RunOptions, language: str) -> int:
    """Trace what was asked for, deliver the answer, and return the exit code of its checks."""
    progress = streams.Progress(language, asked.verbose)
    try:
        traced = _traced(asked, progress)
    finally:
        progress.done()
    answer = _rendered(traced, asked, language)
    if asked.save is not None:
        from tracer.saved.write import save

        save(traced, asked.save)
        _tell_written(asked.save, language)
    deliver(answer, asked.output, language)
    return traced.exit_code


def show(asked: ShowOptions, language: str) -> int:
    """Show a saved trace, deliver the answer, and return the exit code of its checks, which run anew on its tensors."""
    from tracer.result import look_at
    from tracer.saved.read import load

    layer = load(asked.file)
    head = layer.request.head if asked.head is None else asked.head
    query = layer.request.query if asked.query is None else asked.query
    if query is not None and query >= len(layer.tokens):
        raise InputError("pipeline.query_range", query=query, last=len(layer.tokens) - 1)
    traced = look_at(replace(layer, request=replace(layer.request, head=head, query=query)), head)
    deliver(_rendered(traced, asked, language), asked.output, language)
    return traced.exit_code


def _traced(asked: RunOptions, progress: streams.Progress) -> "Trace":
    progress(message("cli.preparing"))
    from tracer import pipeline

    def layer_starts(layer: int, layers: int) -> None:
        collector.release()  # everything large is imported by the time the first layer runs
        progress(message("cli.running_layer", layer=layer, last=layers - 1))

    try:
        return pipeline.trace(
            asked.checkpoint,
            revision=asked.revision,
            layer=asked.layer,
            head=asked.head,
            query=asked.query,
            prompt=asked.prompt,
            tokens=asked.tokens,
            chat=asked.chat,
            engine=asked.engine,
            kernel=asked.kernel,
            device=asked.device,
            dtype=asked.dtype,
            all_heads=asked.save is not None,  # a saved trace opens at any head
            progress=layer_starts,
        )
    finally:
        collector.release()


def _rendered(traced: "Trace", asked: RunOptions | ShowOptions, language: str) -> str | bytes:
    """The answer in the format asked for: bytes where its encoding is fixed, text where the stream's decides."""
    if asked.format == "json":
        from tracer.render import json

        window = json.WINDOW if asked.window is None else asked.window
        return json.dumps(traced, language, window=window).encode("utf-8")
    from tracer.page.head import DEFAULT_WINDOW, head_page
    from tracer.render.terminal.render import render
    from tracer.render.terminal.screen import Screen, screen

    size = DEFAULT_WINDOW if asked.window is None else asked.window
    page = head_page(traced, language, query=traced.layer.request.query, size=size)
    if asked.output is not None or sys.stdout is None:
        return render(page, Screen())
    return render(page, screen(streams.width(), streams.colour(sys.stdout), streams.encoding(), os.environ))


def deliver(answer: str | bytes, output: Path | None, language: str) -> None:
    """Put ``answer`` on standard output, or whole into the file ``output`` (as UTF-8), and then say so."""
    if output is None:
        streams.answer(answer)
        return
    files.write_whole(output, answer.encode("utf-8") if isinstance(answer, str) else answer)
    _tell_written(output, language)


def _tell_written(place: Path, language: str) -> None:
    streams.say(sentence(message("cli.written", path=place), language))
