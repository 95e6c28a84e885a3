"""``trace verify``: the answer, where it goes, and the exit code a script acts on."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.conftest import Trace
from tracer.kernels import choose as kernels
from tracer.verification.faults.kernels import CHANGES, dense, varlen


def test_the_shipped_model_passes_and_the_answer_says_so(trace: Trace) -> None:
    ended = trace("verify", "qwen3", "--layer", "1")
    assert ended.code == 0
    assert "43 checks passed, 1 in part (188 results in 5 scenarios)" in ended.out
    assert "scale.effective" in ended.out
    assert "max|kernel − ref| = " in ended.out  # flash-attention's criterion, all three numbers
    assert "+ 3e-5 = " in " ".join(ended.out.split())


def test_all_layers_and_heads_as_json_and_junit(trace: Trace, tmp_path: Path) -> None:
    answer, junit = tmp_path / "verify.json", tmp_path / "verify.xml"
    ended = trace("verify", "qwen3", "--all", "--format", "json", "-o", str(answer), "--junit", str(junit))
    assert ended.code == 0
    assert ended.out == ""
    found = json.loads(answer.read_text(encoding="utf-8"))
    assert found["format"] == "verify/1"
    assert found["request"]["layers"] == [0, 1, 2]
    assert found["request"]["heads"] == list(range(8))
    assert ElementTree.parse(junit).getroot().get("failures") == "0"


def test_one_head_in_chinese(trace: Trace) -> None:
    ended = trace("verify", "qwen3", "--layer", "0", "--head", "3", "--lang", "zh")
    assert ended.code == 0
    assert "验证范围  第 0 层 · 第 3 个头" in ended.out


def test_verbose_tells_each_check_in_full(trace: Trace) -> None:
    ended = trace("verify", "qwen3", "--verbose", "--tokens", "5,9,5,9,5,1,2")
    assert ended.code == 0
    assert "Each check in full" in ended.out
    assert "verifying: " in ended.err


def test_a_faulty_kernel_fails_with_exit_code_1_and_names_the_place(
    trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tracer.kernels import cpu_flash

    wrong = CHANGES["causal_ignored"]
    monkeypatch.setattr(cpu_flash, "flash_attn_varlen_func", varlen(wrong, cpu_flash.flash_attn_varlen_func))
    monkeypatch.setattr(cpu_flash, "flash_attn_func", dense(wrong, cpu_flash.flash_attn_func))
    assert kernels.choose("cpu-flash", dtype="float32", head_dim=32).varlen is cpu_flash.flash_attn_varlen_func
    ended = trace("verify", "qwen3", "--layer", "0")
    assert ended.code == 1
    assert "✗" in ended.out
    assert "modeling_flash_attention_utils.py:" in ended.out
    assert "flash_varlen_fn(" in ended.out


def test_thorough_changes_every_token(trace: Trace, tmp_path: Path) -> None:
    answer = tmp_path / "verify.json"
    ended = trace("verify", "qwen3", "--tokens", "5,9,5,9,5,1,2", "--thorough", "--format", "json", "-o", str(answer))
    assert ended.code == 0
    found = json.loads(answer.read_text(encoding="utf-8"))
    effect = next(check for check in found["checks"] if check["id"] == "causal.effect")
    assert effect["figures"]["tried"] == 6


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--all", "--head", "1"], "--head asks for some"),
        (["--all", "--layers", "0..1"], "--layers asks for some"),
        (["--all", "--layer", "0"], "--layer asks for some"),
        (["--tokens", ""], "part 1 is nothing"),
        (["--tokens", "1,,2"], "part 2 is nothing"),
        (["--layer", ""], "found nothing"),
        (["--kernel", " "], "found nothing"),
        (["--layer", "9"], "layer 9"),
        (["--head", "9"], "head 9"),
        (["--format", "html"], "terminal, json"),
        (["--junit", "/nowhere/at/all/x.xml"], "/nowhere/at/all"),
        (["--query", "1"], "--query"),
    ],
)
def test_what_cannot_be_asked_for_ends_with_2_and_a_sentence(trace: Trace, arguments: list[str], said: str) -> None:
    ended = trace("verify", "qwen3", *arguments)
    assert ended.code == 2
    assert ended.out == ""
    assert said in ended.err


def test_another_engine_is_not_supported_and_says_what_is(trace: Trace) -> None:
    ended = trace("verify", "qwen3", "--engine", "nano-vllm")
    assert ended.code == 3
    assert "transformers only" in ended.err


def test_its_help_has_examples_and_the_exit_codes(trace: Trace) -> None:
    ended = trace("verify", "--help")
    assert ended.code == 0
    assert "nano-vllm" not in ended.out
    for word in ("--all", "--thorough", "--junit", "trace verify qwen3 --all", "Exit code"):
        assert word in ended.out
