"""The command wherever it may find itself: any encoding, any terminal, no home, nothing writable, no network, another
folder. Each is a process of its own that runs the real thing."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.invented_trace import invented
from tracer.result import look_at
from tracer.saved.write import save

KEPT = ("PATH", "SYSTEMROOT", "TMPDIR", "TEMP", "LD_LIBRARY_PATH", "VIRTUAL_ENV")


# Any attempt to reach a network ends the process.
OFFLINE = """
import os, socket, sys
def refuse(*_, **__):
    os.write(2, b"the network was asked for\\n"); os._exit(99)
socket.socket.connect = socket.socket.connect_ex = socket.create_connection = socket.getaddrinfo = refuse
from tracer.__main__ import main
main()
"""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: bytes
    err: bytes


def trace(*words: str, cwd: Path | None = None, program: str = "", **environment: str) -> Ended:
    """Run the command in an environment that holds only what is given and what a process needs to start at all."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    start = ["-c", program] if program else ["-m", "tracer"]
    ended = subprocess.run(
        [sys.executable, *start, *words],
        capture_output=True,
        cwd=cwd,
        env={**kept, **environment},
        check=False,
        timeout=120,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with an unusual name, in which one run finds what another has cached."""
    return tmp_path_factory.mktemp("一个 home (of mine) & 'more'")


def went_well(ended: Ended) -> str:
    assert (ended.code, ended.err.decode("utf-8", "replace")) == (0, "")
    text = ended.out.decode("utf-8", "replace")
    assert "layer 0" in text
    return text


# ------------------------------------------------------------------------------------------------------ encodings


@pytest.mark.parametrize(
    ("encoding", "language"), [("cp1252", "en"), ("ascii", "en"), ("cp936", "zh"), ("cp936", "en"), ("ascii", "zh")]
)
def test_every_page_fits_the_encoding(encoding: str, language: str, tmp_path: Path) -> None:
    ended = trace("lab", "softmax", "--lang", language, PYTHONIOENCODING=encoding, HOME=str(tmp_path))
    assert ended.code == 0
    said = ended.out.decode(encoding)
    assert len(said) > 500
    assert "\ufffd" not in said
    if language == "zh" and encoding == "ascii":
        assert b"this terminal's encoding (ascii) has no Chinese characters" in ended.err
    else:
        assert ended.err == b""


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "cp936"])
def test_an_error_fits_the_encoding(encoding: str) -> None:
    ended = trace("qwen3", "--checkpoint", "/没有/这个", "--lang", "en", PYTHONIOENCODING=encoding, PYTHONUTF8="1")
    assert (ended.code, ended.out) == (2, b"")
    said = ended.err.decode(encoding)
    assert said.startswith("error: There is no checkpoint at")
    assert ("\\u6ca1" in said) is (encoding != "cp936")


def test_the_page_of_a_trace_fits_too(home: Path, tmp_path: Path) -> None:
    saved = tmp_path / "trace.safetensors"
    save(look_at(invented(), 0), saved)
    ended = trace("show", str(saved), PYTHONIOENCODING="cp1252", HOME=str(home), TERM="dumb", COLUMNS="40")
    assert (ended.code, ended.err) == (0, b"")
    said = ended.out.decode("cp1252")
    assert "\x1b" not in said
    assert all(cell_len(line) <= 40 for line in said.splitlines())
    assert "flash_attn_varlen_func" in said


# ----------------------------------------------------------------------------------------- homes, rights, folders


def test_without_a_home_and_without_a_network(tmp_path: Path) -> None:
    went_well(trace("qwen3", "--head", "2", "--layer", "0", cwd=tmp_path, program=OFFLINE))
    assert os.listdir(tmp_path) == []


@pytest.fixture
def unwritable(tmp_path: Path) -> Iterator[Path]:
    """A folder in which nobody may write: for root, who may write everywhere, a read-only file system."""
    folder = tmp_path / "unwritable"
    folder.mkdir()
    if os.geteuid() != 0:
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)
        return
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "ro,size=64k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("root may write in every folder, and no read-only file system may be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.skipif(os.name != "posix", reason="rights and mounts as POSIX has them")
def test_where_nothing_may_be_written(unwritable: Path) -> None:
    went_well(trace("qwen3", "--head", "2", cwd=unwritable, HOME=str(unwritable)))
    for option in ("-o", "--save"):
        ended = trace("qwen3", "--head", "2", option, "page", cwd=unwritable, HOME=str(unwritable))
        assert (ended.code, ended.out) == (2, b"")
        said = ended.err.decode()
        assert said.startswith("error: Cannot write page: ")
        assert "permission denied" in said or "the file system is read-only" in said
    assert os.listdir(unwritable) == []


def test_paths_with_spaces_and_chinese_characters(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "一个 folder (of mine) & 'more'"
    folder.mkdir()
    saved = folder / "跟踪 1.safetensors"
    ended = trace("qwen3", "--head", "2", "--save", str(saved), "-o", "页.txt", cwd=folder, HOME=str(home))
    assert (ended.code, ended.out) == (0, b"")
    assert ended.err.decode() == f"Wrote {saved}.\nWrote 页.txt.\n"
    assert "layer 0" in (folder / "页.txt").read_text(encoding="utf-8")
    again = trace("show", saved.name, cwd=folder, HOME=str(home))
    assert again.code == 0
    shown, written = (text.split(" Next ") for text in (again.out.decode(), (folder / "页.txt").read_text("utf-8")))
    assert len(shown) == 2
    assert shown[0] == written[0]  # what can be done next is another thing with a file than in a run


# ----------------------------------------------------------------------------------------------------- no network


@pytest.mark.parametrize("cached", [False, True], ids=["without a cache", "with a cache"])
def test_offline_a_hub_id_is_read_from_the_cache_or_refused(cached: bool, home: Path, tmp_path: Path) -> None:
    cache = tmp_path / "hub"
    if cached:
        _fill(cache)
    ended = trace(
        "qwen3", "--head", "2", "--checkpoint", "someone/qwen3-tiny",
        program=OFFLINE, HOME=str(home), HF_HUB_OFFLINE="1", HF_HUB_CACHE=str(cache),
    )  # fmt: skip
    if cached:
        assert "someone/qwen3-tiny" in went_well(ended)
        return
    assert (ended.code, ended.out) == (2, b"")
    assert b"someone/qwen3-tiny is not in the hub's cache on this machine, and HF_HUB_OFFLINE forbids" in ended.err


def _fill(cache: Path) -> None:
    """Lay the shipped checkpoint out as the hub's own client does."""
    from tracer import data

    commit = "ab" * 20
    folder = cache / "models--someone--qwen3-tiny"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(commit)
    snapshot = folder / "snapshots" / commit
    snapshot.mkdir(parents=True)
    for file in data.shipped_checkpoint("qwen3-tiny").iterdir():
        if file.is_file():
            (snapshot / file.name).write_bytes(file.read_bytes())
