"""``trace vendor``: bring the pinned upstream files to this machine, and say which are there.

Must not know: where files come from, what makes one right.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import click
from rich.cells import cell_len

from tracer.cli import common, exits, options, streams
from tracer.cli.command import About, Argument, Command, Example, Group, Option, language_of
from tracer.cli.values import Text, Word
from tracer.texts import Message, message

if TYPE_CHECKING:
    from tracer.vendoring.records import Progress, ReleaseReport
    from tracer.vendoring.status import FileStatus

_STATE_CODES = {"changed": exits.FAILED, "pinned": exits.PASSED}


def _projects() -> Sequence[str]:
    from tracer.source import pins

    return pins.projects()


def _sync(ctx: click.Context, /, projects: tuple[str, ...], index: str | None, verbose: bool) -> int:
    from tracer.vendoring.sync import sync

    language = language_of(ctx)
    progress = streams.Progress(language, verbose)
    try:
        report = sync(projects or None, index=index, report=lambda step: progress(_step(step)))
    finally:
        progress.done()
    lines = [line for release in report.releases for line in (_release(release), *_more(release))]
    lines.append(message("cli.vendor_folder", folder=str(report.folder)))
    streams.answer("".join(f"{line.text(language)}\n" for line in lines))
    return exits.PASSED


def _step(step: "Progress") -> Message:
    if step.note is not None:
        return step.note
    values = {"project": step.project, "version": step.version, "kib": -(-step.done // 1024)}
    return message(f"cli.vendor_step_{step.stage}", **values)


def _release(release: "ReleaseReport") -> Message:
    values = {"project": release.project, "version": release.version, "files": release.files}
    if release.origin is None:
        return message("cli.vendor_present", **values)
    read = {"archive": release.archive, "origin": release.origin, "kib": -(-release.bytes // 1024)}
    return message("cli.vendor_laid_out", **values, **read)


def _more(release: "ReleaseReport") -> Iterator[Message]:
    """What else is worth knowing of a release: changed files that were replaced, what was tried in vain before."""
    if release.replaced:
        yield message("vendor.replaced_one" if release.replaced == 1 else "vendor.replaced", files=release.replaced)
    yield from (message("vendor.noted", note=note) for note in release.notes)


def _status(ctx: click.Context, /, projects: tuple[str, ...]) -> int:
    from tracer.vendoring.status import status

    found = status(projects or None)
    streams.answer("".join(f"{line}\n" for line in _status_lines(found, language_of(ctx))))
    codes = {_STATE_CODES.get(entry.state, exits.UNTESTED) for entry in found}
    return next((code for code in (exits.FAILED, exits.PASSED) if code in codes), exits.UNTESTED)


def _status_lines(found: Sequence["FileStatus"], language: str) -> Iterator[str]:
    """One heading a release, one line a file, and below them each command that brings or mends some of them."""
    words = {entry.state: message(f"cli.vendor_state_{entry.state}").text(language) for entry in found}
    widest = max(map(cell_len, words.values()), default=0)
    for (project, version), files in groupby(found, lambda entry: (entry.project, entry.version)):
        entries = list(files)
        yield f"{project} {version}"
        for entry in entries:
            word = words[entry.state]
            yield f"  {word}{' ' * (widest - cell_len(word))}  {entry.member}"
        for command in dict.fromkeys(entry.command for entry in entries if entry.command is not None):
            yield f"    {message('cli.vendor_mend', command=command).text(language)}"


def _project_argument() -> Argument:
    return Argument(
        "projects",
        metavar="PROJECT",
        nargs=-1,
        required=False,
        type=Word(_projects),
        text=message("cli.arg_projects"),
    )


SYNC = Command(
    "sync",
    about=About(
        line=message("cli.vendor_sync"),
        more=message("cli.vendor_sync_more"),
        examples=(Example("trace vendor sync", message("cli.example_sync")),),
    ),
    callback=_sync,
    params=[
        _project_argument(),
        Option("--index", type=Text(), metavar="URL", text=message("cli.opt_index")),
        options.verbose_option(),
        *common.options(),
    ],
)
STATUS = Command(
    "status",
    about=About(line=message("cli.vendor_status"), more=message("cli.vendor_status_more")),
    callback=_status,
    params=[_project_argument(), *common.options()],
)
COMMAND = Group(
    "vendor",
    about=About(line=message("cli.vendor"), more=message("cli.vendor_more")),
    without_command=common.short_help,
    commands=(SYNC, STATUS),
    params=common.options(),
)
