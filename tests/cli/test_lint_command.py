"""``trace lint``: formats, exit codes, and what is said of a wrong path."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Trace = Callable[..., Any]

RIGHT = "from flash_attn import flash_attn_func\ndef f(q, k, v):\n    return flash_attn_func(q, k, v, causal=True)\n"
WRONG = RIGHT.replace("f(q, k, v)", "f(q, k, v, attention_mask)", 1).replace("True", "attention_mask is None")
DEPENDS = RIGHT.replace("f(q, k, v)", "f(q, k, v, causal)", 1).replace("causal=True", "causal=causal")
UNKNOWN = RIGHT.replace("causal=True", "softmax_scale=s(), causal=True")


@pytest.mark.parametrize(
    ("code", "ended"),
    [(RIGHT, 0), (DEPENDS, 0), (WRONG, 1), (UNKNOWN, 3), ("x = 1\n", 3)],
    ids=["right", "depends", "wrong", "unknown", "none"],
)
@pytest.mark.parametrize("format", ["terminal", "json", "sarif"])
def test_the_exit_code_says_what_was_found(trace: Trace, tmp_path: Path, code: str, ended: int, format: str) -> None:
    (tmp_path / "a.py").write_text(code)
    found = trace("lint", str(tmp_path), "--format", format)
    assert (found.code, found.err) == (ended, "")
    if format != "terminal":
        assert json.loads(found.out)["format" if format == "json" else "version"] in ("lint/1", "2.1.0")


def test_the_page_of_a_right_kernel(trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text(RIGHT)
    out = trace("lint", "a.py").out
    assert "no findings · judged right: 1 of 1" in out
    assert "flash_attn_func  a.py:3:11  f" in out
    assert "scale default, equals head_dim**-0.5" in out
    assert "causal True" in out


def test_what_the_caller_decides_is_counted_apart(trace: Trace, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(DEPENDS)
    out = " ".join(trace("lint", str(tmp_path)).out.split())
    assert "no findings · judged right: 0 of 1 · scale right, causality left to the caller: 1" in out
    assert "~ flash_attn_func" in out
    assert "causal depends on causal" in out
    assert "✓" not in out


def test_a_page_without_kernels_has_no_section_for_them(trace: Trace, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    for language, heading in (("en", "Kernels"), ("zh", "kernel ─")):
        out = trace("lint", str(tmp_path), "--lang", language).out
        assert heading not in out
        assert len(out.split("\n\n")) == 1


def test_the_page_in_chinese(trace: Trace, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(WRONG)
    out = trace("lint", str(tmp_path), "--lang", "zh").out
    assert "1 处问题" in out
    assert "这个 kernel 是否因果取决于 attention_mask is None" in out


def test_the_answer_goes_to_a_file(trace: Trace, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(WRONG)
    found = trace("lint", str(tmp_path), "--format", "sarif", "-o", str(tmp_path / "lint.sarif"))
    assert (found.code, found.out) == (1, "")
    assert json.loads((tmp_path / "lint.sarif").read_text())["version"] == "2.1.0"


def test_a_missing_path_and_a_missing_argument_are_bad_usage(trace: Trace, tmp_path: Path) -> None:
    missing = trace("lint", str(tmp_path / "nowhere"))
    assert (missing.code, missing.out) == (2, "")
    assert "trace lint takes Python files and folders" in missing.err
    assert trace("lint").code == 2
    assert trace("lint", "", "x").code == 2
