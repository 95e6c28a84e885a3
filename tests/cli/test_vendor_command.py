"""``trace vendor``: what status shows and how it ends; what sync tells while it runs and when it has ended."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tracer.errors import InputError
from tracer.texts import message
from tracer.vendoring import status as status_module
from tracer.vendoring import sync as sync_module
from tracer.vendoring.records import Outcome, Progress, ReleaseReport, Stage, SyncReport
from tracer.vendoring.status import FileStatus, Source, State

Trace = Callable[..., Any]


def file(state: State, member: str = "m.py", command: str | None = None) -> FileStatus:
    return FileStatus("transformers", "5.24.0", member, state, Source.VENDOR, None, None, command)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[FileStatus]:
    files: list[FileStatus] = []
    monkeypatch.setattr(status_module, "status", lambda projects: tuple(files))
    return files


def test_status_shows_releases_files_and_what_to_do(trace: Trace, found: list[FileStatus]) -> None:
    found += [
        file(State.PINNED, "a.py"),
        file(State.MISSING, "b.py", "trace vendor sync transformers"),
        file(State.MISSING, "c.py", "trace vendor sync transformers"),
    ]
    ended = trace("vendor", "status")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == (
        "transformers 5.24.0\n"
        "  pinned   a.py\n"
        "  missing  b.py\n"
        "  missing  c.py\n"
        "    -> trace vendor sync transformers\n"
    )
    assert trace("vendor", "status", "--lang", "zh").out == (
        "transformers 5.24.0\n  一致  a.py\n  缺失  b.py\n  缺失  c.py\n    -> trace vendor sync transformers\n"
    )


@pytest.mark.parametrize(
    ("states", "code"),
    [
        ([State.PINNED, State.MISSING, State.UNPINNED], 0),
        ([State.PINNED, State.CHANGED], 1),
        ([State.MISSING, State.UNPINNED], 3),
        ([], 3),
    ],
)
def test_status_ends_as_a_check_would(trace: Trace, found: list[FileStatus], states: list[State], code: int) -> None:
    found += map(file, states)
    assert trace("vendor", "status").code == code


@pytest.mark.parametrize("state", State)
def test_every_state_has_a_word(trace: Trace, found: list[FileStatus], state: State) -> None:
    found.append(file(state))
    assert "m.py" in trace("vendor", "status").out


def test_a_misspelt_project_is_told(trace: Trace) -> None:
    ended = trace("vendor", "status", "transfomers")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: PROJECT takes one of ")
    assert ended.err.endswith("found transfomers. Did you mean transformers?\n")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, object]]:
    """A sync that tells of every stage and brings one release of two; records what it was asked for."""
    calls: list[tuple[object, object]] = []

    def sync(projects: object, *, index: object, report: Callable[[Progress], None]) -> SyncReport:
        calls.append((projects, index))
        for stage in Stage:
            report(Progress("vllm", "0.33.0", stage, 1500, 4000))
        report(Progress("vllm", "0.33.0", Stage.FIND, note=message("cli.choose_one")))
        here = ReleaseReport("sglang", "0.5.23", Outcome.PRESENT, 3)
        brought = ReleaseReport(
            "vllm", "0.33.0", Outcome.LAID_OUT, 4, origin="https://i/simple", archive="vllm.whl", bytes=1500
        )
        return SyncReport(folder=Path("files"), releases=(here, brought), places=(), seconds=1.0)

    monkeypatch.setattr(sync_module, "sync", sync)
    return calls


def test_sync_says_what_was_here_and_what_came(trace: Trace, asked: list[tuple[object, object]]) -> None:
    ended = trace("vendor", "sync")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == (
        "sglang 0.5.23: nothing to do, every pinned file (3) was here already.\n"
        "vllm 0.33.0: laid out from vllm.whl of https://i/simple, 2 KiB read; files: 4.\n"
        "Folder: files\n"
    )
    assert asked == [(None, None)]


def test_sync_tells_what_it_replaced_and_what_was_tried_in_vain(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = (message("vendor.no_ranges", url="https://i/x.whl", detail="HTTP 200"),)
    brought = ReleaseReport(
        "vllm", "0.33.0", Outcome.LAID_OUT, 4, replaced=2, origin="https://i", archive="x.whl", bytes=1, notes=notes
    )
    report = SyncReport(folder=Path("files"), releases=(brought,), places=(), seconds=1.0)
    monkeypatch.setattr(sync_module, "sync", lambda *_, **__: report)
    rows = trace("vendor", "sync").out.splitlines()
    assert rows[1] == "  2 files had other bytes than the pinned ones and were replaced."
    assert rows[2].startswith("  Note: https://i/x.whl: single files could not be read over HTTP Range (HTTP 200)")


def test_sync_hands_on_projects_and_index(trace: Trace, asked: list[tuple[object, object]]) -> None:
    assert trace("vendor", "sync", "vllm", "sglang", "--index", "https://i/simple").code == 0
    assert asked == [(("vllm", "sglang"), "https://i/simple")]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_stage_is_told_on_request(trace: Trace, asked: list[tuple[object, object]], language: str) -> None:
    ended = trace("vendor", "sync", "--verbose", "--lang", language)
    assert ended.code == 0
    assert len(ended.err.splitlines()) == len(Stage) + 1


def test_a_failed_sync_is_bad_input(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> SyncReport:
        raise InputError("cli.chat_with_tokens")

    monkeypatch.setattr(sync_module, "sync", fail)
    ended = trace("vendor", "sync")
    assert (ended.code, ended.out) == (2, "")
