"""Shell completion: models, commands, options, and the values of options, with their texts in the reader's language."""

from collections.abc import Callable
from typing import Any

import pytest

Trace = Callable[..., Any]


@pytest.fixture
def complete(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """``complete("trace qwen3 --ker")``: what bash would offer."""

    def offered(line: str) -> list[str]:
        words = line.split(" ")
        monkeypatch.setenv("_TRACE_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        ended = trace()
        assert (ended.code, ended.err) == (0, "")
        return [item.split(",", 1)[1] for item in ended.out.splitlines() if item]

    return offered


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("trace qw", ["qwen3"]),
        ("trace --vers", ["--version"]),
        ("trace --show-completion ", ["bash", "zsh", "fish"]),
        ("trace qwen3 --ker", ["--kernel"]),
        ("trace qwen3 --kernel ", ["auto", "flash-attn", "flash-attn-3", "flash-attn-4", "cpu-flash", "sdpa", "eager"]),
        ("trace qwen3 --kernel=fl", ["flash-attn", "flash-attn-3", "flash-attn-4"]),
        ("trace qwen3 --layer 2 --format ", ["terminal", "json", "html"]),
        ("trace qwen3 --lang ", ["en", "zh"]),
        ("trace qwen3 --dtype b", ["bfloat16"]),
        ("trace nonsense --", ["--lang", "--help", "--version", "--show-completion"]),
        ("trace qwen3 --layer ", []),
        ("trace v", ["verify", "vendor"]),
        ("trace vendor s", ["sync", "status"]),
        ("trace vendor sync nano", ["nano-vllm"]),
        ("trace source q", ["qwen3", "q", "qkv"]),
        ("trace source qwen3 sc", ["scale", "scores", "scale-path", "scale.call"]),
        ("trace source qwen3 scale.a", []),
        ("trace source --framework vllm qwen3 scale.a", ["scale.argument", "scale.attribute"]),
        ("trace source qwen3 scale ", []),
        ("trace source scale q", []),
        ("trace source qwen3 scale --framework ", ["transformers", "nano-vllm", "vllm", "sglang", "flash-attn"]),
        ("trace source qwen3 --framework nonsense f", ["frameworks", "formulas"]),
        ("trace compare qwen3 --engines ", ["transformers", "nano-vllm"]),
        ("trace compare qwen3 --engines transformers,", ["transformers,nano-vllm"]),
        ("trace compare qwen3 --kernels cpu-flash,s", ["cpu-flash,sdpa"]),
    ],
)
def test_what_is_offered(complete: Callable[[str], list[str]], line: str, expected: list[str]) -> None:
    assert complete(line) == expected


def test_every_model_and_command_is_offered(complete: Callable[[str], list[str]]) -> None:
    assert complete("trace ")[0] == "qwen3"
    offered = complete("trace source qwen3 ")
    assert {"scale", "causal", "softmax", "glossary", "norm.k"} <= set(offered)
    assert len(offered) == len(set(offered))


def test_fish_shows_the_texts_in_the_language_of_the_locale(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TRACE_COMPLETE", "fish_complete")
    monkeypatch.setenv("COMP_WORDS", "trace qwen3 --head")
    monkeypatch.setenv("COMP_CWORD", "--head")
    assert "Which query head of that layer" in trace().out
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    assert "该层的第几个 query 头" in trace().out


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_script_of_a_shell(trace: Trace, shell: str) -> None:
    ended = trace("--show-completion", shell)
    assert (ended.code, ended.err) == (0, "")
    assert "_TRACE_COMPLETE" in ended.out
