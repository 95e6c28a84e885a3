"""The watch over hostile files notices each harm: without that, nothing that it lets pass would mean anything."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzz import watch
from tests.fuzz.subjects import Subject, judge
from tests.fuzz.watch import Hung, harmless
from tracer.errors import InputError, TracerError, Unsupported

CHANGES: dict[str, Callable[[Path], object]] = {
    "a file": lambda at: (at / "new").write_bytes(b""),
    "an empty file": lambda at: (at / "new").touch(),
    "a folder": lambda at: (at / "new").mkdir(),
    "a link": lambda at: (at / "new").symlink_to("old"),
    "another name": lambda at: (at / "old").rename(at / "new"),
    "a removal": lambda at: (at / "old").unlink(),
    "a mode": lambda at: (at / "old").chmod(0o600),
    "a program": lambda at: subprocess.run(["true"], check=True),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_every_change_is_noticed(change: Callable[[Path], object], tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"old")
    with pytest.raises(AssertionError), harmless():
        change(tmp_path)


def test_reading_is_none(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"old")
    with harmless():
        assert (tmp_path / "old").read_bytes() == b"old"
        assert os.listdir(tmp_path) == ["old"]


def test_what_hangs_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "SECONDS", 0.05)
    with pytest.raises(Hung), harmless():
        time.sleep(5)
    with pytest.raises(Hung), harmless():
        while True:
            pass


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="how much memory is taken is only known on Linux")
def test_what_fills_the_memory_is_stopped() -> None:
    with pytest.raises(MemoryError), harmless():
        bytearray(3 << 30)


def refused_with(error: TracerError) -> Subject:
    def read(_data: bytes, _folder: Path) -> str:
        raise error

    return Subject(lambda _: None, read, bytes, "demo.toml")


@pytest.mark.parametrize(
    "error",
    [
        InputError("checkpoint.layer_range", layer=1, last=0),  # no file
        InputError("checkpoint.not_a_file", file="demo.toml\x1b[2J"),
        InputError("checkpoint.json_constant", file="demo.toml", found="x" * 2000),
        Unsupported("verify.not_qwen3", found="demo.toml"),
    ],
    ids=["no file", "escape", "long", "nothing to do"],
)
def test_a_bad_refusal_is_noticed(error: TracerError, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        judge(refused_with(error), b"", tmp_path)


def test_a_good_refusal_is_handed_on(tmp_path: Path) -> None:
    error = InputError("checkpoint.not_a_file", file="demo.toml")
    assert judge(refused_with(error), b"", tmp_path) is error


@pytest.mark.parametrize("told", ["\x1b[2J", "\u202e", "\x00", "\ud800"])
def test_what_is_told_with_an_active_character_is_noticed(told: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        judge(Subject(lambda _: None, lambda *_: told, bytes, "demo.toml"), b"", tmp_path)
