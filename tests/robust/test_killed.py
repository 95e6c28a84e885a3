"""Whatever stops a command that writes (SIGKILL at any moment, a full disk, a quota), a file is whole or absent."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.subjects import PORT
from tests.invented_trace import invented
from tracer.errors import InputError
from tracer.files import check_writable, write_whole
from tracer.result import look_at
from tracer.saved.write import save

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")


def killing(*arguments: object) -> list[dict[str, Any]]:
    ended = subprocess.run(
        [sys.executable, str(HERE / "killing.py"), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env={**os.environ, "COLUMNS": "80"},
    )
    return [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]


def only_a_part_beside(told: dict[str, Any]) -> bool:
    """At most the file that was being written, hidden, under a name that nothing reads."""
    return len(told["beside"]) <= 1 and all(name.startswith(".") and name.endswith(".part") for name in told["beside"])


def test_two_hundred_kills_at_random_moments_leave_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    found = killing("random", 200, tmp_path)
    assert [told["killed"] for told in found] == [True] * 200
    states = Counter(told["state"] for told in found)
    assert states["other"] == 0
    assert states["old"] > 20
    assert states["new"] > 20
    assert states["absent"] > 0  # killed before the first was finished
    assert all(map(only_a_part_beside, found))
    assert any(told["beside"] for told in found)  # some were killed in the middle of writing


def test_a_kill_at_each_touch_of_the_disk_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    found = killing("points", tmp_path)
    states = [told["state"] for told in found]
    switch = states.index("new")
    assert len(found) > 4
    assert states == ["old"] * switch + ["new"] * (len(states) - switch)
    assert all(map(only_a_part_beside, found))
    assert found[-1] == {"killed": False, "state": "new", "beside": []}


def test_whole_commands_killed_at_random_moments_leave_whole_files_or_none(tmp_path: Path) -> None:
    save(look_at(invented(), 0), tmp_path / "trace.safetensors")
    (tmp_path / "port").mkdir()
    (tmp_path / "port" / "port.py").write_text(PORT)
    (tmp_path / "kills").mkdir()
    found = killing("commands", 20, tmp_path / "kills", tmp_path / "trace.safetensors", tmp_path / "port")
    states = Counter(told["state"] for told in found)
    assert states["other"] == 0
    assert states["whole"] > 0
    assert states["absent"] > 0
    assert all(map(only_a_part_beside, found))


# ------------------------------------------------------------------------------------------------- no space left


@contextmanager
def full_disk() -> Iterator[Path]:
    """A file system of 64 KiB; the test is skipped where none may be mounted."""
    with tempfile.TemporaryDirectory() as name:
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", name], capture_output=True, check=False
        )
        if mounted.returncode != 0:
            pytest.skip("no small file system may be mounted here (root may); the same with a quota is tested")
        try:
            yield Path(name)
        finally:
            subprocess.run(["umount", "--lazy", name], check=True)


@contextmanager
def quota() -> Iterator[Path]:
    """A folder in which no file of this process, or of one that it starts, may grow beyond 64 KiB."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # Python itself ignores it
    with tempfile.TemporaryDirectory() as name:
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, hard))
        try:
            yield Path(name)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, before)


@dataclass(frozen=True)
class NoRoom:
    """A folder into which 64 KiB go and no more, and what is said of it."""

    folder: Path
    english: str
    chinese: str


@pytest.fixture(params=["full disk", "quota"])
def no_room(request: pytest.FixtureRequest) -> Iterator[NoRoom]:
    if request.param == "full disk":
        with full_disk() as folder:
            yield NoRoom(folder, "no space is left on the device", "磁盘空间不足")
    else:
        with quota() as folder:
            yield NoRoom(
                folder,
                "the file would be larger than this system or your quota allows",
                "文件会超出系统或配额允许的大小",
            )


@pytest.mark.parametrize("old", [None, b"old"], ids=["no file", "an old file"])
def test_where_there_is_no_room_what_was_there_stays_and_the_error_says_why(no_room: NoRoom, old: bytes | None) -> None:
    target = no_room.folder / "page.txt"
    if old is not None:
        target.write_bytes(old)
    check_writable(target)  # an empty file still has room
    with pytest.raises(InputError, match=f"page.txt.*: {no_room.english}") as caught:
        write_whole(target, b"x" * 300_000)
    assert caught.value.id == "files.unwritable"
    assert no_room.chinese in caught.value.text("zh")
    assert os.listdir(no_room.folder) == ([] if old is None else ["page.txt"])
    assert old is None or target.read_bytes() == old


def test_a_command_without_room_says_so_and_leaves_nothing(no_room: NoRoom, tmp_path: Path) -> None:
    saved = tmp_path / "trace.safetensors"
    save(look_at(invented(), 0), saved)
    target = no_room.folder / "report.html"
    ended = subprocess.run(
        [sys.executable, "-m", "tracer", "show", str(saved), "--format", "html", "-o", str(target)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"},
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"error: Cannot write {target}: {no_room.english}")
    assert "Traceback" not in ended.stderr
    assert os.listdir(no_room.folder) == []
