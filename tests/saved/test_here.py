"""Source files on this machine are shown beside a saved trace only where they have the very bytes that ran."""

import hashlib
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.invented_trace import invented, site
from tracer.result import look_at
from tracer.saved import here
from tracer.saved.read import load
from tracer.saved.write import save

SOURCE = b"x = 1\n"
SHA256 = hashlib.sha256(SOURCE).hexdigest()


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a package's file; importing the package would fail."""
    folder = tmp_path / "somewhere" / "engine_of_tests"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise AssertionError('imported')")
    (folder / "model.py").write_bytes(SOURCE)
    monkeypatch.syspath_prepend(str(folder.parent))
    here._root.cache_clear()
    here.file_here.cache_clear()
    return folder / "model.py"


def test_the_same_content_is_found_without_importing_the_package(installed: Path) -> None:
    assert here.file_here("engine_of_tests", "engine_of_tests/model.py", SHA256) == installed
    assert here.file_here("engine_of_tests", "src/engine_of_tests/model.py", SHA256) == installed
    assert "engine_of_tests" not in sys.modules


def test_other_content_is_not(installed: Path) -> None:
    installed.write_bytes(b"x = 2\n")
    assert here.file_here("engine_of_tests", "engine_of_tests/model.py", SHA256) == Path("engine_of_tests/model.py")


@pytest.mark.parametrize("project", ["engine_of_tests.sub", "no-such", "__main__", "nothing_of_that_name", ""])
def test_no_such_package_is_no_error(project: str, installed: Path) -> None:
    assert here.file_here(project, "a/b.py", SHA256) == Path("a/b.py")
    assert "engine_of_tests" not in sys.modules


def test_a_saved_trace_opens_with_it(installed: Path, tmp_path: Path) -> None:
    layer = invented()
    place = site(1, "x = 1", project="engine_of_tests", path="engine_of_tests/model.py", sha256=SHA256)
    layer = replace(layer, kernel=replace(layer.kernel, site=place))
    save(look_at(layer, 0), tmp_path / "trace.safetensors")
    assert load(tmp_path / "trace.safetensors").kernel.site.file == installed
