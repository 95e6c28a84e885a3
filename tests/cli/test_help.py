"""Help: complete, within 80 columns, in both languages, with examples that work."""

import platform
import shlex
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import click
import pytest
from rich.cells import cell_len

from tracer.cli.app import ROOT
from tracer.cli.command import Command, Group, Option
from tracer.cli.commands import run
from tracer.texts import LANGUAGES

Trace = Callable[..., Any]


def pages(group: click.Group, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = [path]
    for name, command in group.commands.items():
        found += pages(command, (*path, name)) if isinstance(command, click.Group) else [(*path, name)]
    return found


PAGES = [*pages(ROOT), ("qwen3",)]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: " ".join(page) or "trace")
def test_every_help_page_fits_80_columns_in_every_language(trace: Trace, page: tuple[str, ...], language: str) -> None:
    ended = trace(*page, "--lang", language, "--help")
    assert (ended.code, ended.err) == (0, "")
    assert max(cell_len(line) for line in ended.out.splitlines()) <= 80
    assert not any(line != line.rstrip() for line in ended.out.splitlines())


def test_a_narrow_terminal_gets_options_above_their_texts(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    out = trace("qwen3", "--help").out
    assert "\n  --layer N\n    Which layer, from 0 (default 0).\n" in out


def test_the_help_of_a_trace_groups_its_options(trace: Trace) -> None:
    out = trace("qwen3", "--help").out
    assert out.startswith("Usage: trace qwen3 [OPTIONS]\n\nRuns one layer's attention")
    headings = ["Examples", "What to look at", "The prompt", "The checkpoint", "How it runs", "What comes out"]
    places = [out.index(f"\n{heading}") for heading in [*headings, "General", "Exit codes"]]
    assert places == sorted(places)
    for option in run.COMMAND.params:
        assert isinstance(option, Option)
        assert f"  {option.label}" in out


def test_the_main_page_lists_the_commands_and_the_options_of_a_trace(trace: Trace) -> None:
    out = trace("--help").out
    assert out.startswith("Usage: trace MODEL [OPTIONS]\n       trace COMMAND [OPTIONS]\n")
    for word in (*ROOT.commands, "--layer N", "--kernel NAME", "--version", "--show-completion bash|zsh|fish"):
        assert f"\n  {word}" in out


def test_help_in_chinese_has_no_english_heading(trace: Trace) -> None:
    out = trace("--help", "--lang", "zh").out
    assert out.startswith("用法：trace MODEL [选项]\n      trace 命令 [选项]\n")
    for heading in ("Usage", "Examples", "Options", "Commands", "General", "default"):
        assert heading not in out


def test_trace_alone_is_a_short_help(trace: Trace) -> None:
    ended = trace()
    assert (ended.code, ended.err) == (0, "")
    assert "trace qwen3 --layer 0 --head 2" in ended.out
    assert ended.out.endswith("\ntrace --help lists every option.\n")
    assert len(ended.out.splitlines()) <= 23 + 2 * len(ROOT.commands)


def test_help_comes_even_with_mistakes_before_it(trace: Trace) -> None:
    assert trace("qwen3", "--kernel", "nonsense", "-h").out.startswith("Usage: trace qwen3")


def commands() -> list[Command | Group]:
    found: list[Command | Group] = [ROOT, run.COMMAND]
    for command in found:
        if isinstance(command, Group):
            found += [child for child in command.commands.values() if isinstance(child, Command | Group)]
    return found


@pytest.mark.parametrize("line", sorted({example.line for command in commands() for example in command.about.examples}))
def test_every_example_is_understood(line: str) -> None:
    name, *arguments = shlex.split(line)
    assert name == "trace"
    context = ROOT.make_context(name, arguments, obj="en")
    while isinstance(context.command, click.Group):
        rest = [*context._protected_args, *context.args]
        word, command, rest = context.command.resolve_command(context, rest)
        assert command is not None
        context = command.make_context(word, rest, parent=context)


def test_every_command_is_adorned_with_common_options() -> None:
    for command in commands():
        assert {"--help", "--lang"} <= {name for parameter in command.params for name in parameter.opts}


def test_versions_start_no_other_program() -> None:
    """In a process of its own: what is heard there cannot be unheard."""
    code = """if True:
        import sys
        def heard(event, arguments):
            if event in ("subprocess.Popen", "os.posix_spawn", "os.system", "os.exec", "os.fork", "os.forkpty"):
                print("started", event, arguments, file=sys.stderr)
        sys.addaudithook(heard)
        from tracer.cli.main import run
        run(["--version"])
    """
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert platform.machine() in ended.stdout
    assert platform.release() in ended.stdout
    assert ended.stderr == ""


def test_versions_are_listed_one_a_line(trace: Trace) -> None:
    ended = trace("--version")
    assert ended.code == 0
    lines = dict(line.split(" ", 1) for line in ended.out.splitlines())
    assert {"trace", "Python", "torch", "transformers", "safetensors", "numpy"} <= set(lines)
    assert "未安装" in trace("--version", "--lang", "zh").out or "flash-attn" in lines
