"""The wheel by itself: unpacked somewhere else and run from a third folder, it has all it needs."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's files, built from this checkout."""
    folder = tmp_path_factory.mktemp("built")
    built = subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--no-deps",
            "--no-build-isolation",
            "--quiet",
            "-w",
            str(folder),
            str(ROOT),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("*.whl")
    place = tmp_path_factory.mktemp("一个 place") / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    return place


def test_the_wheel_runs_from_another_folder(unpacked: Path, tmp_path: Path) -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(unpacked)!r}); sys.meta_path = [f for f in sys.meta_path "
        "if 'editable' not in type(f).__module__ + getattr(f, '__name__', '').lower()]\n"
        "import tracer; assert tracer.__file__.startswith(sys.path[0]), tracer.__file__\n"
        "from tracer.__main__ import main; main()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, "qwen3", "--head", "2"],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path), "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "checks passed" in ended.stdout
    assert "code run    transformers" in ended.stdout


def test_it_holds_what_it_needs_and_nothing_of_others(unpacked: Path) -> None:
    held = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()}
    assert any(name.startswith("tracer/_data/annotations/texts/") for name in held)
    assert any(name.startswith("tracer/_data/vendor/pins/") for name in held)
    assert any(name.startswith("tracer/checkpoints/qwen3-tiny/") for name in held)
    assert "tracer/schemas/trace-1.schema.json" in held
    assert not [name for name in held if "vendor/files" in name or name.startswith("tests/")]
    (metadata,) = unpacked.glob("*.dist-info")
    assert "trace = tracer.__main__:main" in (metadata / "entry_points.txt").read_text()
