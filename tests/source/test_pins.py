"""A link is true or absent: pins say which bytes a file has and where upstream the same lines stand."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tracer.errors import InputError
from tracer.source.pins import Pin, is_inside, lookup, parse, permalink, pins, projects

PIN = Pin(
    project="demo",
    package="demo",
    version="1.2",
    archive="wheel",
    member="demo/a.py",
    sha256="ab" * 32,
    bytes=10,
    git_blob="cd" * 20,
    licence="MIT",
    repository="owner/demo",
    commit="ef" * 20,
    tag=None,
    path="src/demo/a.py",
    same_until_line=None,
    note="",
)

TEXT = f"""
project = "demo"
package = "demo-package"
repository = "owner/demo"
licence = "MIT"

[[release]]
version = "1.2"
archive = "wheel"
commit = "{"ef" * 20}"

[[release.file]]
member = "demo/a.py"
path = "src/demo/a.py"
sha256 = "{"ab" * 32}"
bytes = 10
git_blob = "{"cd" * 20}"
"""


def test_every_framework_has_pins() -> None:
    assert projects() == ("flash-attn", "nano-vllm", "sglang", "transformers", "vllm")
    assert sum(len(pins(project)) for project in projects()) == 31


@pytest.mark.parametrize("project", ["flash-attn", "nano-vllm", "sglang", "transformers", "vllm"])
def test_a_pin_is_found_by_the_hash_of_its_file(project: str) -> None:
    for pin in pins(project):
        assert lookup(pin.sha256) == pin
        assert lookup(pin.sha256.upper()) == pin


def test_an_unknown_hash_has_no_pin() -> None:
    assert lookup("0" * 64) is None


def test_every_link_shows_either_a_whole_commit_or_a_release_tag() -> None:
    for pin in (pin for project in projects() for pin in pins(project)):
        link, kind = permalink(pin, 1, 2)
        assert link is not None
        reference = re.fullmatch(r"https://github\.com/[\w-]+/[\w.-]+/blob/([^/]+)/(.+)#L1-L2", link)
        assert reference is not None
        assert reference[2] == pin.path
        pattern = {"commit": r"[0-9a-f]{40}", "tag": r"v\d+\.\d+\.\d+"}[kind]
        assert re.fullmatch(pattern, reference[1])


def test_a_link_names_one_line_or_a_stretch() -> None:
    base = f"https://github.com/owner/demo/blob/{'ef' * 20}/src/demo/a.py"
    assert permalink(PIN, 10) == (f"{base}#L10", "commit")
    assert permalink(PIN, 10, 10) == (f"{base}#L10", "commit")
    assert permalink(PIN, 10, 12) == (f"{base}#L10-L12", "commit")


def test_without_a_proven_commit_the_link_goes_to_the_tag_and_says_so() -> None:
    tagged = replace(PIN, commit=None, tag="v1.2")
    assert permalink(tagged, 3) == ("https://github.com/owner/demo/blob/v1.2/src/demo/a.py#L3", "tag")


@pytest.mark.parametrize(("line", "end_line"), [(0, 1), (-1, None), (5, 4)])
def test_lines_that_cannot_be_are_refused(line: int, end_line: int | None) -> None:
    with pytest.raises(ValueError, match="count from 1"):
        permalink(PIN, line, end_line)


def test_no_link_reaches_a_line_that_upstream_does_not_have_there() -> None:
    changed = replace(PIN, same_until_line=203)
    assert permalink(changed, 203)[1] == "commit"
    assert permalink(changed, 204) == (None, "differs")
    assert permalink(changed, 200, 204) == (None, "differs")


def test_the_changed_file_of_nano_vllm_is_linked_only_as_far_as_it_is_equal() -> None:
    (qwen3,) = (pin for pin in pins("nano-vllm") if pin.path.endswith("models/qwen3.py"))
    assert qwen3.same_until_line == 203
    assert permalink(qwen3, 204) == (None, "differs")
    others = [pin for project in projects() for pin in pins(project) if pin != qwen3]
    assert all(pin.same_until_line is None for pin in others)


def test_an_unpinned_project_is_named_with_those_that_are_pinned() -> None:
    with pytest.raises(InputError) as caught:
        pins("llama.cpp")
    assert str(caught.value) == (
        "No source of a project named llama.cpp is pinned. "
        "The pinned projects are flash-attn, nano-vllm, sglang, transformers, vllm."
    )
    assert "llama.cpp" in caught.value.text("zh")


def test_a_pin_file_gives_its_files_what_all_of_them_share() -> None:
    (pin,) = parse(TEXT, Path("demo.toml"))
    assert pin == replace(PIN, package="demo-package")


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('project = "demo"', 'project = "other"', "project"),
        ('project = "demo"', "project =", "(TOML)"),
        ('licence = "MIT"\n', "", "licence"),
        ('repository = "owner/demo"', 'repository = "owner"', "repository"),
        ('archive = "wheel"', 'archive = "egg"', "release[0].archive"),
        ("ef" * 20, "ef" * 4, "release[0].commit"),
        (f'commit = "{"ef" * 20}"', "", "release[0].commit, tag"),
        (f'commit = "{"ef" * 20}"', f'commit = "{"ef" * 20}"\ntag = "v1.2"', "release[0].commit, tag"),
        ('version = "1.2"', 'version = "../1.2"', "release[0].version"),
        ("ab" * 32, "ab" * 31, "release[0].file[0].sha256"),
        ("cd" * 20, "no", "release[0].file[0].git_blob"),
        ("bytes = 10", "bytes = -1", "release[0].file[0].bytes"),
        ("bytes = 10", "bytes = true", "release[0].file[0].bytes"),
        ("bytes = 10", "bytes = 10\nsame_untill_line = 3", "release[0].file[0].same_untill_line"),
        ('member = "demo/a.py"', 'member = "../a.py"', "release[0].file[0].member"),
        ('path = "src/demo/a.py"', 'path = "/src/a.py"', "release[0].file[0].path"),
        ("[[release.file]]", "[[release.files]]", "release[0].file"),
        ("[[release]]", "[release]", "release"),
    ],
)
def test_a_faulty_pin_file_is_refused_with_the_key_at_fault(old: str, new: str, key: str) -> None:
    assert TEXT.count(old) >= 1
    text = TEXT.replace(old, new)
    if new == "[release]":
        text = text.split("[[release.file]]")[0]
    with pytest.raises(InputError) as caught:
        parse(text, Path("demo.toml"))
    assert f"The pin file demo.toml cannot be used: at {key} it has " in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("name", ["a.py", "a/b.py", "a/b-c_d.1.py", "a b.py"])
def test_names_that_stay_inside(name: str) -> None:
    assert is_inside(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../a", "a/../b", "/a", "a//b", "a/", "./a", "a\\b", "c:a", "a\0b", "a/..", "\\\\host\\a"]
)
def test_names_that_leave_or_could_leave_the_folder(name: str) -> None:
    assert not is_inside(name)


def test_importing_pins_reads_nothing() -> None:
    code = (
        "import builtins, pathlib\n"
        "import tomllib\n"
        "def no(*_, **__): raise AssertionError('read at import')\n"
        "pathlib.Path.read_text = tomllib.loads = no\n"
        "import tracer.source.pins\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
