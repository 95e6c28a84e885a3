"""A Ctrl-C that Python loses, in a callback of its import system or in C code, ends the command all the same."""

import signal
from collections.abc import Callable, Iterator
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
