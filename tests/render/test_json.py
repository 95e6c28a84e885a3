"""JSON of a trace: what stands in it is what the trace holds, and nothing that JSON or another reader cannot use."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.invented_trace import array, invented, with_array
from tracer.errors import InputError
from tracer.records import LayerTrace
from tracer.render.json import dumps, to_json
from tracer.result import look_at
from tracer.saved.read import load
from tracer.saved.write import save
from tracer.texts import message


def read(layer: LayerTrace, head: int = 2, **options: Any) -> Any:
    """Return the JSON text of a head, parsed as strictly as any reader may."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(dumps(look_at(layer, head), **options), parse_constant=refuse)


def test_the_entries_are_those_of_the_design_in_their_order() -> None:
    names = "format request versions checkpoint model tokens scale causal kernel tensors head checks warnings"
    assert list(read(invented())) == names.split()


def test_text_and_values_are_the_same_document() -> None:
    trace = look_at(invented(), 1)
    assert json.loads(dumps(trace)) == to_json(trace)
    assert dumps(trace).endswith("}\n")


def test_it_is_about_the_head_that_is_looked_at() -> None:
    found = read(invented(), head=3)
    assert found["request"]["head"] == 3
    assert found["model"]["kv_head"] == 1
    layer = invented()
    assert np.array_equal(np.array(found["head"]["kernel_output"]), layer.kernel.output.float64()[:, 3])
    assert np.array_equal(np.array(found["head"]["kernel_lse"]), layer.kernel.lse.float64()[3])  # type: ignore[union-attr]


def test_hidden_scores_are_null_and_visibility_says_why() -> None:
    head = read(invented())["head"]
    hidden = [[score is None for score in row] for row in head["scores"]]
    assert hidden == [[not seen for seen in row] for row in head["visible"]]
    assert head["visible"] == np.tri(5, dtype=bool).tolist()
    assert all(weight == 0 for i, row in enumerate(head["weights"]) for weight in row[i + 1 :])


def test_the_numbers_can_be_computed_from_each_other() -> None:
    found = read(invented())
    head = found["head"]
    for row, (scores, weights) in enumerate(zip(head["scores"], head["weights"], strict=True)):
        seen = [score for score in scores if score is not None]
        assert head["row_max"][row] == pytest.approx(max(seen), rel=1e-14)
        assert head["lse"][row] == pytest.approx(np.log(np.exp(seen).sum()), rel=1e-12)
        assert sum(weights) == pytest.approx(1, abs=1e-14)
    v = invented().captures["v"].array.float64()[:, 1]
    assert np.allclose(np.array(head["weights"]) @ v, head["output"], rtol=1e-13)


def test_tensors_come_in_the_order_they_run_with_place_and_formula() -> None:
    tensors = read(invented())["tensors"]
    assert [tensor["name"] for tensor in tensors] == [
        "hidden", "q_proj", "q", "k", "v", "scores", "row_max", "lse", "weights", "output",
    ]  # fmt: skip
    q = next(tensor for tensor in tensors if tensor["name"] == "q")
    assert (q["shape"], q["axes"], q["dtype"], q["origin"]) == ([5, 4, 8], ["T", "H", "D"], "F32", "captured")
    assert (q["site"]["line"], q["site"]["code"], q["site"]["link_kind"]) == (850, "q", "tag")
    scores = next(tensor for tensor in tensors if tensor["name"] == "scores")
    assert (scores["origin"], scores["dtype"], scores["shape"]) == ("recomputed", "F64", [5, 5])


def test_tokens_have_exact_bytes_and_text_only_where_they_are_text() -> None:
    tokens = read(invented())["tokens"]
    assert [token["text"] for token in tokens] == ["to", " be", None, None, "<b>"]
    assert bytes.fromhex("".join(token["bytes"] for token in tokens)).decode() == "to be 西<b>"


def test_scale_and_causality_by_flag_and_by_effect() -> None:
    found = read(invented(12))
    assert found["scale"]["value"] == found["scale"]["expected"] == 8**-0.5
    assert found["scale"]["effective"] == pytest.approx(8**-0.5, rel=1e-5)
    assert [hop["line"] for hop in found["scale"]["lineage"]] == [213, 266, 850]
    assert (found["causal"]["flag"], found["causal"]["effective"]) == (True, True)


def test_a_leak_shows_in_the_effect_whatever_the_flag_says() -> None:
    layer = invented()
    leaking = replace(layer, effects=replace(layer.effects, changed=((4, 1, True),)))
    assert (read(leaking)["causal"]["flag"], read(leaking)["causal"]["effective"]) == (True, False)


def test_what_cannot_be_told_is_null() -> None:
    alike = with_array(invented(1), "q", array([[[0.0] * 8] * 4]))  # no score depends on the scale
    found = read(replace(alike, effects=replace(alike.effects, changed=())))
    assert (found["scale"]["effective"], found["causal"]["effective"]) == (None, None)


def test_numbers_that_are_none_are_null_and_counted() -> None:
    layer = invented()
    values = layer.captures["v"].array.float64()
    values[4, 1, 0], values[4, 1, 1] = np.nan, np.inf
    found = read(with_array(layer, "v", array(values)))
    assert found["head"]["output"][4][:2] == [None, None]
    v = next(tensor for tensor in found["tensors"] if tensor["name"] == "v")
    assert v["stats"]["nonfinite"] == 2
    assert v["stats"]["max"] == np.nanmax(np.where(np.isinf(values), np.nan, values))


@pytest.mark.parametrize("name", ["q", "k", "v", "hidden"])
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_no_number_that_is_none_gets_through_wherever_it_stands(name: str, number: float) -> None:
    layer = invented()
    values = layer.captures[name].array.float64()
    values.reshape(-1)[::7] = number
    found = read(with_array(layer, name, array(values)))
    tensor = next(tensor for tensor in found["tensors"] if tensor["name"] == name)
    assert tensor["stats"]["nonfinite"] == len(values.reshape(-1)[::7])


def test_an_infinite_scale_is_null() -> None:
    layer = invented()
    infinite = replace(layer, scale=replace(layer.scale, value=float("inf")))
    assert read(infinite)["scale"]["value"] is None


def test_no_path_of_this_machine_appears() -> None:
    warning = message("checkpoint.config_default", file="/home/someone/qwen/config.json", field="head_dim", value=128)
    layer = replace(invented(), warnings=(warning,))
    text = dumps(look_at(layer, 0))
    assert "/home" not in text
    assert "config.json" in json.loads(text)["warnings"][0]


def test_sentences_are_in_the_asked_language_and_all_else_is_the_same() -> None:
    english, chinese = read(invented()), read(invented(), language="zh")
    assert english["request"]["dtype"]["reason"] != chinese["request"]["dtype"]["reason"]
    assert [check["claim"] for check in english["checks"]] != [check["claim"] for check in chinese["checks"]]
    assert english["head"] == chinese["head"]
    assert [check["figures"] for check in english["checks"]] == [check["figures"] for check in chinese["checks"]]


def test_a_path_without_logsumexp_has_none() -> None:
    layer = invented()
    found = read(replace(layer, kernel=replace(layer.kernel, lse=None)))
    assert found["head"]["kernel_lse"] is None
    assert "lse" not in [tensor["name"] for tensor in found["tensors"]]


# ------------------------------------------------------------------------------------------------- long prompts


def test_up_to_64_positions_everything_is_given() -> None:
    head = read(invented(64))["head"]
    assert head["window"] == {"rows": [0, 64], "keys": [0, 64], "whole": True}
    assert len(head["scores"]) == 64


def test_of_a_longer_prompt_the_last_64_are_given_and_it_is_said() -> None:
    head = read(invented(70))["head"]
    assert head["window"] == {"rows": [6, 70], "keys": [6, 70], "whole": False}
    assert [len(head[name]) for name in ("scores", "weights", "row_max", "output", "kernel_lse", "kernel_output")] == [
        64
    ] * 6
    assert sum(head["weights"][0]) < 1


def test_the_window_ends_at_the_asked_query() -> None:
    layer = invented(70)
    head = read(replace(layer, request=replace(layer.request, query=30)), window=4)["head"]
    assert head["window"] == {"rows": [27, 31], "keys": [27, 31], "whole": False}
    whole = read(invented(70), window=70)["head"]
    assert head["lse"] == whole["lse"][27:31]
    assert head["scores"] == [row[27:31] for row in whole["scores"][27:31]]


def test_a_window_of_nothing_is_refused() -> None:
    with pytest.raises(InputError):
        dumps(look_at(invented(), 0), window=0)


def test_statistics_are_over_the_whole_prompt_whatever_the_window() -> None:
    assert read(invented(70), window=3)["tensors"] == read(invented(70), window=70)["tensors"]


# ------------------------------------------------------------------------------------------------- saved traces


@pytest.mark.parametrize("dtype", ["F32", "BF16"])
def test_a_saved_trace_gives_the_same_document_for_every_head(dtype: str, tmp_path: Path) -> None:
    layer = invented(dtype=dtype)
    save(look_at(layer, 2), tmp_path / "trace.safetensors")
    back = load(tmp_path / "trace.safetensors")
    for head in range(4):
        assert dumps(look_at(back, head), "zh") == dumps(look_at(layer, head), "zh")
