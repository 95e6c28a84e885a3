"""A wrong command line: exit code 2, nothing on standard output, and a sentence that helps, in both languages."""

from collections.abc import Callable
from typing import Any

import pytest

Trace = Callable[..., Any]

KERNELS = "auto, flash-attn, flash-attn-3, flash-attn-4, cpu-flash, sdpa, eager"
MISTAKES = {
    "misspelt option": (
        ["qwen3", "--laier", "3"],
        "trace qwen3 has no option --laier. Did you mean --layer",
        "trace qwen3 没有 --laier 这个选项。你是不是想输入 --layer",
    ),
    "unknown option": (
        ["qwen3", "--zzz"],
        "trace qwen3 has no option --zzz. See trace qwen3 --help.",
        "trace qwen3 没有 --zzz 这个选项。请看 trace qwen3 --help。",
    ),
    "an option of another command": (
        ["verify", "qwen3", "--cached", "5"],
        "trace verify has no option --cached. It belongs to: trace qwen3, trace report.",
        "trace verify 没有 --cached 这个选项。它属于：trace qwen3, trace report。",
    ),
    "an option of another command alone": (
        ["lint", "--thorough", "x.py"],
        "trace lint has no option --thorough. It belongs to: trace verify.",
        "trace lint 没有 --thorough 这个选项。它属于：trace verify。",
    ),
    "an option of a lab": (
        ["qwen3", "--temperature", "2"],
        "trace qwen3 has no option --temperature. It belongs to: trace lab ",
        "trace qwen3 没有 --temperature 这个选项。它属于：trace lab ",
    ),
    "an option lengthened": (
        ["diff", "--langs", "en"],
        "trace diff has no option --langs. Did you mean --lang?",
        "trace diff 没有 --langs 这个选项。你是不是想输入 --lang？",
    ),
    "unknown short option": (
        ["qwen3", "-z"],
        "trace qwen3 has no option -z. See trace qwen3 --help.",
        "trace qwen3 没有 -z 这个选项。请看 trace qwen3 --help。",
    ),
    "option without its value": (
        ["qwen3", "--layer"],
        "--layer needs a value: --layer N",
        "--layer 后面缺少值：--layer N",
    ),
    "switch with a value": (
        ["qwen3", "--chat=yes"],
        "--chat is a switch and takes no value. Write --chat alone.",
        "--chat 是开关，不带值。请只写 --chat。",
    ),
    "not a number": (
        ["qwen3", "--layer", "two"],
        "--layer takes a whole number from 0; found two.",
        "--layer 需要一个不小于 0 的整数，实际是 two。",
    ),
    "below zero": (
        ["qwen3", "--head", "-1"],
        "--head takes a whole number from 0; found -1.",
        "--head 需要一个不小于 0 的整数，实际是 -1。",
    ),
    "misspelt value": (
        ["qwen3", "--kernel", "eagr"],
        f"--kernel takes one of {KERNELS}; found eagr. Did you mean eager?",
        f"--kernel 可以是 {KERNELS}，实际是 eagr。你是不是想输入 eager？",
    ),
    "value known by another name": (
        ["qwen3", "--dtype", "bf16"],
        "found bf16. Did you mean bfloat16?",
        "实际是 bf16。你是不是想输入 bfloat16？",
    ),
    "unknown value": (
        ["qwen3", "--format", "pdf"],
        "--format takes one of terminal, json, html; found pdf. Choose one of them.",
        "--format 可以是 terminal, json, html，实际是 pdf。请从中选一个。",
    ),
    "unknown device": (
        ["qwen3", "--device", "cuda:x"],
        "--device takes one of auto, cpu, cuda; found cuda:x. Did you mean cuda?",
        "--device 可以是 auto, cpu, cuda，实际是 cuda:x。你是不是想输入 cuda？",
    ),
    "not token ids": (
        ["qwen3", "--tokens", "5,,9"],
        "--tokens takes whole numbers from 0 separated by commas, such as 5,9,5; part 2 is nothing.",
        "--tokens 需要用逗号隔开的、不小于 0 的整数，例如 5,9,5；其中第 2 项是 “”（空）。",
    ),
    "token id below zero": (
        ["qwen3", "--tokens", "-1"],
        "--tokens takes whole numbers from 0 separated by commas, such as 5,9,5; part 1 is -1.",
        "--tokens 需要用逗号隔开的、不小于 0 的整数，例如 5,9,5；其中第 1 项是 -1。",
    ),
    "token id beyond any vocabulary": (
        ["qwen3", "--tokens", "5,99999999999999999999999"],
        "--tokens: part 2, 99999999999999999999…, is in no vocabulary",
        "--tokens 的第 2 项 99999999999999999999… 不在任何词表中",
    ),
    "number beyond counting": (
        ["qwen3", "--layer", "9999999999999999"],
        "--layer is 9999999999999999, larger than anything that could be counted here. Give a smaller number.",
        "--layer 的值 9999999999999999 太大",
    ),
    "half a range": (
        ["qwen3", "--layers", "0.."],
        "--layers takes a first and a last layer joined by two dots, such as 0..3; found “0..”.",
        "例如 0..3；实际是 “0..”。",
    ),
    "range the wrong way round": (
        ["qwen3", "--layers", "5..3"],
        "such as 0..3; the first, 5, is after the last, 3.",
        "而这里的首层 5 在末层 3 之后。",
    ),
    "value that ends a sentence": (
        ["qwen3", "--kernel", "what?"],
        "; found “what?”. Choose one of them.",
        "，实际是 “what?”。请从中选一个。",
    ),
    "misspelt option like one only": (["qwen3", "--hed", "1"], "Did you mean --head?", "你是不是想输入 --head？"),
    "misspelt option like several": (
        ["qwen3", "--layerr", "1"],
        "Did you mean --layer or --layers?",
        "你是不是想输入 --layer 或 --layers？",
    ),
    "two prompts": (
        ["qwen3", "--prompt", "a", "--tokens", "1"],
        "Only one prompt at a time; found --prompt, --tokens. Keep one of them.",
        "一次只能给一种提示词，现在同时有 --prompt, --tokens。请只留一个。",
    ),
    "tokens in a chat": (
        ["qwen3", "--tokens", "1", "--chat"],
        "--chat puts text into the chat template, and --tokens gives no text. Leave out one of them.",
        "--chat 要把文本套进对话模板，而 --tokens 给的不是文本。请去掉其中一个。",
    ),
    "revision of nothing": (
        ["qwen3", "--revision", "main"],
        "Say which checkpoint with --checkpoint HUB_ID.",
        "请同时用 --checkpoint HUB_ID 指明检查点。",
    ),
    "prompt without quotes": (
        ["qwen3", "--prompt", "the", "cat", "sat"],
        "Cannot tell what this is for: cat sat. Text with spaces needs quotes. See trace qwen3 --help.",
        "多出了看不懂的内容：cat sat。含空格的文本要加引号。请看 trace qwen3 --help。",
    ),
    "misspelt model": (["qwem3"], "qwem3 is neither a model nor a command.", "qwem3 既不是模型名，也不是命令。"),
    "other model": (
        ["llama"],
        "Any Qwen3 checkpoint can be traced with: trace qwen3 --checkpoint DIR_OR_HUB_ID",
        "任何 Qwen3 检查点都可以这样查看：trace qwen3 --checkpoint 文件夹或hub的id",
    ),
    "option without its dashes": (["help"], "Did you mean trace --help?", "你是不是想输入 trace --help？"),
    "misspelt command": (["sohw", "x"], "Did you mean show?", "你是不是想输入 show？"),
    "misspelt command of a command": (
        ["vendor", "snyc"],
        "There is no command snyc. Commands: sync, status. Did you mean sync?",
        "没有 snyc 这个命令。可用的命令：sync, status。你是不是想输入 sync？",
    ),
    "missing argument": (["show"], "FILE is missing. See trace show --help.", "缺少 FILE。请看 trace show --help。"),
    "query of no head": (
        ["qwen3", "--query", "5"],
        "--query follows one position through one head. Say which head: --head N --query 5",
        "--query 是在某一个头里追踪一个位置。请指明是哪个头：--head N --query 5",
    ),
    "window of nothing": (
        ["qwen3", "--window", "0"],
        "--window takes a whole number from 1; found 0.",
        "--window 需要一个不小于 1 的整数，实际是 0。",
    ),
    "checkpoint for a model": (
        ["Qwen/Qwen3-0.6B"],
        "Write: trace qwen3 --checkpoint Qwen/Qwen3-0.6B",
        "请写成：trace qwen3 --checkpoint Qwen/Qwen3-0.6B",
    ),
    "option before the model": (
        ["--layer", "0", "qwen3"],
        "--layer belongs after the model. Write: trace qwen3 --layer ...",
        "--layer 应写在模型名之后：trace qwen3 --layer ...",
    ),
    "empty file name": (
        ["qwen3", "--output", ""],
        "--output takes the name of a file; it was given nothing.",
        "--output 需要文件名，却是空的。",
    ),
    "text that is no Unicode": (
        ["qwen3", "--prompt", "ab\udcff"],
        "The text of --prompt is not valid UTF-8 at character 3.",
        "--prompt 的文本在第 3 个字符处不是有效的 UTF-8。",
    ),
    "unknown shell": (
        ["--show-completion", "tcsh"],
        "--show-completion takes one of bash, zsh, fish; found tcsh.",
        "--show-completion 可以是 bash, zsh, fish，实际是 tcsh。",
    ),
}


@pytest.mark.parametrize(("arguments", "english", "chinese"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_explained(trace: Trace, arguments: list[str], english: str, chinese: str) -> None:
    ended = trace("--lang", "en", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: ")
    assert english in ended.err

    ended = trace("--lang", "zh", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("错误：")
    assert chinese in ended.err


def test_an_unknown_language_is_explained_in_the_one_of_the_locale(
    trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "--lang takes one of en, zh; found fr. Choose one of them." in trace("qwen3", "--lang", "fr").err
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    assert "--lang 可以是 en, zh，实际是 fr。请从中选一个。" in trace("qwen3", "--lang", "fr").err


HOSTILE = {
    "markup": ("[/red][bold]x", "[/red][bold]x"),
    "escape sequence": ("\x1b[2J\x1b]0;owned\x07", r"\x1b[2J\x1b]0;owned\x07"),
    "right-to-left override": ("\u202egnp.exe", r"\u202egnp.exe"),
    "new line": ("a\nerror: b", r"a\nerror: b"),
    "C1 control": ("a\x9b31mb", r"a\x9b31mb"),
    "line separator": ("a\u2028b", r"a\u2028b"),
    "NUL": ("a\x00b", r"a\x00b"),
    "lone surrogate": ("a\udc80b", r"a\udc80b"),
    "braces": ("{word}{0.__class__}", "{word}{0.__class__}"),
}


@pytest.mark.parametrize(("value", "shown"), HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("arguments", [["qwen3", "--kernel"], ["qwen3", "--layer"], ["qwen3", "--device"], []])
def test_a_hostile_value_is_shown_and_does_nothing(trace: Trace, value: str, shown: str, arguments: list[str]) -> None:
    ended = trace(*arguments, value)
    assert ended.code == 2
    assert shown in ended.err
    assert ended.err.count("\n") == 1
    assert all(letter.isprintable() for letter in ended.err.removesuffix("\n"))


def test_a_hostile_option_name_does_nothing_either(trace: Trace) -> None:
    ended = trace("qwen3", "--\x1b[31m\u202e")
    assert ended.code == 2
    assert r"--\x1b[31m\u202e" in ended.err


def test_a_very_long_value_is_cut_short(trace: Trace) -> None:
    ended = trace("qwen3", "--kernel", "k" * 100_000)
    assert ended.code == 2
    assert len(ended.err) < 1000


def test_words_after_two_dashes_are_no_options(trace: Trace) -> None:
    assert "Cannot tell what this is for: --lang zh" in trace("qwen3", "--", "--lang", "zh").err
