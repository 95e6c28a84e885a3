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
from tracer.bounds import check_query
from tracer.cli import collector, exits, interrupt, streams
from tracer.cli import progress as telling
from tracer.cli.inert import sentence
from tracer.cli.options import DiffOptions, RunOptions, ShowOptions
from tracer.texts import message

if TYPE_CHECKING:
    from tracer.engines.transformers.placement import Placement
    from tracer.page.onward import Origin
    from tracer.records import LayerTrace
    from tracer.render.terminal.screen import Screen
    from tracer.result import Trace


def trace(asked: RunOptions, language: str) -> int:
    """Trace what was asked for, deliver the answer, and return the exit code of its checks."""
    placement = _placement(asked)
    progress = streams.Progress(language, asked.verbose) if placement.renders else streams.Silence()
    try:
        layers = _traced(asked, progress, placement)
        heads = _heads(layers, asked.head)
    finally:
        progress.done()
    if not placement.renders:
        return exits.PASSED  # the first of the processes has the answer, and its exit code
    answer = _rendered(heads, asked, language)
    if asked.save is not None:
        from tracer.saved.write import save

        save(heads[0], asked.save)
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
    check_query(query, len(layer.tokens), layer.cached)
    heads = [look_at(replace(layer, request=replace(layer.request, head=head, query=query)), head)]
    deliver(_rendered(heads, asked, language), asked.output, language)
    return _code(heads, language)


def diff(asked: DiffOptions, language: str) -> int:
    """Compare two saved traces, deliver the answer; the exit code is 1 where they differ."""
    from tracer.saved.diff import diff as compare
    from tracer.saved.read import load

    found = compare(load(asked.a), load(asked.b))
    if asked.format == "json":
        from tracer.render import json_diff

        deliver(json_diff.dumps(found).encode("utf-8"), asked.output, language)
    else:
        from tracer.page.diff import diff_page
        from tracer.render.terminal.render import render

        page = diff_page(found, language, asked.a.name, asked.b.name)
        deliver(render(page, _surface(asked.output)), asked.output, language)
    return exits.PASSED if found.same else exits.FAILED


def _heads(layers: Sequence["LayerTrace"], head: int | None) -> list["Trace"]:
    from tracer.result import look_at

    return [
        look_at(layer, number) for layer in layers for number in (range(layer.model.heads) if head is None else [head])
    ]


def _code(heads: Sequence["Trace"], language: str) -> int:
    """The exit code for all of ``heads``. Side by side they leave no room for checks: failing ones are named here."""
    failed = [f"{traced.layer.request.layer}:{traced.head}" for traced in heads if traced.exit_code == exits.FAILED]
    if failed and len(heads) > 1:
        layer, head = failed[0].split(":")
        streams.say(message("cli.heads_failed", heads=", ".join(failed), layer=layer, first=head).text(language))
    codes = {traced.exit_code for traced in heads}
    return next((code for code in (exits.FAILED, exits.PASSED) if code in codes), exits.UNTESTED)


def _placement(asked: RunOptions) -> "Placement":
    """What was asked for with --device-map, and what torchrun, where it started this process, says of it."""
    from tracer.engines.transformers.placement import Placement
    from tracer.engines.transformers.ranks import ranks_of

    return Placement(asked.device_map, ranks_of(os.environ))


def _traced(
    asked: RunOptions, progress: streams.Progress | streams.Silence, placement: "Placement"
) -> tuple["LayerTrace", ...]:
    progress(message("cli.preparing"))
    from tracer import pipeline

    def layer_starts(layer: int, layers: int) -> None:
        collector.release()  # everything large is imported by the time the first layer runs
        telling.running(progress)(layer, layers)

    def read(bytes_read: int, bytes_stored: int | None) -> None:
        name = "cli.bytes_read" if bytes_stored is None else "cli.bytes_read_of"
        progress(message(name, read=bytes_read, stored=bytes_stored))

    # A saved trace opens at any head, and so does the page of all heads.
    every = asked.head is None or asked.save is not None
    try:
        return pipeline.trace_layers(
            asked.checkpoint,
            revision=asked.revision,
            layers=asked.layers or [asked.layer],
            head=asked.head or 0,
            heads=None if every else [asked.head or 0],
            query=asked.query,
            prompt=asked.prompt,
            tokens=asked.tokens,
            chat=asked.chat,
            engine=asked.engine,
            kernel=asked.kernel,
            device=asked.device,
            dtype=asked.dtype,
            progress=layer_starts,
            report=telling.fetching(progress),
            cost=read,
            light=True,
            placement=placement,
            cached=asked.cached,
            decode=asked.decode,
        )
    finally:
        collector.release()


def _rendered(heads: Sequence["Trace"], asked: RunOptions | ShowOptions, language: str) -> str | bytes:
    """The answer in the format asked for: bytes where its encoding is fixed, text where the stream's decides."""
    if asked.format == "json":
        return _json(heads, asked, language)
    if asked.format == "html":
        return _html(heads, asked, language)
    from tracer.render import text

    surface = _surface(asked.output)
    first = heads[0]
    if len(heads) > 1:
        layers = {id(traced.layer): traced.layer for traced in heads}
        return text.overview_text(list(layers.values()), language, surface, traces=heads)
    query = first.layer.request.query
    return text.head_text(first, language, surface, query=query, window=asked.window, origin=_origin(asked))


def _origin(asked: RunOptions | ShowOptions) -> "Origin":
    from tracer.page.onward import Origin

    if isinstance(asked, ShowOptions):
        return Origin.FILE
    return Origin.RUN if asked.save is None else Origin.KEPT


def _surface(output: Path | None) -> "Screen":
    """What the answer will be read on: the terminal, or a plain file."""
    from tracer.render.terminal.screen import Screen, screen

    if output is not None or sys.stdout is None:
        return Screen()
    return screen(streams.width(), streams.colour(sys.stdout), streams.encoding(), os.environ)


def _json(heads: Sequence["Trace"], asked: RunOptions | ShowOptions, language: str) -> bytes:
    from tracer.render import json, json_text

    window = json.WINDOW if asked.window is None else asked.window
    traces = [json.to_json(traced, language, window=window) for traced in heads]
    return json_text.dumps(traces if len(traces) > 1 else traces[0]).encode("utf-8")


def _html(heads: Sequence["Trace"], asked: RunOptions | ShowOptions, language: str) -> bytes:
    """A report of one head: the one asked for; of all, the first that fails a check, else the first."""
    from tracer.page.report import report
    from tracer.render.html.render import render

    shown = next((traced for traced in heads if traced.exit_code == exits.FAILED), heads[0])
    query = shown.layer.request.query
    return render(report(shown, language, query=query, size=asked.window, origin=_origin(asked))).encode("utf-8")


def deliver(answer: str | bytes, output: Path | None, language: str) -> None:
    """Put ``answer`` on standard output, or whole into the file ``output`` (as UTF-8), and then say so."""
    interrupt.check()
    if output is None:
        streams.answer(answer)
        return
    files.write_whole(output, answer.encode("utf-8") if isinstance(answer, str) else answer)
    _tell_written(output, language)


def _tell_written(place: Path, language: str) -> None:
    streams.say(sentence(message("cli.written", path=place), language))
