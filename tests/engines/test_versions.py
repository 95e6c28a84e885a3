"""Another version of transformers beside the installed one: what is laid out, what is refused, and that it really runs.

Wheels come from folders here, as pip's ``find-links`` has them; no test needs a network.
"""

import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import platformdirs
import pytest
import transformers

from tests.engines.test_transformers import prompt
from tracer import pipeline
from tracer.engines.versions import engine, wheels
from tracer.engines.versions.names import version_of
from tracer.errors import InputError, Unsupported


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that is the only place to look, and a cache of this test's own."""
    for name in list(os.environ):
        if name.startswith("PIP_"):
            monkeypatch.delenv(name)
    folder = tmp_path / "shelf"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda _: tmp_path / "cache")
    return folder


def put(shelf: Path, name: str, version: str, *requires: str, files: dict[str, str] | None = None) -> None:
    """Put a wheel on the shelf."""
    module = name.replace("-", "_")
    metadata = "\n".join(["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"])
    metadata += "".join(f"\nRequires-Dist: {one}" for one in requires) + "\n"
    with zipfile.ZipFile(shelf / f"{module}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in (files or {f"{module}/__init__.py": f"version = {version!r}\n"}).items():
            wheel.writestr(path, text)
        wheel.writestr(f"{module}-{version}.dist-info/METADATA", metadata)


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("transformers@5.16.1", "5.16.1"),
        ("transformers", None),
        ("transformers@", None),
        ("transformers@x", None),
        ("transformers@5..1", None),
        ("transformers@../5", None),
        ("nano-vllm@1", None),
    ],
)
def test_a_version_is_named_behind_an_at_sign(name: str, version: str | None) -> None:
    assert version_of(name) == version


def test_a_wheel_is_laid_out_with_what_it_requires_and_is_not_installed_here(shelf: Path) -> None:
    put(
        shelf,
        "transformers",
        "0.0.1",
        "numpy>=1",
        "first-missing<2",
        "extra-only; extra == 'x'",
        "old; python_version < '3'",
    )
    put(shelf, "first-missing", "1.5", "second-missing")
    put(shelf, "first-missing", "2.0")
    put(shelf, "second-missing", "1.0")
    folder = wheels.laid_out("transformers", "0.0.1")
    assert sorted(path.name for path in folder.iterdir() if "." not in path.name) == [
        "first_missing", "second_missing", "transformers",
    ]  # fmt: skip
    assert (folder / "first_missing" / "__init__.py").read_text() == "version = '1.5'\n"


def test_what_is_installed_in_a_version_that_does_not_fit_is_laid_out_too(shelf: Path) -> None:
    put(shelf, "transformers", "0.0.1", "packaging<1")
    put(shelf, "packaging", "0.9")
    assert (wheels.laid_out("transformers", "0.0.1") / "packaging").is_dir()


def test_what_is_there_is_not_fetched_again(shelf: Path) -> None:
    put(shelf, "transformers", "0.0.1")
    folder = wheels.laid_out("transformers", "0.0.1")
    for wheel in shelf.iterdir():
        wheel.unlink()
    assert wheels.laid_out("transformers", "0.0.1") == folder


def test_a_version_that_no_place_has_is_refused_and_nothing_stays_behind(shelf: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"transformers==0\.0\.1 is needed, but no place has a wheel of it"):
        wheels.laid_out("transformers", "0.0.1")
    assert list((tmp_path / "cache").rglob("*.whl")) == []
    assert list((tmp_path / "cache" / "tracer").rglob(".incoming-*")) == []


def test_a_requirement_that_cannot_be_had_leaves_nothing_behind(shelf: Path, tmp_path: Path) -> None:
    put(shelf, "transformers", "0.0.1", "nowhere-to-be-had")
    with pytest.raises(InputError, match="nowhere-to-be-had is needed"):
        wheels.laid_out("transformers", "0.0.1")
    assert list((tmp_path / "cache").rglob("transformers/__init__.py")) == []


def test_requirements_that_exclude_each_other_are_refused(shelf: Path) -> None:
    put(shelf, "transformers", "0.0.1", "first-missing<2", "second-missing")
    put(shelf, "first-missing", "1.5")
    put(shelf, "second-missing", "1.0", "first-missing>=2")
    with pytest.raises(Unsupported, match=r"first-missing>=2 is required, but version 1\.5 was laid out"):
        wheels.laid_out("transformers", "0.0.1")


@pytest.mark.parametrize("path", ["../outside.py", "/outside.py", "a/../../outside.py"])
def test_a_wheel_that_would_write_elsewhere_is_refused(shelf: Path, tmp_path: Path, path: str) -> None:
    put(shelf, "transformers", "0.0.1", files={path: "x"})
    with pytest.raises(InputError, match="outside"):
        wheels.laid_out("transformers", "0.0.1")
    assert list(tmp_path.rglob("outside.py")) == []


def test_a_damaged_wheel_is_refused(shelf: Path) -> None:
    (shelf / "transformers-0.0.1-py3-none-any.whl").write_bytes(b"PK\x03\x04 and then nothing")
    with pytest.raises(InputError, match=r"transformers-0\.0\.1"):
        wheels.laid_out("transformers", "0.0.1")


def test_a_version_that_cannot_run_here_says_what_it_said(shelf: Path, make_checkpoint: Callable[..., Path]) -> None:
    put(shelf, "transformers", "9.0.1", files={"transformers/__init__.py": "raise ImportError('too new for this')\n"})
    asked = {"checkpoint": str(make_checkpoint()), "tokens": [1, 2], "head": 0, "kernel": "cpu-flash"}
    with pytest.raises(Unsupported) as refused:
        engine.trace_layers("9.0.1", [0], asked)
    said = str(refused.value)
    assert said.startswith("transformers 9.0.1 is here, but did not run beside the packages that are installed: ")
    assert said.endswith(" A version closer to the installed one is likelier to fit them.")
    assert "\n" not in said  # one sentence, no traceback


def test_a_version_older_than_any_known_one_is_refused_before_anything_is_fetched(shelf: Path, tmp_path: Path) -> None:
    put(shelf, "transformers", "4.57.0")
    with pytest.raises(Unsupported, match=r"transformers 4\.57\.0 is older than 5\.16, .*; nothing was fetched\."):
        engine.trace_layers("4.57.0", [0], {})
    assert not (tmp_path / "cache").exists()


def test_the_installed_version_by_its_number_runs_in_another_process_and_gives_the_same_bits(
    make_checkpoint: Callable[..., Path],
) -> None:
    asked = {"layers": (0, 2), "tokens": prompt(7), "kernel": "cpu-flash"}
    named = f"transformers@{transformers.__version__}"
    there = pipeline.trace_layers(str(make_checkpoint()), engine=named, **asked)
    here = pipeline.trace_layers(str(make_checkpoint()), **asked)
    for one, other in zip(there, here, strict=True):
        assert one.request.engine.value == named
        assert one.request.layer == other.request.layer
        assert all(one.captures[name].array.same_bits(other.captures[name].array) for name in other.captures)
