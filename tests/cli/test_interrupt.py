"""A Ctrl-C that Python loses, in a callback of its import system or in C code, ends the command all the same."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tracer.cli import answers, interrupt, streams
from tracer.cli.app import ROOT
from tracer.errors import InputError
from tracer.texts import message

Trace = Callable[..., Any]


@pytest.fixture
def listening(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ctrl-C as the command listens for it, and lost once."""
    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(interrupt, "_asked", False)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupt.listen()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("error", [InputError("cli.chat_with_tokens"), ImportError("half a module")])
def test_what_goes_wrong_after_it_is_the_interruption(
    error: Exception, listening: None, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def invoke(ctx: object) -> int:
        raise error

    monkeypatch.setattr(ROOT, "invoke", invoke)
    ended = trace("qwen3")
    assert (ended.code, ended.out, ended.err) == (130, "", "Interrupted. No file was left half-written.\n")


def test_the_next_step_or_the_answer_ends_with_it(listening: None) -> None:
    with pytest.raises(KeyboardInterrupt):
        streams.Progress("en", False)(message("cli.preparing"))
    with pytest.raises(KeyboardInterrupt):
        answers.deliver("page", None, "en")


def test_a_command_that_was_told_to_ignore_it_goes_on_ignoring_it() -> None:
    before = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        interrupt.listen()
        interrupt.ended()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


# A module whose loading is interrupted and goes on for a while.
INTERRUPTED_MODULE = """
import os, signal, time
os.kill(os.getpid(), signal.SIGINT)
time.sleep(30)
"""
# What the command does, with that module in place of its own.
IMPORTS = """
import sys
from tracer.cli import interrupt, main
from tracer.cli.app import ROOT

def invoke(ctx):
    try:
        import interrupted_module
    except BaseException as fault:
        print("raised", type(fault))
        raise

ROOT.invoke = invoke
sys.argv = ["trace", "qwen3"]
main.main()
"""


def test_an_import_is_left_at_once_and_nothing_is_raised_in_it(tmp_path: Path) -> None:
    (tmp_path / "interrupted_module.py").write_text(INTERRUPTED_MODULE, encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    program = [sys.executable, "-c", IMPORTS]
    environment = {**os.environ, "PYTHONPATH": path}
    ended = subprocess.run(program, capture_output=True, text=True, env=environment, timeout=25, check=False)
    assert (ended.returncode, ended.stdout) == (130, "")
    assert ended.stderr == "Interrupted. No file was left half-written.\n"
