"""`trace source` on the command line: what may be asked for together, exit codes, both languages."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tracer.reading import check
from tracer.reading.check import Finding
from tracer.texts import message
from tracer.vendoring import places

Trace = Callable[..., Any]


@pytest.fixture(autouse=True)
def nothing_vendored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(places, "default_folder", lambda: tmp_path / "vendor")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize("words", [("qwen3",), (), ("qwen3", "glossary"), ("route",), ("--framework", "transformers")])
def test_the_model_may_be_left_out(trace: Trace, words: tuple[str, ...]) -> None:
    ended = trace("source", *words)
    assert (ended.code, ended.err) == (0, "")


def test_a_page_fits_the_terminal(trace: Trace) -> None:
    rows = trace("source", "qwen3", "softmax").out.splitlines()
    assert max(len(row) for row in rows if "https://" not in row) <= 80


def test_in_a_pipe_every_place_has_its_address_whole_on_a_line(trace: Trace) -> None:
    out = trace("source", "qwen3", "scale").out
    addresses = [row.strip() for row in out.splitlines() if "https://" in row]
    assert len(addresses) >= 10
    assert all(row.startswith("https://github.com/huggingface/transformers/") and "#L" in row for row in addresses)
    assert out.count("Links lead to the release tag") == 1


def test_a_page_and_its_data_go_into_a_file(trace: Trace, tmp_path: Path) -> None:
    page, data = tmp_path / "page.txt", tmp_path / "data.json"
    assert trace("source", "qwen3", "scale", "-o", str(page)).code == 0
    assert "https://github.com/" in page.read_text(encoding="utf-8")
    assert trace("source", "qwen3", "scale", "--format", "json", "-o", str(data)).code == 0
    found = json.loads(data.read_text(encoding="utf-8"))
    assert (found["kind"], found["value"], found["open_end"]) == ("path", "scale", None)
    first, last = found["steps"][0], found["steps"][-1]
    assert (first["code"], first["proven"], first["link"][:18]) == ("self.head_dim**-0.5", True, "https://github.com")
    assert last["when"][-1] == "is_fa_with_varlen_kwargs"
    assert [step["assumed"] != [] for step in found["steps"]].count(True) == 1


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ((), "contents"),
        (("softmax",), "lesson"),
        (("scale.call",), "place"),
        (("formulas",), "formulas"),
        (("glossary",), "glossary"),
        (("route",), "route"),
        (("--list",), "places"),
        (("--frameworks",), "frameworks"),
    ],
)
def test_everything_there_is_to_read_is_data_too(trace: Trace, words: tuple[str, ...], kind: str) -> None:
    found = json.loads(trace("source", "qwen3", *words, "--format", "json").out)
    assert (found["format"], found["kind"]) == ("tracer-source-1", kind)


def test_the_places_of_every_framework_can_be_listed(trace: Trace) -> None:
    ended = trace("source", "--frameworks", "--list")
    assert (ended.code, "trace vendor sync nano-vllm" in ended.err) == (2, True)  # nothing of it is here


def test_chinese(trace: Trace) -> None:
    assert "从分数到权重" in trace("source", "qwen3", "softmax", "--lang", "zh").out


@pytest.mark.parametrize(
    "words", [("scale", "--list"), ("--list", "--check"), ("--frameworks", "--framework", "vllm"), ("scale", "--check")]
)
def test_two_questions_at_once_are_refused(trace: Trace, words: tuple[str, ...]) -> None:
    ended = trace("source", "qwen3", *words)
    assert (ended.code, ended.out) == (2, "")
    assert "one page answers one of them" in ended.err


def test_a_third_word_is_refused(trace: Trace) -> None:
    ended = trace("source", "qwen3", "scale", "causal")
    assert ended.code == 2
    assert "Cannot tell what this is for: causal" in ended.err


def test_files_that_are_not_here_end_with_the_command_that_brings_them(trace: Trace) -> None:
    ended = trace("source", "qwen3", "scale", "--framework", "sglang")
    assert ended.code == 2
    assert "trace vendor sync sglang" in ended.err


def test_a_file_that_is_no_trace_is_refused(trace: Trace, tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes(b"nothing")
    assert trace("source", "qwen3", "scale", "--trace", str(tmp_path / "x.safetensors")).code == 2


@pytest.mark.parametrize(
    ("held", "code"), [((True, True), 0), ((True, None), 3), ((True, False), 1), ((None, False), 1)]
)
def test_the_exit_code_of_a_check(
    trace: Trace, monkeypatch: pytest.MonkeyPatch, held: tuple[bool | None, ...], code: int
) -> None:
    text = message("source_pages.check_fault", release="r", what="w")
    monkeypatch.setattr(check, "check", lambda: (Finding(each, text) for each in held))
    ended = trace("source", "--check")
    assert ended.code == code
    assert ended.out == "✗ r: w\n" * len(held)


def test_the_help_says_from_where_places_count_and_what_brings_the_files(trace: Trace) -> None:
    said = " ".join(trace("source", "--help").out.split())
    assert "lines count from 1 and columns from 0, as Python's own do" in said
    assert "All but transformers are brought by trace vendor sync." in said
    said = "".join(trace("source", "--help", "--lang", "zh").out.split())
    assert "行号从1数起，列号从0数起" in said
