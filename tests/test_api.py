"""What the functions of the package refuse, in sentences a Python user can act on."""

from typing import Any

import numpy as np
import pytest

import tracer
from tracer import pipeline
from tracer.errors import InputError, TracerError, in_python
from tracer.render.text import html_of
from tracer.texts import message

NAMES = {name: name for name in ("revision", "kernel", "chat")}


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"layer": "0"}, "trace(layer=…) takes a whole number, such as 0; it was given '0' (str)."),
        ({"layer": 1.0}, "trace(layer=…) takes a whole number, such as 0; it was given 1.0 (float)."),
        ({"head": True}, "trace(head=…) takes a whole number, such as 0; it was given True (bool)."),
        ({"query": "last"}, "trace(query=…) takes a whole number, such as 0; it was given 'last' (str)."),
        (
            {"tokens": [1.5]},
            "trace(tokens=…) takes token ids: a list of whole numbers, such as [5, 9, 5]; it was given 1.5 (float).",
        ),
        (
            {"tokens": "abc"},
            "trace(tokens=…) takes token ids: a list of whole numbers, such as [5, 9, 5]; it was given 'abc' (str).",
        ),
        (
            {"tokens": 5},
            "trace(tokens=…) takes token ids: a list of whole numbers, such as [5, 9, 5]; it was given 5 (int).",
        ),
        ({"prompt": 5}, "trace(prompt=…) takes text; it was given 5 (int)."),
        ({"checkpoint": 5}, "trace(checkpoint=…) takes text; it was given 5 (int)."),
        ({"kernel": None}, "trace(kernel=…) takes text; it was given None (NoneType)."),
        ({"chat": 1}, "trace(chat=…) takes True or False; it was given 1 (int)."),
        (
            {"tokens": [1, 2], "chat": True},
            "trace(chat=True) puts text into the chat template, and tokens gives no text. Leave out one of them.",
        ),
    ],
)
def test_a_wrong_argument_is_bad_input(asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        tracer.trace(**asked)
    assert str(refused.value) == sentence
    assert refused.value.exit_code == 2
    assert refused.value.text("zh")


@pytest.mark.parametrize(
    ("asked", "en", "zh"),
    [
        (
            {"layer": 9},
            "There is no layer 9: this model's layers are 0 to 2. Choose one of them with layer=.",
            "没有第 9 层：这个模型的层号是 0 到 2。请用 layer= 指定其中一层。",
        ),
        (
            {"head": 9},
            "There is no query head 9: this model's query heads are 0 to 7. Choose one of them with head=.",
            "没有第 9 个 query 头：这个模型的 query 头编号是 0 到 7。请用 head= 指定其中一个。",
        ),
        (
            {"tokens": [5, 9], "query": 99},
            "Query position 99 is out of range: this prompt has positions 0 to 1. Choose one of those with query=.",
            "query 位置 99 超出范围：这段提示词的位置是 0 到 1。请用 query= 选择其中之一。",
        ),
        (
            {"tokens": [5], "query": 99},
            "Query position 99 is out of range: this prompt has one position, 0. Ask for it with query=0.",
            "query 位置 99 超出范围：这段提示词只有一个位置 0。请用 query=0 指定它。",
        ),
        (
            {"tokens": []},
            "The prompt has no tokens. Give some text with prompt=, or ids with tokens=[1,2,3].",
            "提示词中没有任何 token。请用 prompt= 给出文本，或用 tokens=[1,2,3] 给出编号。",
        ),
        (
            {"cached": 3},
            "A cached prefix (cached=) and decode (decode=) are traced on nano-vllm's code, and "
            'engine="transformers" was asked for. Add engine="nano-vllm".',
            "前缀缓存（cached=）和 decode（decode=）在 nano-vllm 的代码上追踪，而指定的是 "
            'engine="transformers"。请加上 engine="nano-vllm"。',
        ),
        (
            {"kernel": "cpu-flash", "device": "mps"},
            'kernel="cpu-flash" runs on the CPU, but device="mps" was asked for. Leave out device=, or choose '
            'kernel="flash-attn".',
            'kernel="cpu-flash" 只能在 CPU 上运行，但指定了 device="mps"。请去掉 device=，或改用 kernel="flash-attn"。',
        ),
    ],
    ids=str,
)
def test_a_python_caller_is_told_of_arguments_and_not_of_options(asked: dict[str, Any], en: str, zh: str) -> None:
    with pytest.raises(TracerError) as refused:
        tracer.trace(**asked)
    assert (str(refused.value), refused.value.text("zh")) == (en, zh)


def test_the_same_error_on_the_command_line_tells_of_options() -> None:
    with pytest.raises(InputError, match=r"Choose one of them with --layer\.$"):
        pipeline.trace(layer=9)


def test_the_callers_autocast_is_told_of_where_the_run_left_it_out() -> None:
    import torch

    told = message("pipeline.autocast", cast="bfloat16", dtype="float32")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        traced = tracer.trace(head=2)
        asked = tracer.trace(head=2, dtype="bfloat16")
    assert told in traced.layer.warnings
    assert "torch.autocast (bfloat16) is on here, but the trace ran without it, in float32" in html_of(traced, "en")
    assert "但追踪时没有使用它" in told.text("zh")
    assert not asked.layer.warnings  # autocast would have computed in bfloat16 as well
    assert not tracer.trace(head=2).layer.warnings


def test_an_option_that_is_no_argument_stays_one() -> None:
    told = in_python('--window 3, --layers, --revision "main", --kernel {x}, --chat out', {"layer": "layer", **NAMES})
    assert told == '--window 3, --layers, revision="main", kernel= {x}, chat= out'


def test_verify_tells_of_its_own_arguments() -> None:
    with pytest.raises(InputError) as refused:
        tracer.verify(layers=[9])
    assert "layers=" in str(refused.value)
    assert "--" not in str(refused.value)


def test_a_long_wrong_value_is_cut_short() -> None:
    with pytest.raises(InputError) as refused:
        tracer.trace(tokens="x" * 10_000)
    assert len(str(refused.value)) < 200


def test_whole_numbers_of_other_libraries_count(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(pipeline, "trace", lambda *_, **asked: given.update(asked))
    tracer.trace(layer=np.int64(1), head=np.int32(2), query=np.int64(3), tokens=np.array([4, 5]))  # type: ignore[arg-type]
    assert (given["layer"], given["head"], given["query"], given["tokens"]) == (1, 2, 3, [4, 5])
    assert {type(value) for value in (given["layer"], given["head"], given["query"], *given["tokens"])} == {int}
