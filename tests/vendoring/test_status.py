"""Status tells the truth about every pinned file and names the command that makes it right, without any network."""

import subprocess
import sys
from pathlib import Path

import pytest
from vendoring_support import FILES, pin, release

from tracer.errors import InputError
from tracer.source.pins import Pin, lookup, pins, projects
from tracer.vendoring import places
from tracer.vendoring import status as status_module
from tracer.vendoring.status import FileStatus, Source, State, require, satisfied, status, statuses

MEMBER = "demo/attention.py"
PIN = pin(MEMBER, FILES[MEMBER])


def only(pin_: Pin, root: Path) -> FileStatus:
    (entry,) = statuses(pin_, root)
    return entry


def install(monkeypatch: pytest.MonkeyPatch, site: Path, version: str, content: bytes) -> None:
    """Make demo-pkg look installed in ``site``."""
    info = site / f"demo_pkg-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: demo-pkg\nVersion: {version}\n")
    (site / "demo").mkdir()
    (site / MEMBER).write_bytes(content)
    monkeypatch.syspath_prepend(str(site))


def test_a_file_that_was_never_laid_out_is_missing(tmp_path: Path) -> None:
    entry = only(PIN, tmp_path)
    assert (entry.state, entry.path, entry.command) == (State.MISSING, None, "trace vendor sync demo")


def test_a_file_with_the_pinned_bytes_is_pinned(tmp_path: Path) -> None:
    folder = places.lay_out(tmp_path, "demo", "1.0", FILES)
    entry = only(PIN, tmp_path)
    assert (entry.state, entry.source, entry.command) == (State.PINNED, Source.VENDOR, None)
    assert entry.path == folder / MEMBER
    assert require(PIN, folder=tmp_path) == folder / MEMBER
    assert satisfied(release().pins, tmp_path)


def test_a_file_with_one_other_byte_is_changed(tmp_path: Path) -> None:
    folder = places.lay_out(tmp_path, "demo", "1.0", FILES)
    (folder / MEMBER).write_bytes(FILES[MEMBER][:-1] + b" ")
    entry = only(PIN, tmp_path)
    assert (entry.state, entry.command) == (State.CHANGED, "trace vendor sync demo")
    assert not satisfied(release().pins, tmp_path)


def test_what_needs_a_file_learns_which_command_brings_it(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        require(PIN, folder=tmp_path)
    assert str(caught.value) == (
        f"This needs {MEMBER} of demo 1.0, which is not on this machine. Bring it with: trace vendor sync demo"
    )
    folder = places.lay_out(tmp_path, "demo", "1.0", {MEMBER: b"edited"})
    with pytest.raises(InputError) as caught:
        require(PIN, folder=tmp_path)
    assert f"the bytes of {folder / MEMBER} are not the pinned ones" in str(caught.value)
    assert "trace vendor sync demo" in caught.value.text("zh")


def test_only_the_newest_generation_counts(tmp_path: Path) -> None:
    for generation in ("1.0", "1.0~2", "1.0~10"):
        (tmp_path / "demo" / generation / "demo").mkdir(parents=True)
        (tmp_path / "demo" / generation / MEMBER).write_text(generation)
    (tmp_path / "demo" / "1.0~x").mkdir()
    (tmp_path / "demo" / "1.0.1").mkdir()
    assert places.release_folder(tmp_path, "demo", "1.0") == tmp_path / "demo" / "1.0~10"


def test_an_installed_package_of_the_pinned_version_needs_no_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, tmp_path / "site", "1.0", FILES[MEMBER])
    entry = only(PIN, tmp_path / "files")
    assert (entry.state, entry.source, entry.path) == (State.PINNED, Source.INSTALLED, tmp_path / "site" / MEMBER)
    assert require(PIN, folder=tmp_path / "files") == tmp_path / "site" / MEMBER


def test_an_installed_package_of_another_version_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, tmp_path / "site", "2.0", FILES[MEMBER])
    assert only(PIN, tmp_path / "files").state is State.MISSING


def test_a_changed_installed_file_is_shown_with_pips_command_and_the_copy_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, tmp_path / "site", "1.0", b"edited in place")
    installed, vendored = statuses(PIN, tmp_path / "files")
    assert (installed.state, installed.source) == (State.CHANGED, Source.INSTALLED)
    assert installed.command == "pip install --force-reinstall --no-deps demo-pkg==1.0"
    assert vendored.state is State.MISSING
    (tmp_path / "files").mkdir()
    folder = places.lay_out(tmp_path / "files", "demo", "1.0", FILES)
    assert require(PIN, folder=tmp_path / "files") == folder / MEMBER


def test_the_package_that_runs_is_shown_even_without_a_pin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, tmp_path / "site", "3.0", b"newer")
    monkeypatch.setattr(status_module, "_RUNS_INSTALLED", ("demo",))
    monkeypatch.setattr(status_module, "pins", lambda _: (PIN,))
    unpinned, pinned = status(["demo"], folder=tmp_path / "files")
    assert (unpinned.version, unpinned.state, unpinned.source) == ("3.0", State.UNPINNED, Source.INSTALLED)
    assert (unpinned.pin, unpinned.command) == (None, None)
    assert (pinned.version, pinned.state) == ("1.0", State.MISSING)


def test_an_empty_folder_lacks_every_file_that_is_not_installed(tmp_path: Path) -> None:
    found = status(folder=tmp_path)
    assert {entry.pin for entry in found if entry.pin} == {pin for name in projects() for pin in pins(name)}
    for entry in found:
        assert (entry.state is State.MISSING) == (entry.path is None)
        assert (entry.command is None) == (entry.state in (State.PINNED, State.UNPINNED))


def test_the_installed_transformers_is_what_its_pins_say_where_it_has_any(tmp_path: Path) -> None:
    import importlib.metadata

    version = importlib.metadata.version("transformers")
    installed = [entry for entry in status(["transformers"], folder=tmp_path) if entry.source is Source.INSTALLED]
    assert {entry.version for entry in installed} == {version}
    for entry in installed:
        assert entry.path is not None
        known = lookup(status_module.sha256_of(entry.path))
        assert entry.state is (State.UNPINNED if known is None else State.PINNED)


def test_an_unknown_project_is_refused() -> None:
    with pytest.raises(InputError, match="The pinned projects are flash-attn, nano-vllm, sglang, transformers, vllm"):
        status(["llama.cpp"])


def test_status_imports_no_network_library_and_none_of_the_packages() -> None:
    code = (
        "import sys\n"
        "from tracer.vendoring import sync\n"
        "from tracer.vendoring.status import status\n"
        "status()\n"
        "heavy = {'httpx2', 'unearth', 'remotezip', 'requests', 'filelock', 'torch', 'transformers', 'vllm'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
