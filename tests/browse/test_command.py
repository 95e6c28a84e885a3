"""`trace browse` on the command line, and what it costs to start."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.invented_trace import invented
from tracer.browse.app import BrowseApp
from tracer.cli.main import run
from tracer.result import look_at
from tracer.saved.write import save


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[BrowseApp]:
    """The applications that were started, on what looks like a terminal."""
    apps: list[BrowseApp] = []
    monkeypatch.setattr(BrowseApp, "run", lambda app: apps.append(app))
    monkeypatch.setattr("tracer.cli.commands.browse._no_terminal", lambda: None)
    monkeypatch.setenv("TERM", "xterm-256color")
    return apps


def test_a_pipe_gets_a_sentence_and_the_command_that_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(("browse", "qwen3", "--lang", "en")) == 2
    written = capsys.readouterr()
    assert written.out == ""
    assert "standard input is not one" in written.err
    assert "trace source qwen3" in written.err


@pytest.mark.parametrize(("language", "says"), [("en", "it can only print (TERM=dumb)"), ("zh", "TERM=dumb")])
def test_a_terminal_that_can_only_print_is_sent_no_codes(
    started: list[BrowseApp],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    language: str,
    says: str,
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert run(("browse", "qwen3", "--lang", language)) == 2
    written = capsys.readouterr()
    assert (started, written.out) == ([], "")
    assert "\x1b" not in written.err
    assert says in " ".join(written.err.split())
    assert "trace source qwen3" in written.err


def test_it_starts_in_the_language_asked_for(started: list[BrowseApp]) -> None:
    assert run(("browse", "qwen3", "--lang", "zh")) == 0
    assert [(app.language, app.shelf.layer) for app in started] == [("zh", None)]


def test_a_saved_trace_is_read_beside(started: list[BrowseApp], tmp_path: Path) -> None:
    file = tmp_path / "x.safetensors"
    save(look_at(invented(), 0), file)
    assert run(("browse", "qwen3", "--trace", str(file))) == 0
    layer = started[0].shelf.layer
    assert layer is not None
    assert layer.checkpoint.name == invented().checkpoint.name


def test_a_file_that_is_no_trace_is_refused(
    started: list[BrowseApp], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.safetensors").write_bytes(b"nothing")
    assert run(("browse", "qwen3", "--trace", str(tmp_path / "x.safetensors"))) == 2
    assert started == []
    assert "x.safetensors" in capsys.readouterr().err


def test_a_fault_ends_in_a_sentence_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = BrowseApp.run

    def broken(app: BrowseApp) -> object:
        raise RuntimeError("planted")

    monkeypatch.delenv("TRACER_DEBUG", raising=False)
    monkeypatch.setattr("tracer.cli.commands.browse._no_terminal", lambda: None)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(
        BrowseApp, "run", lambda app: real(app, headless=True, auto_pilot=lambda pilot: pilot.press("y"))
    )
    monkeypatch.setattr(BrowseApp, "action_cite", broken)
    assert run(("browse", "qwen3", "--lang", "en")) == 3
    written = capsys.readouterr()
    assert "planted" in written.err
    assert "Traceback" not in written.out + written.err


def test_an_unknown_model_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(("browse", "qwen4", "--lang", "en")) == 2
    assert "qwen3" in capsys.readouterr().err


INSTALLED = """
import asyncio, sys
from tracer.browse.app import BrowseApp
from tracer.browse.books import Shelf

async def main():
    app = BrowseApp(Shelf())
    async with app.run_test(size=(120, 40)) as pilot:
        await app.workers.wait_for_complete()
        await pilot.pause()
        print(app.spot.file, app.spot.code)
        app._go(app.book.place("scale"))
        await pilot.press("right_square_bracket")
        await app.workers.wait_for_complete()
        await pilot.pause()
        print(app.spot.file, app.spot.code)

asyncio.run(main())
print(sorted({"torch", "transformers"} & set(sys.modules)))
"""


def test_the_installed_transformers_is_read_without_being_imported(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path), "PATH": "", "HOME": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", INSTALLED], capture_output=True, text=True, env=environment, timeout=120, check=True
    )
    model = "transformers/models/qwen3/modeling_qwen3.py"
    assert ended.stdout.splitlines() == [f"{model} self.q_proj(hidden_states)", f"{model} self.scaling", "[]"]
