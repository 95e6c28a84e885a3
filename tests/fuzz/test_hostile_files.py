"""Thousands of files that are wrong in every way that Hypothesis can think of: each is taken, or refused in a sentence
that names the file and says what to do; nothing hangs, fills the memory, or is written."""

from pathlib import Path

import pytest
import torch  # noqa: F401 - what reads weights imports it, and that is not what is watched
from hypothesis import given, settings

from tests.fuzz.conftest import examples
from tests.fuzz.strategies import files
from tests.fuzz.subjects import SUBJECTS, judge

COUNTS = {
    "header": 500,
    "config": 500,
    "index": 350,
    "tokenizer": 500,
    "trace": 300,
    "lint": 75,
    "pins": 500,
    "prompt": 200,
}
CORPUS = Path(__file__).parent / "corpus"


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_right_file_is_taken(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    SUBJECTS[name].prepare(folder)
    assert judge(SUBJECTS[name], SUBJECTS[name].seed(), folder) is None


@pytest.mark.parametrize("name", SUBJECTS)
def test_what_the_guided_search_found(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    SUBJECTS[name].prepare(folder)
    found = sorted((CORPUS / name).iterdir())
    assert found
    for file in found:
        judge(SUBJECTS[name], file.read_bytes(), folder)


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_hostile_file_is_taken_or_refused(name: str, tmp_path: Path) -> None:
    subject, refused, tried = SUBJECTS[name], 0, 0
    folder = tmp_path / "files"
    subject.prepare(folder)
    before = sorted(path.name for path in folder.iterdir())

    @settings(max_examples=examples(COUNTS[name]))
    @given(files(name))
    def one(data: bytes) -> None:
        nonlocal refused, tried
        tried += 1
        refused += judge(subject, data, folder) is not None

    one()
    assert sorted(path.name for path in folder.iterdir()) == before
    if name not in ("lint", "prompt"):  # these tell of it beside what they could judge, or take any text
        assert refused > tried / 4
