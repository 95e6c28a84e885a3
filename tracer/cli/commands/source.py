"""``trace source``: the annotated source of a framework: explanations, places, paths of values, one table of all.

Must not know: where anything stands, how it is drawn.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracer.cli import common, exits, options, streams, words
from tracer.cli.command import About, Argument, Command, Example, Option, language_of
from tracer.cli.values import File, Suggested
from tracer.errors import InputError
from tracer.texts import message

FORMATS = ("terminal", "json")

if TYPE_CHECKING:
    from tracer.reading.ask import Asked
    from tracer.records import LayerTrace
    from tracer.render.terminal.screen import Screen


def _source(ctx: click.Context, /, **values: Any) -> int:
    name = _name(values["names"])
    _check_alone(values, name)
    language = language_of(ctx)
    output = values["output"]
    options.check_outputs(output, inputs=[values["trace"]])
    if values["check"]:
        return _check(language)
    from tracer.cli.answers import deliver
    from tracer.reading.ask import Asked  # reads the annotations and, for most pages, the source

    asked = Asked(
        name=name,
        framework=values["framework"],
        listing=values["list"],
        frameworks=values["frameworks"],
        layer=_layer(values["trace"]),
    )
    deliver(_answer(asked, language, values["format"], output, values["verbose"]), output, language)
    return exits.PASSED


def _answer(asked: "Asked", language: str, format: str, output: Path | None, verbose: bool) -> str:
    if format == "json":
        from tracer.reading.jsonable import to_json
        from tracer.render import json_text

        return json_text.dumps(to_json(asked, language))
    from tracer.reading.addresses import addresses
    from tracer.reading.ask import page
    from tracer.render.terminal.render import render

    surface = _screen(output)
    shown = page(asked, language, surface.width)
    text = render(shown, surface)
    if verbose or not surface.links:  # a place is a link on a terminal that takes links; elsewhere it is written out
        found = addresses(shown)
        heading = message("source_pages.links_heading").text(language)
        rows = [f" {place}\n   {url}\n" for place, url in found]
        text += f"\n {heading}\n{''.join(rows)}" if found else ""
    return text


def _name(names: tuple[str, ...]) -> str | None:
    """Return what to show; the model's name may stand before it, or alone, or be left out."""
    rest = names[1:] if names and names[0] in words.MODELS else names
    if len(rest) > 1:
        raise InputError("cli.extra_arguments", extra=" ".join(rest[1:]), command="trace source")
    return rest[0] if rest else None


def _known_names(ctx: click.Context) -> tuple[str, ...]:
    """Return what may stand next: a model, or what can be shown of the code base."""
    from tracer.reading import catalogue
    from tracer.reading.library import library

    given = ctx.params.get("names") or ()
    if given and (given[0] not in words.MODELS or len(given) > 1):
        return ()
    framework = (ctx.params.get("framework") or "transformers").partition("@")[0]
    places = library(framework).places if framework in catalogue.FRAMEWORKS else ()
    shown = (*catalogue.VALUES, *catalogue.lessons(), *catalogue.REFERENCES, *places)
    return tuple(dict.fromkeys(shown if given else (*words.MODELS, *shown)))


def _known_frameworks(ctx: click.Context) -> tuple[str, ...]:
    from tracer.reading.catalogue import FRAMEWORKS

    return FRAMEWORKS


def _check_alone(values: dict[str, Any], name: str | None) -> None:
    given = [f"--{option}" for option in ("check", "frameworks", "list") if values[option]]
    if given == ["--frameworks", "--list"]:
        given = ["--frameworks --list"]  # the places of all frameworks
    if name is not None:
        given.append(name)
    if values["framework"] and (values["check"] or values["frameworks"]):
        given.append("--framework")
    if len(given) > 1:
        raise InputError("source_pages.one_question", given=", ".join(given))


def _layer(file: Path | None) -> "LayerTrace | None":
    if file is None:
        return None
    from tracer.saved.read import load

    return load(file)


def _screen(output: Path | None) -> "Screen":
    from tracer.render.terminal import screen

    if output is not None or sys.stdout is None:
        return screen.Screen()
    return screen.screen(streams.width(), streams.colour(sys.stdout), streams.encoding(), os.environ)


def _check(language: str) -> int:
    from tracer.reading.check import check

    codes = set()
    for finding in check():
        streams.answer(f"{finding.text.text(language)}\n")
        codes.add(exits.UNTESTED if finding.held is None else exits.PASSED if finding.held else exits.FAILED)
    return next(code for code in (exits.FAILED, exits.UNTESTED, exits.PASSED) if code in codes)


COMMAND = Command(
    "source",
    about=About(
        line=message("source_pages.cli"),
        more=message("source_pages.cli_more"),
        usage=message("source_pages.cli_usage"),
        examples=(
            Example("trace source qwen3", message("source_pages.example")),
            Example("trace source qwen3 scale --framework nano-vllm", message("source_pages.example_scale")),
            Example("trace source qwen3 --frameworks", message("source_pages.example_frameworks")),
            Example("trace source --framework flash-attn --lang zh", message("source_pages.example_kernel")),
        ),
    ),
    callback=_source,
    params=[
        Argument(
            "names",
            metavar="MODEL [NAME]",
            nargs=-1,
            required=False,
            type=Suggested(_known_names),
            text=message("source_pages.arg_names"),
        ),
        Option(
            "--framework",
            type=Suggested(_known_frameworks),
            metavar="NAME[@VERSION]",
            text=message("source_pages.opt_framework"),
        ),
        Option("--frameworks", is_flag=True, text=message("source_pages.opt_frameworks")),
        Option("--list", is_flag=True, text=message("source_pages.opt_list")),
        Option("--check", is_flag=True, text=message("source_pages.opt_check")),
        Option("--trace", type=File(), metavar="FILE", text=message("source_pages.opt_trace")),
        *options.format_options(FORMATS, message("source_pages.opt_format")),
        Option("--verbose", is_flag=True, heading="cli.heading_output", text=message("source_pages.opt_verbose")),
        *common.options(),
    ],
)
