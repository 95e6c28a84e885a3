"""Files are whole or absent, and a place that cannot be written is known before any work is done."""

import errno
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tracer.errors import InputError
from tracer.files import check_writable, keep_if_possible, write_whole

NOBODY = 65534


def test_a_file_is_written_and_nothing_lies_beside_it(tmp_path: Path) -> None:
    write_whole(tmp_path / "page.txt", b"page")
    assert (tmp_path / "page.txt").read_bytes() == b"page"
    assert os.listdir(tmp_path) == ["page.txt"]


def test_a_folder_that_will_not_be_flushed_does_not_make_a_written_file_unwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a folder that may be written and not read."""
    opened = os.open

    def refused(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if flags == os.O_RDONLY and os.fspath(path) == os.fspath(tmp_path):
            raise PermissionError(errno.EACCES, "permission denied", os.fspath(path))
        return opened(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", refused)
    write_whole(tmp_path / "page.txt", b"page")
    assert (tmp_path / "page.txt").read_bytes() == b"page"


def test_the_umask_decides_who_may_read_a_new_file(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "page.txt", b"page")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "page.txt").stat().st_mode) == 0o640


def test_a_replaced_file_keeps_its_permissions(tmp_path: Path) -> None:
    target = tmp_path / "page.txt"
    target.write_bytes(b"old")
    target.chmod(0o604)
    write_whole(target, b"new")
    assert (target.read_bytes(), stat.S_IMODE(target.stat().st_mode)) == (b"new", 0o604)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "page.txt").write_bytes(b"old")
    (tmp_path / "link").symlink_to("page.txt")
    write_whole(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "page.txt").read_bytes() == b"new"


def test_a_name_as_long_as_the_file_system_allows(tmp_path: Path) -> None:
    write_whole(tmp_path / ("n" * 255), b"page")
    assert os.listdir(tmp_path) == ["n" * 255]


@pytest.mark.parametrize("trouble", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_what_stops_the_writing_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: BaseException
) -> None:
    target = tmp_path / "page.txt"
    target.write_bytes(b"old")

    def stop(handle: int) -> None:
        raise trouble

    monkeypatch.setattr(os, "fsync", stop)
    with pytest.raises((InputError, KeyboardInterrupt)):
        write_whole(target, b"new")
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["page.txt"]


def test_a_device_is_written_directly() -> None:
    check_writable(Path(os.devnull))
    write_whole(Path(os.devnull), b"page")
    assert not Path(os.devnull).is_file()


def test_checking_leaves_no_trace(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"old")
    check_writable(tmp_path / "new")
    check_writable(tmp_path / "old")
    assert os.listdir(tmp_path) == ["old"]
    assert (tmp_path / "old").read_bytes() == b"old"


UNWRITABLE = {
    "no folder": (lambda at: at / "missing" / "page", "the folder does not exist.", "所在文件夹不存在。"),
    "a folder": (lambda at: at, "it is a folder, not a file.", "这是一个文件夹，不是文件。"),
    "below a file": (
        lambda at: at / "file" / "page",
        "a part of the path that should be a folder is a file.",
        "是一个文件",
    ),
    "name too long": (lambda at: at / ("n" * 256), "the name is too long for the file system.", "文件名过长"),
    "NUL in the name": (lambda at: at / "a\0b", "the name contains a NUL character.", "文件名中含有 NUL 字符。"),
    "circle of links": (lambda at: at / "circle", "its symbolic links lead round in a circle.", "符号链接构成了循环。"),
}


@pytest.mark.parametrize(("place", "english", "chinese"), UNWRITABLE.values(), ids=UNWRITABLE.keys())
@pytest.mark.parametrize("attempt", [check_writable, lambda path: write_whole(path, b"page")], ids=["check", "write"])
def test_an_unwritable_place_is_explained(
    tmp_path: Path, place: Callable[[Path], Path], english: str, chinese: str, attempt: Callable[[Path], Any]
) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(InputError) as caught:
        attempt(place(tmp_path))
    assert english in caught.value.text("en")
    assert chinese in caught.value.text("zh")
    assert sorted(os.listdir(tmp_path)) == ["circle", "file"]


@pytest.fixture
def ordinary_folder() -> Iterator[Path]:
    """A folder, and for root the rights of an ordinary user: root may write everywhere, so it would test nothing."""
    with tempfile.TemporaryDirectory() as name:
        root = os.geteuid() == 0
        if root:
            os.chown(name, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, 0)
        try:
            yield Path(name)
        finally:
            if root:
                os.setresuid(0, 0, 0)


def test_a_read_only_file_is_not_replaced(ordinary_folder: Path) -> None:
    target = ordinary_folder / "page.txt"
    target.write_bytes(b"old")
    target.chmod(0o444)
    with pytest.raises(InputError, match="permission denied"):
        check_writable(target)
    with pytest.raises(InputError, match="permission denied"):
        write_whole(target, b"new")
    assert target.read_bytes() == b"old"


def test_a_folder_without_permission_is_explained(ordinary_folder: Path) -> None:
    ordinary_folder.chmod(0o555)
    try:
        with pytest.raises(InputError, match="permission denied"):
            check_writable(ordinary_folder / "page.txt")
    finally:
        ordinary_folder.chmod(0o755)


def test_a_cache_makes_its_folder_and_keeps_the_file_whole(tmp_path: Path) -> None:
    keep_if_possible(tmp_path / "cache" / "entry.json", b"kept")
    assert (tmp_path / "cache" / "entry.json").read_bytes() == b"kept"


def test_a_folder_or_a_file_in_the_way_of_a_cache_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "entry.json").mkdir()
    keep_if_possible(tmp_path / "entry.json", b"kept")
    assert (tmp_path / "entry.json").is_dir()
    (tmp_path / "file").write_text("")
    keep_if_possible(tmp_path / "file" / "below" / "entry.json", b"kept")
    assert (tmp_path / "file").read_bytes() == b""


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_a_cache_in_a_folder_that_takes_no_files_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(
        *_: object,
    ) -> int:  # whatever the folder's mode is, the superuser may write: the system's answer instead
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("tracer.files.os.open", refuse)
    keep_if_possible(tmp_path / "entry.json", b"kept")
    monkeypatch.undo()
    assert os.listdir(tmp_path) == []


def test_a_read_only_folder_stops_no_cache(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    keep_if_possible(tmp_path / "entry.json", b"kept")
    keep_if_possible(tmp_path / "folder" / "entry.json", b"kept")
    tmp_path.chmod(0o700)
