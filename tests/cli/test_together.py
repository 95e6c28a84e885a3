"""Under torchrun one process tells what went wrong, and nothing that went wrong in another alone is lost."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tracer.cli import together

Trace = Callable[..., Any]
TORCHRUN = {"WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
WRONG = ("qwen3", "--layer", "99")
SAID = "error: There is no layer 99: this model's layers are 0 to 2. Choose one of them with --layer.\n"


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was waited; nothing is."""
    found: list[float] = []
    monkeypatch.setattr(time, "sleep", found.append)
    return found


def started(monkeypatch: pytest.MonkeyPatch, **environment: str) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(("rank", "expected"), [("0", []), ("1", [together.SECONDS])])
def test_the_first_process_tells_at_once_and_the_others_later(
    rank: str, expected: list[float], trace: Trace, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By then torchrun has ended them; where nobody did, the error is their own, and told."""
    started(monkeypatch, **TORCHRUN, RANK=rank)
    ended = trace(*WRONG)
    assert (ended.code, ended.err, waits) == (2, SAID, expected)


@pytest.mark.parametrize("environment", [{}, {"WORLD_SIZE": "1", "RANK": "0"}, {"WORLD_SIZE": "2", "RANK": "1"}])
def test_a_process_that_torchrun_did_not_start_never_waits(
    environment: dict[str, str], trace: Trace, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    started(monkeypatch, **environment)
    assert trace(*WRONG).code == 2
    assert waits == []


def test_ctrl_c_while_waiting_ends_as_everywhere(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    def pressed(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", pressed)
    started(monkeypatch, **TORCHRUN, RANK="1")
    ended = trace(*WRONG)
    assert ended.code == 130
    assert "Traceback" not in ended.err


def test_under_torchrun_itself_the_sentence_stands_once() -> None:
    command = [
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "-m",
        "tracer",
        *WRONG,
        "--lang",
        "en",
    ]
    ended = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.stderr.count("There is no layer 99") == 1, ended.stderr
    assert ended.returncode != 0
