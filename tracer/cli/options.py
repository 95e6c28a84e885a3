"""What a trace can be asked for on the command line, and the record that comes of it.

Must not know: how a trace is made or shown.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from tracer import files
from tracer.cli import words
from tracer.cli.command import Option
from tracer.cli.prompt import STANDARD_INPUT, read_prompt
from tracer.cli.values import Device, Engine, File, Layers, Place, Text, TokenIds, Whole, Word
from tracer.errors import InputError
from tracer.texts import Message, message


@dataclass(frozen=True)
class RunOptions:
    """What one trace was asked for, in plain values; None and "auto" are for the run to decide. Without a
    head it is all heads of the layer, side by side."""

    model: str
    layer: int = 0
    layers: range | None = None
    head: int | None = None
    query: int | None = None
    prompt: str | None = None
    tokens: tuple[int, ...] | None = None
    chat: bool = False
    checkpoint: str | None = None
    revision: str | None = None
    engine: str = "transformers"
    kernel: str = "auto"
    device: str = "auto"
    device_map: str | None = None
    dtype: str = "auto"
    format: str = "terminal"
    window: int | None = None
    output: Path | None = None
    save: Path | None = None
    verbose: bool = False
    cached: int = 0
    decode: bool = False


@dataclass(frozen=True)
class ShowOptions:
    """What is to be shown of a saved trace; None is what the trace itself was asked for."""

    file: Path
    head: int | None = None
    query: int | None = None
    format: str = "terminal"
    window: int | None = None
    output: Path | None = None


@dataclass(frozen=True)
class DiffOptions:
    """Which two saved traces are to be compared, and what comes out."""

    a: Path
    b: Path
    format: str = "terminal"
    output: Path | None = None


def format_options(formats: tuple[str, ...] = words.FORMATS, text: Message | None = None) -> list[click.Parameter]:
    """Return the options that say what comes out, one of ``formats``, and where; ``text`` explains the formats."""
    return [
        Option(
            "--format",
            type=Word(formats),
            default="terminal",
            metavar="|".join(formats),
            heading="cli.heading_output",
            text=text or message("cli.opt_format"),
        ),
        Option(
            "-o", "--output", type=File(), metavar="FILE", heading="cli.heading_output", text=message("cli.opt_output")
        ),
    ]


def window_option() -> Option:
    """Return ``--window``, for all that show a head's matrices."""
    return Option("--window", type=Whole(1), metavar="N", heading="cli.heading_output", text=message("cli.opt_window"))


def query_option() -> Option:
    """Return ``--query``."""
    return Option("--query", type=Whole(), metavar="I", heading="cli.heading_what", text=message("cli.opt_query"))


def run_options() -> list[click.Parameter]:
    """Return the options of every command that runs a model, in the order of the help page."""
    kernels, devices, dtypes = (", ".join(known) for known in (words.KERNELS, words.DEVICES, words.DTYPES))
    what, prompt, model, how = (f"cli.heading_{name}" for name in ("what", "prompt", "model", "how"))
    return [
        Option("--layer", type=Whole(), metavar="N", heading=what, text=message("cli.opt_layer")),
        Option("--layers", type=Layers(), metavar="A..B", heading=what, text=message("cli.opt_layers")),
        Option("--head", type=Whole(), metavar="N", heading=what, text=message("cli.opt_head")),
        query_option(),
        Option("--prompt", type=Text(), metavar="TEXT", heading=prompt, text=message("cli.opt_prompt")),
        Option("--prompt-file", type=File(), metavar="FILE|-", heading=prompt, text=message("cli.opt_prompt_file")),
        Option("--tokens", type=TokenIds(), metavar="1,2,3|@FILE|-", heading=prompt, text=message("cli.opt_tokens")),
        Option("--chat", is_flag=True, heading=prompt, text=message("cli.opt_chat")),
        Option("--checkpoint", type=Place(), metavar="DIR|HUB_ID", heading=model, text=message("cli.opt_checkpoint")),
        Option("--revision", type=Text(), metavar="R", heading=model, text=message("cli.opt_revision")),
        Option(
            "--engine",
            type=Engine(words.ENGINES),
            default="transformers",
            metavar="NAME",
            heading=how,
            text=message("cli.opt_engine", known=", ".join(words.ENGINES)),
        ),
        Option(
            "--kernel",
            type=Word(words.KERNELS),
            default="auto",
            metavar="NAME",
            heading=how,
            text=message("cli.opt_kernel", known=kernels),
        ),
        Option(
            "--device",
            type=Device(words.DEVICES),
            default="auto",
            metavar="NAME",
            heading=how,
            text=message("cli.opt_device", known=devices),
        ),
        Option(
            "--dtype",
            type=Word(words.DTYPES),
            default="auto",
            metavar="NAME",
            heading=how,
            text=message("cli.opt_dtype", known=dtypes),
        ),
    ]


def phase_options() -> list[click.Parameter]:
    """Return ``--cached`` and ``--decode``, for what traces one engine's code."""
    how = "cli.heading_how"
    return [
        Option("--cached", type=Whole(), default=0, metavar="N", heading=how, text=message("nanovllm.opt_cached")),
        Option("--decode", is_flag=True, heading=how, text=message("nanovllm.opt_decode")),
    ]


def device_map_option() -> Option:
    """Return ``--device-map``, for what runs a whole model over several devices."""
    return Option(
        "--device-map",
        type=Word(words.DEVICE_MAPS),
        metavar="|".join(words.DEVICE_MAPS),
        heading="cli.heading_how",
        text=message("parallel.opt_device_map"),
    )


def save_option() -> Option:
    """Return ``--save``."""
    return Option("--save", type=File(), metavar="FILE", heading="cli.heading_output", text=message("cli.opt_save"))


def verbose_option() -> Option:
    """Return ``--verbose``."""
    return Option("-v", "--verbose", is_flag=True, text=message("cli.opt_verbose"))


def read(model: str, values: Mapping[str, Any]) -> RunOptions:
    """Return what was asked for, the prompt's file read and the places to write to tried; raises InputError."""
    given = dict(values)
    prompt_file = given.pop("prompt_file")
    _check_prompt_sources(given, prompt_file)
    if given["revision"] is not None and given["checkpoint"] is None:
        raise InputError("cli.revision_alone")
    if given["layers"] is not None:
        alone = next((name for name in ("layer", "head", "query", "save") if given[name] is not None), None)
        if alone is not None:
            raise InputError("cli.one_layer_only", option=f"--{alone}")
    if given["query"] is not None and given["head"] is None:
        raise InputError("cli.query_without_head", query=given["query"])
    given["layer"] = given["layer"] or 0
    folder = given["checkpoint"]
    local = Path(folder) if folder is not None and os.path.isdir(folder) else None
    stdin = prompt_file == STANDARD_INPUT
    check_outputs(given["output"], given["save"], inputs=[None if stdin else prompt_file, local])
    if prompt_file is not None:
        given["prompt"] = read_prompt(prompt_file)
    return RunOptions(model=model, **given)


def check_outputs(*places: Path | None, inputs: Iterable[Path | None] = ()) -> None:
    """Find out, before any work is done, whether each of ``places`` can be written; raises InputError.

    ``inputs`` are files and folders that are read: nothing may be written over one or into one.
    """
    wanted = [place for place in places if place is not None]
    real = [Path(os.path.realpath(place)) for place in wanted]
    if len(real) != len(set(real)):
        raise InputError("cli.same_output", path=str(wanted[0]))
    read = [Path(os.path.realpath(place)) for place in inputs if place is not None]
    for place, target in zip(wanted, real, strict=True):
        over = next((source for source in read if target.is_relative_to(source)), None)
        if over is not None:
            raise InputError("cli.output_over_input", path=str(place), input=str(over))
        files.check_writable(place)


def _check_prompt_sources(given: Mapping[str, Any], prompt_file: Path | None) -> None:
    sources = {"--prompt": given["prompt"], "--prompt-file": prompt_file, "--tokens": given["tokens"]}
    named = [name for name, value in sources.items() if value is not None]
    if len(named) > 1:
        raise InputError("cli.one_prompt", named=", ".join(named))
    if given["chat"] and given["tokens"] is not None:
        raise InputError("cli.chat_with_tokens")
