"""What the functions of the package refuse, in sentences a Python user can act on."""

from typing import Any

import numpy as np
import pytest

import tracer
from tracer import pipeline
from tracer.errors import InputError


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
