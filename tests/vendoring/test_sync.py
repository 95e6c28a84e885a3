"""A sync brings the pinned bytes and nothing else, by the smallest transfer the server allows."""

import io
import threading
import zipfile
from pathlib import Path

import pytest
from vendoring_support import FILES, SDIST, WHEEL, Server, laid_out, release, sdist, serve, settings, wheel

from tracer.errors import InputError
from tracer.source.pins import pins
from tracer.texts import Message
from tracer.vendoring import places
from tracer.vendoring.records import Outcome, Progress, Release, ReleaseReport, Stage, releases
from tracer.vendoring.sync import SyncFailed, sync, sync_releases


def bring(server: Server, root: Path, wanted: Release | None = None) -> ReleaseReport:
    report = sync_releases([wanted or release()], root, settings(server.url), lambda _: None)
    return report.releases[0]


EXPECTED = {f"demo/1.0/{member}": content for member, content in FILES.items()}


@pytest.mark.parametrize("as_json", [False, True])
def test_single_members_are_read_over_range(server: Server, tmp_path: Path, as_json: bool) -> None:
    server.files[WHEEL], server.as_json = wheel(), as_json
    done = bring(server, tmp_path)
    assert laid_out(tmp_path) == EXPECTED
    assert (done.outcome, done.how, done.files, done.archive) == (Outcome.LAID_OUT, Stage.RANGE, 2, WHEEL)
    assert done.origin == server.url
    assert server.asked_whole() == 0
    assert done.bytes == server.sent < 100_000 < len(server.files[WHEEL])


def test_a_server_that_counts_ranges_only_from_the_start_still_gives_members(server: Server, tmp_path: Path) -> None:
    server.files[WHEEL], server.ranges = wheel(), "no suffix"
    assert bring(server, tmp_path).how is Stage.RANGE
    assert laid_out(tmp_path) == EXPECTED


@pytest.mark.parametrize("ranges", ["none", "other"])
def test_where_range_is_refused_the_whole_archive_comes(server: Server, tmp_path: Path, ranges: str) -> None:
    server.files[WHEEL], server.ranges = wheel(), ranges
    done = bring(server, tmp_path)
    assert laid_out(tmp_path) == EXPECTED
    assert done.how is Stage.WHOLE
    assert done.bytes >= len(server.files[WHEEL])
    assert server.asked_whole() == 1
    (note,) = done.notes
    assert "so the whole archive is downloaded" in note.text()


@pytest.mark.parametrize("pinned", ["sdist", "wheel"])
def test_where_only_a_source_archive_exists_it_is_unpacked_not_built(
    server: Server, tmp_path: Path, pinned: str
) -> None:
    server.files[SDIST] = sdist()
    done = bring(server, tmp_path, release(archive=pinned))
    assert laid_out(tmp_path) == EXPECTED
    assert (done.how, done.archive) == (Stage.WHOLE, SDIST)


def test_a_source_archive_may_be_laid_out_as_upstream(server: Server, tmp_path: Path) -> None:
    server.files[SDIST] = sdist({f"src/{member}": content for member, content in FILES.items()})
    bring(server, tmp_path)
    assert laid_out(tmp_path) == EXPECTED


def test_exactly_the_pinned_version_is_taken(server: Server, tmp_path: Path) -> None:
    server.files["demo_pkg-1.0+cpu-py3-none-any.whl"] = wheel({"demo/attention.py": b"other"})
    server.files["demo_pkg-2.0-py3-none-any.whl"] = wheel({"demo/attention.py": b"other"})
    server.files[WHEEL] = wheel()
    assert bring(server, tmp_path).archive == WHEEL


def test_a_folder_of_archives_serves_without_any_network(tmp_path: Path) -> None:
    links = tmp_path / "links"
    links.mkdir()
    (links / WHEEL).write_bytes(wheel())
    report = sync_releases([release()], tmp_path / "files", settings(links=[str(links)]), lambda _: None)
    assert (report.releases[0].how, report.bytes) == (Stage.LOCAL, 0)
    assert laid_out(tmp_path / "files") == EXPECTED


def test_a_second_sync_changes_and_asks_nothing(server: Server, tmp_path: Path) -> None:
    server.files[WHEEL] = wheel()
    bring(server, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    server.log.clear()
    done = bring(server, tmp_path)
    assert (done.outcome, done.bytes) == (Outcome.PRESENT, 0)
    assert server.log == []
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_changed_file_is_replaced_and_counted(server: Server, tmp_path: Path) -> None:
    server.files[WHEEL] = wheel()
    bring(server, tmp_path)
    changed = places.find(tmp_path, "demo", "1.0", "demo/attention.py")
    assert changed is not None
    changed.write_bytes(b"edited")
    assert bring(server, tmp_path).replaced == 1
    assert laid_out(tmp_path) == {f"demo/1.0~2/{member}": content for member, content in FILES.items()}
    repaired = places.find(tmp_path, "demo", "1.0", "demo/attention.py")
    assert repaired is not None
    assert repaired.read_bytes() == FILES["demo/attention.py"]


def test_both_versions_lie_beside_each_other_and_the_index_is_asked_once(server: Server, tmp_path: Path) -> None:
    newer = {"demo/attention.py": b"scale = None\n"}
    server.files = {WHEEL: wheel(), "demo_pkg-1.1-py3-none-any.whl": wheel(newer)}
    wanted = [release(newer, version="1.1"), release()]
    sync_releases(wanted, tmp_path, settings(server.url), lambda _: None)
    assert laid_out(tmp_path) == {**EXPECTED, "demo/1.1/demo/attention.py": newer["demo/attention.py"]}
    assert sum(path.startswith("/simple/") for _, path, _ in server.log) == 1


def test_one_release_that_fails_does_not_stop_the_others(server: Server, tmp_path: Path) -> None:
    server.files[WHEEL] = wheel()
    with pytest.raises(SyncFailed) as caught:
        sync_releases([release(version="9.9"), release()], tmp_path, settings(server.url), lambda _: None)
    assert laid_out(tmp_path) == EXPECTED
    assert [done.version for done in caught.value.report.releases] == ["1.0"]
    assert [failed.version for failed, _ in caught.value.failures] == ["9.9"]
    assert str(caught.value) == (
        "demo 9.9: No configured package index has demo-pkg 9.9. "
        f"{server.url}: has other versions of demo-pkg (1.0). "
        "Name one that has it with --index URL or PIP_INDEX_URL; https://pypi.org/simple is the public one.\n"
        f"Other files in place in {tmp_path}: 2."
    )
    assert caught.value.exit_code == 2
    assert "已配置的软件包索引" in caught.value.text("zh")


def test_progress_tells_each_stage_and_counts_bytes(server: Server, tmp_path: Path) -> None:
    server.files[WHEEL], server.ranges = wheel(), "none"
    seen: list[Progress] = []
    sync_releases([release()], tmp_path, settings(server.url), seen.append)
    stages = list(dict.fromkeys(step.stage for step in seen))
    assert stages == [Stage.FIND, Stage.WHOLE, Stage.WRITE, Stage.DONE]
    whole = [step for step in seen if step.stage is Stage.WHOLE]
    assert [step.done for step in whole] == sorted(step.done for step in whole)
    assert (whole[-1].done, whole[-1].total) == (len(server.files[WHEEL]),) * 2
    assert isinstance(whole[-1].note, Message)


def test_two_syncs_at_once_do_the_work_once(server: Server, tmp_path: Path) -> None:
    server.files[WHEEL] = wheel()
    second_waits, reports, failures = threading.Event(), [], []
    first_fetches = threading.Event()

    def before_file() -> None:
        first_fetches.set()
        second_waits.wait(10)

    server.before_file = before_file

    def run(on: threading.Event | None) -> None:
        try:
            see = lambda step: on.set() if on and step.stage is Stage.WAIT else None  # noqa: E731
            reports.append(sync_releases([release()], tmp_path, settings(server.url), see))
        except InputError as error:
            failures.append(error)

    first = threading.Thread(target=run, args=(None,))
    second = threading.Thread(target=run, args=(second_waits,))
    first.start()
    assert first_fetches.wait(10)
    second.start()
    first.join(20)
    second.join(20)
    assert failures == []
    assert sorted(report.releases[0].outcome for report in reports) == [Outcome.LAID_OUT, Outcome.PRESENT]
    assert laid_out(tmp_path) == EXPECTED


def test_waiting_for_another_sync_ends(server: Server, tmp_path: Path) -> None:
    import filelock

    tmp_path.mkdir(exist_ok=True)
    with filelock.FileLock(tmp_path / ".lock"), pytest.raises(InputError) as caught:
        sync_releases([release()], tmp_path, settings(server.url), lambda _: None, wait=0.05)
    assert "Another `trace vendor sync` has been working in" in str(caught.value)
    assert laid_out(tmp_path) == {}


def test_the_project_and_index_are_arguments(tmp_path: Path) -> None:
    mine = {pin.member: b"x" for pin in pins("nano-vllm")}
    name = "nano_vllm_fork-20260210-py3-none-any.whl"
    with serve(Server(files={name: wheel(mine)})) as server, pytest.raises(SyncFailed) as caught:
        sync(["nano-vllm"], folder=tmp_path, index=server.url)
    assert f"nanovllm/layers/attention.py in http://127.0.0.1:{server.port}/files/{name} is not the pinned file" in str(
        caught.value
    )
    (place,) = caught.value.report.places
    assert (place.shown, place.named_by.text()) == (server.url, "set by --index")


def test_an_unknown_project_is_refused_before_anything_happens(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="The pinned projects are"):
        sync(["llama.cpp"], folder=tmp_path / "files")
    assert not (tmp_path / "files").exists()


def test_a_folder_that_cannot_be_written_is_named(server: Server, tmp_path: Path) -> None:
    (tmp_path / "files").write_text("a file where the folder should be")
    with pytest.raises(InputError) as caught:
        bring(server, tmp_path / "files")
    assert str(caught.value).startswith(f"Files cannot be written to {tmp_path / 'files'}: ")


def test_pins_are_grouped_by_release() -> None:
    grouped = releases(pins("vllm"))
    assert [(group.version, len(group.pins)) for group in grouped] == [("0.33.0", 4), ("0.27.1", 4)]


def test_the_default_place_of_a_checkout_is_ignored_by_git() -> None:
    folder = places.default_folder()
    assert folder.parts[-2:] == ("vendor", "files")
    assert "vendor/files/" in (folder.parents[1] / ".gitignore").read_text().splitlines()


def test_an_installed_tracer_uses_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    packed = tmp_path / "tracer" / "_data" / "vendor" / "pins"
    monkeypatch.setattr("tracer.data.pins", lambda: packed)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path / "cache" / name)
    assert places.default_folder() == tmp_path / "cache" / "tracer" / "vendor"


def test_a_zipped_source_archive_will_do(server: Server, tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for member, content in FILES.items():
            archive.writestr(f"demo_pkg-1.0/{member}", content)
    server.files["demo_pkg-1.0.zip"] = packed.getvalue()
    assert bring(server, tmp_path, release(archive="sdist")).how is Stage.WHOLE
    assert laid_out(tmp_path) == EXPECTED


def test_an_index_may_be_a_folder_of_this_machine(tmp_path: Path) -> None:
    page = tmp_path / "simple" / "demo-pkg"
    page.mkdir(parents=True)
    (page / WHEEL).write_bytes(wheel())
    (page / "index.html").write_text(f'<a href="{WHEEL}">{WHEEL}</a>')
    index = (tmp_path / "simple").as_uri()
    report = sync_releases([release()], tmp_path / "files", settings(index), lambda _: None)
    assert (report.releases[0].how, report.releases[0].origin) == (Stage.LOCAL, index)
    assert laid_out(tmp_path / "files") == EXPECTED
