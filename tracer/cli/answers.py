"""From a well-formed request to what comes out: trace or load, render, deliver, exit code. The only place where the
command line meets the pipeline and the renderers; everything heavy is imported here, when it is needed.

Must not know: options, usage.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tracer import files
from tracer.cli import collector, exits, streams
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
        heads = [traced] if asked.head is not None else _every_head(traced)
    finally:
        progress.done()
    answer = _rendered(heads, asked, language)
    if asked.save is not None:
        from tracer.saved.write import save

        save(traced, asked.save)
        _tell_written(asked.save, language)
    deliver(answer, asked.output, language)
    return _code(heads, language)


def show(asked: ShowOptions, language: str) -> int:
    """Show a saved trace, deliver the answer, and return the exit code of its checks, which run anew on its tensors."""
    from tracer.result import look_at
    from tracer.saved.read import load

    layer = load(asked.file)
    head = layer.request.head if asked.head is None else asked.head
    query = layer.request.query if asked.query is None else asked.query
    if query is not None and query >= len(layer.tokens):
        raise InputError("pipeline.query_range", query=query, last=len(layer.tokens) - 1)
    heads = [look_at(replace(layer, request=replace(layer.request, head=head, query=query)), head)]
    deliver(_rendered(heads, asked, language), asked.output, language)
    return _code(heads, language)


def _every_head(traced: "Trace") -> list["Trace"]:
    from tracer.result import look_at

    return [look_at(traced.layer, head) for head in range(traced.layer.model.heads)]


def _code(heads: Sequence["Trace"], language: str) -> int:
    """The exit code for all of ``heads``. Side by side they leave no room for checks: failing ones are named here."""
    failed = [str(traced.head) for traced in heads if traced.exit_code == exits.FAILED]
    if failed and len(heads) > 1:
        streams.say(message("cli.heads_failed", heads=", ".join(failed), first=failed[0]).text(language))
    codes = {traced.exit_code for traced in heads}
    return next((code for code in (exits.FAILED, exits.PASSED) if code in codes), exits.UNTESTED)


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
            head=asked.head or 0,
            query=asked.query,
            prompt=asked.prompt,
            tokens=asked.tokens,
            chat=asked.chat,
            engine=asked.engine,
            kernel=asked.kernel,
            device=asked.device,
            dtype=asked.dtype,
            all_heads=asked.head is None or asked.save is not None,  # a saved trace opens at any head
            progress=layer_starts,
        )
    finally:
        collector.release()


def _rendered(heads: Sequence["Trace"], asked: RunOptions | ShowOptions, language: str) -> str | bytes:
    """The answer in the format asked for: bytes where its encoding is fixed, text where the stream's decides."""
    if asked.format == "json":
        return _json(heads, asked, language)
    from tracer.render import text
    from tracer.render.terminal.screen import Screen, screen

    if asked.output is not None or sys.stdout is None:
        surface = Screen()
    else:
        surface = screen(streams.width(), streams.colour(sys.stdout), streams.encoding(), os.environ)
    first = heads[0]
    if len(heads) > 1:
        return text.overview_text([first.layer], language, surface)
    return text.head_text(first, language, surface, query=first.layer.request.query, window=asked.window)


def _json(heads: Sequence["Trace"], asked: RunOptions | ShowOptions, language: str) -> bytes:
    from tracer.render import json, json_text

    window = json.WINDOW if asked.window is None else asked.window
    traces = [json.to_json(traced, language, window=window) for traced in heads]
    return json_text.dumps(traces if len(traces) > 1 else traces[0]).encode("utf-8")


def deliver(answer: str | bytes, output: Path | None, language: str) -> None:
    """Put ``answer`` on standard output, or whole into the file ``output`` (as UTF-8), and then say so."""
    if output is None:
        streams.answer(answer)
        return
    files.write_whole(output, answer.encode("utf-8") if isinstance(answer, str) else answer)
    _tell_written(output, language)


def _tell_written(place: Path, language: str) -> None:
    streams.say(sentence(message("cli.written", path=place), language))
