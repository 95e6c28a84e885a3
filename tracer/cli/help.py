"""The help pages: usage, purpose, examples, commands, options by heading. No boxes: they read the same in a pipe.

Must not know: any particular command.
"""

import sys
from collections.abc import Iterable, Iterator

import click
from rich.cells import cell_len

from tracer.cli import exits, streams
from tracer.cli.command import Argument, Option, about, language_of, line_of
from tracer.cli.wrap import wrap
from tracer.texts import Message, message

WIDEST = 100
LABEL_WIDTH = 25
INDENT = "  "
GAP = "  "

Row = tuple[str, Message]


def page(ctx: click.Context) -> str:
    """Return the whole help of the context's command, as wide as the terminal (at most 100 columns)."""
    writer = _Writer(language_of(ctx))
    lines = [
        *_opening(ctx, writer),
        *_examples(ctx, writer),
        *_commands(ctx, writer),
        *_parameters(ctx, writer),
        *_closing(ctx, writer),
    ]
    return "\n".join(lines) + "\n"


def short(ctx: click.Context) -> str:
    """Return the help for somebody who gave no command at all: the purpose, examples, commands, where to read on."""
    writer = _Writer(language_of(ctx))
    lines = [
        *_opening(ctx, writer),
        *_examples(ctx, writer),
        *_commands(ctx, writer),
        *writer.prose(message("cli.more_help", command=ctx.command_path)),
    ]
    return "\n".join(lines) + "\n"


class _Writer:
    """Lays texts out in one language and width."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._width = max(min(streams.width(), WIDEST), 20)
        self._colour = sys.stdout is not None and streams.colour(sys.stdout)

    def text(self, source: Message) -> str:
        return source.text(self.language)

    def heading(self, id: str) -> list[str]:
        return [self._styled(line, bold=True) for line in self.prose(message(id))]

    def prose(self, source: Message) -> list[str]:
        return wrap(self.text(source), self._width)

    def indented(self, source: Message, indent: str) -> list[str]:
        return [indent + line for line in wrap(self.text(source), self._width - len(indent))]

    def command_line(self, line: str) -> str:
        return self._styled(f"{INDENT}{line}", fg="cyan")

    def rows(self, rows: Iterable[Row], label_width: int = LABEL_WIDTH) -> Iterator[str]:
        """Two columns; a label that is too wide for its own has a line for itself; a narrow page stacks the two."""
        stacked = self._width < 2 * label_width
        column = len(INDENT) * 2 if stacked else len(INDENT) + label_width + len(GAP)
        for label, source in rows:
            lines = wrap(self.text(source), self._width - column)
            if stacked or cell_len(label) > label_width:
                yield INDENT + self._styled(label, fg="cyan")
            else:
                padding = " " * (label_width - cell_len(label))
                yield f"{INDENT}{self._styled(label, fg='cyan')}{padding}{GAP}{lines.pop(0)}"
            yield from (" " * column + line for line in lines)

    def _styled(self, text: str, *, fg: str | None = None, bold: bool = False) -> str:
        return click.style(text, fg=fg, bold=bold or None) if self._colour else text


def _opening(ctx: click.Context, writer: _Writer) -> Iterator[str]:
    described = about(ctx.command)
    usage = writer.text(message("cli.heading_usage"))  # with the space after it, where a language has one
    for place, form in enumerate(_forms(ctx, writer)):
        yield f"{usage if place == 0 else ' ' * cell_len(usage)}{form}"
    yield ""
    yield from writer.prose(described.line)
    if described.more is not None:
        yield ""
        yield from writer.prose(described.more)
    yield ""


def _forms(ctx: click.Context, writer: _Writer) -> list[str]:
    described = about(ctx.command)
    if described.usage is not None:
        return writer.text(described.usage).split("\n")
    arguments = [parameter.label for parameter in ctx.command.params if isinstance(parameter, Argument)]
    rest = message("cli.usage_command" if isinstance(ctx.command, click.Group) else "cli.usage_options")
    return [" ".join([ctx.command_path, *arguments, writer.text(rest)])]


def _examples(ctx: click.Context, writer: _Writer) -> Iterator[str]:
    examples = about(ctx.command).examples
    if not examples:
        return
    yield from writer.heading("cli.heading_examples")
    for example in examples:
        yield writer.command_line(example.line)
        yield from writer.indented(example.text, INDENT * 3)
    yield ""


def _commands(ctx: click.Context, writer: _Writer) -> Iterator[str]:
    if not isinstance(ctx.command, click.Group) or not ctx.command.commands:
        return
    yield from writer.heading("cli.heading_commands")
    yield from writer.rows((name, line_of(command)) for name, command in ctx.command.commands.items())
    yield ""


def _parameters(ctx: click.Context, writer: _Writer) -> Iterator[str]:
    by_heading: dict[str, list[Row]] = {}
    for parameter in (*about(ctx.command).borrowed, *ctx.command.params):
        if isinstance(parameter, Argument):
            by_heading.setdefault("cli.heading_arguments", []).append((parameter.label, parameter.text))
        elif isinstance(parameter, Option) and not parameter.hidden:
            by_heading.setdefault(parameter.heading, []).append((parameter.label, parameter.text))
    for heading, rows in by_heading.items():
        yield from writer.heading(heading)
        yield from writer.rows(rows)
        yield ""


def _closing(ctx: click.Context, writer: _Writer) -> Iterator[str]:
    yield from writer.heading("cli.heading_exit")
    own = about(ctx.command).exits
    for code in exits.ALL:
        yield from writer.rows([(str(code), own.get(code, message(f"cli.exit_{code}")))], label_width=3)
