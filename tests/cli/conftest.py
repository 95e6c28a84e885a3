"""Running the command line inside the test's own process: a process of its own costs a tenth of a second each."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tracer.cli.main import run

LOCALE = ("LC_ALL", "LC_MESSAGES", "LANG", "LANGUAGE")


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code, and what it wrote."""

    code: int
    out: str
    err: str


Trace = Callable[..., Ended]


@pytest.fixture
def trace(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Trace:
    """``trace("qwen3", "--help")`` in an English locale, 80 columns, no colours."""
    for name in (*LOCALE, "FORCE_COLOR", "TRACER_DEBUG", "_TRACE_COMPLETE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")

    def started(*arguments: str) -> Ended:
        code = run(arguments)
        written = capsys.readouterr()
        return Ended(code, written.out, written.err)

    return started
