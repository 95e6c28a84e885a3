"""nano-vllm against transformers on a CPU: where they part, the expression, and the evidence for why."""

import contextlib
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch
import transformers

from tests.engines.test_transformers import prompt
from tracer import data
from tracer.compare import json as as_json
from tracer.compare.page import compare_page
from tracer.compare.records import Comparison, Pair, Standing
from tracer.compare.run import Asked, compare
from tracer.errors import InputError, Unsupported
from tracer.render.terminal.render import render
from tracer.render.terminal.screen import Screen

pytestmark = pytest.mark.usefixtures("nano_vllm_files")
BOTH = ("transformers", "nano-vllm")
LONGROPE = {"rope_type": "longrope", "factor": 2.0, "attention_factor": 1.0, "short_factor": [1.0] * 8}
LONGROPE |= {"long_factor": [2.0] * 8, "original_max_position_embeddings": 16}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 128}


def one(folder: Path, **asked: Any) -> Comparison:
    tokens = asked.pop("tokens", None) or prompt(12)
    (found,) = compare(Asked(**{"engines": BOTH, "checkpoint": str(folder), "tokens": tokens, **asked}))
    return found


def named(pairs: tuple[Pair, ...]) -> dict[tuple[int, str], Pair]:
    return {(pair.layer, pair.name): pair for pair in pairs}


def page(found: Comparison, language: str = "en") -> str:
    return " ".join(render(compare_page(found, language), Screen(width=200)).split())


# ------------------------------------------------------------------------------------------------------ in float32


@pytest.fixture(scope="module")
def single(make_checkpoint: Callable[..., Path]) -> Comparison:
    return one(make_checkpoint(), dtype="float32", layer=0)


def test_in_float32_the_first_attention_is_the_same_and_the_residual_beside_it_is_not(single: Comparison) -> None:
    assert {pair.standing for pair in single.steps} <= {Standing.SAME, Standing.ROUNDING}
    assert single.first is not None
    assert (single.first.layer, single.first.name) == (0, "residual")
    assert single.exit_code == 1


def test_both_expressions_of_the_first_difference_are_named(single: Comparison) -> None:
    assert single.first is not None
    assert single.first.a is not None
    assert single.first.b is not None
    assert (single.first.a.scope, single.first.a.code) == ("Qwen3DecoderLayer.forward", "hidden_states")
    assert single.first.b.code == "self.input_layernorm(hidden_states), hidden_states"


def test_the_cause_is_proven_by_the_storage_that_was_written(single: Comparison) -> None:
    (finding,) = single.findings
    assert finding.id == "in_place"
    assert [site.code for site in finding.sites] == [
        "self.input_layernorm(hidden_states), hidden_states",
        "x.float()",
        "x.mul_(torch.rsqrt(var + self.eps))",
        "x.to(orig_dtype).mul_(self.weight)",
    ]
    assert (finding.facts["writes_before"], finding.facts["writes_after"]) == (0, 2)
    assert finding.facts["first_difference"] == 1
    assert single.first is not None
    assert single.first.distance is not None
    assert finding.facts["changed"] == pytest.approx(single.first.distance.largest)


def test_what_follows_from_it_is_shown_up_to_the_next_layer_s_attention(single: Comparison) -> None:
    steps = named(single.before)
    assert steps[0, "attention"].standing is Standing.SAME
    assert steps[0, "middle"].standing is Standing.PARTS
    assert steps[1, "input"].standing is Standing.PARTS
    assert steps[1, "attention"].standing is Standing.PARTS


def test_a_later_layer_leads_back_to_the_same_first_difference(make_checkpoint: Callable[..., Path]) -> None:
    found = one(make_checkpoint(), dtype="float32", layer=2)
    assert named(found.steps)[2, "hidden"].standing is Standing.PARTS
    assert found.first is not None
    assert (found.first.layer, found.first.name) == (0, "residual")
    assert found.findings[0].facts["times"] == 5  # two norms in each of two layers, one before the asked attention


def test_the_sides_may_be_named_in_either_order(make_checkpoint: Callable[..., Path]) -> None:
    found = one(make_checkpoint(), engines=BOTH[::-1], dtype="float32", layer=1)
    assert found.first is not None
    assert (found.first.layer, found.first.name) == (0, "residual")
    assert found.first.b is not None
    assert found.first.b.project == "transformers"


def test_where_the_layers_cannot_be_watched_the_page_says_so_and_still_warns(
    make_checkpoint: Callable[..., Path],
) -> None:
    installed = f"transformers@{transformers.__version__}"  # a process of its own
    found = one(make_checkpoint(), engines=(installed, "nano-vllm"), dtype="float32", layer=1)
    assert found.first is not None
    assert (found.first.name, found.before) == ("hidden", ())
    assert [finding.id for finding in found.findings] == ["residual"]
    assert "It enters this layer already different, and the layers before it were not watched." in page(found)


@contextlib.contextmanager
def on_meta() -> Iterator[None]:
    torch.set_default_device("meta")
    try:
        yield
    finally:
        torch.set_default_device(None)


@pytest.mark.parametrize(
    "mode",
    [lambda: torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode, on_meta],
    ids=["autocast", "inference mode", "default device meta"],
)
def test_the_caller_s_own_modes_change_no_number_and_no_evidence(
    make_checkpoint: Callable[..., Path], single: Comparison, mode: Callable[[], AbstractContextManager[None]]
) -> None:
    folder, ids = make_checkpoint(), prompt(12)
    with mode():
        found = one(folder, tokens=ids, dtype="float32", layer=0)
    assert [pair.distance for pair in found.before] == [pair.distance for pair in single.before]
    assert found.findings[0].facts == single.findings[0].facts


# ------------------------------------------------------------------------------------------------- in other dtypes


@pytest.mark.parametrize("layer", [0, 2])
@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_in_other_dtypes_they_agree_and_nothing_is_said(
    make_checkpoint: Callable[..., Path], dtype: str, layer: int
) -> None:
    found = one(make_checkpoint(), dtype=dtype, layer=layer)
    assert found.agree
    assert found.exit_code == 0
    assert (found.findings, found.before) == ((), ())
    assert {pair.name for pair in found.steps if pair.distance is None} == set()


def test_distances_are_told_in_the_dtype_that_both_compute_their_norms_in(make_checkpoint: Callable[..., Path]) -> None:
    assert one(make_checkpoint(), dtype="float64").unit == "F32"
    assert one(make_checkpoint(), dtype="bfloat16").unit == "BF16"


# -------------------------------------------------------------------------------- what nano-vllm leaves out of a model


def test_dropped_yarn_scaling_is_found_at_the_cosines(make_checkpoint: Callable[..., Path]) -> None:
    found = one(make_checkpoint("bfloat16", rope_parameters=YARN), layer=0)
    assert found.first is not None
    assert found.first.name == "cos"
    (finding,) = found.findings
    assert (finding.id, finding.facts["first_difference"]) == ("rope_scaling", 1)
    assert "yarn scaling with factor 4.0 is not applied" in str(finding.text)


@pytest.mark.parametrize(
    ("rope", "tokens", "said"),
    [
        ({"rope_type": "linear", "factor": 1.0}, 12, ""),
        ({"rope_type": "yarn", "factor": 1.0, "original_max_position_embeddings": 128}, 12, ""),
        ({"rope_type": "dynamic", "factor": 4.0}, 12, ""),  # begins behind the longest prompt that the model takes
        (LONGROPE, 12, "For 12 tokens it changes no angle; for longer prompts it does."),
        ({"rope_type": "linear", "factor": 4.0}, 12, "are turned by other angles"),
        (LONGROPE, 20, "are turned by other angles"),
    ],
    ids=str,
)
def test_scaling_is_told_of_only_as_far_as_it_changes_an_angle(
    make_checkpoint: Callable[..., Path], rope: dict[str, Any], tokens: int, said: str
) -> None:
    given = {"rope_parameters": {"rope_theta": 10000.0, **rope}, "max_position_embeddings": 32}
    found = one(make_checkpoint("bfloat16", **given), tokens=prompt(tokens))
    assert found.agree is ("turned" not in said)
    assert [said in str(finding.text) for finding in found.findings] == ([True] if said else [])
    assert ("Would part in another layer or on another prompt" in page(found)) is ("longer" in said)
    assert ("── Why ──" in page(found)) is ("turned" in said)


def test_from_a_later_layer_it_is_found_inside_the_first_attention(make_checkpoint: Callable[..., Path]) -> None:
    found = one(make_checkpoint("bfloat16", rope_parameters=YARN), layer=2)
    assert found.first is not None
    assert (found.first.layer, found.first.name) == (0, "cos")
    assert {pair.layer for pair in found.inside} == {0}


def test_skipped_norms_are_found_where_their_result_is_used(make_checkpoint: Callable[..., Path]) -> None:
    found = one(make_checkpoint("bfloat16", attention_bias=True), layer=0)
    assert named(found.steps)[0, "q_norm"].standing is Standing.ONLY_A
    assert found.first is not None
    assert found.first.name == "q_rope"
    (finding,) = found.findings
    assert (finding.id, finding.facts["first_difference"]) == ("unread", 1)
    missing = "self_attn.q_norm.weight, self_attn.k_norm.weight, self_attn.o_proj.bias"
    assert f"no place for {missing} and leaves them out: 3 tensors in the one layer" in str(finding.text)
    assert "self_attn.q_norm.weight、self_attn.k_norm.weight、self_attn.o_proj.bias" in finding.text.text("zh")
    assert finding.sites[0].code == "not self.qkv_bias"  # what decides it


def test_a_window_that_holds_the_prompt_is_told_of_apart(make_checkpoint: Callable[..., Path]) -> None:
    folder = make_checkpoint("bfloat16", use_sliding_window=True, sliding_window=4, max_window_layers=1)
    found = one(folder, layer=1, tokens=prompt(4))
    assert found.agree
    assert [(finding.id, finding.facts["here"]) for finding in found.findings] == [("window", 0)]
    text = page(found)
    assert "── Why ──" not in text
    assert "the prompt has 4 tokens and the window holds 4" in text


def test_the_missing_window_is_found_at_the_kernel(make_checkpoint: Callable[..., Path]) -> None:
    folder = make_checkpoint("bfloat16", use_sliding_window=True, sliding_window=4, max_window_layers=1)
    found = one(folder, layer=1)
    steps = named(found.steps)
    assert steps[1, "q"].standing is not Standing.PARTS
    assert steps[1, "output"].standing is Standing.PARTS
    assert [(finding.id, finding.facts["first_difference"]) for finding in found.findings] == [("window", 1)]


# --------------------------------------------------------------------------------------------------------- kernels


def test_kernels_are_each_compared_with_the_first_and_agree(make_checkpoint: Callable[..., Path]) -> None:
    asked = Asked(kernels=("cpu-flash", "eager", "sdpa"), checkpoint=str(make_checkpoint()), tokens=prompt(12), layer=1)
    found = compare(asked)
    assert [(one.a.name, one.b.name) for one in found] == [("cpu-flash", "eager"), ("cpu-flash", "sdpa")]
    assert all(one.agree for one in found)
    eager = named(found[0].steps)
    assert eager[1, "lse"].standing is Standing.ONLY_A  # eager hands none out


def test_a_kernel_that_computes_something_else_parts_at_its_output(
    make_checkpoint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = torch.nn.functional.scaled_dot_product_attention

    def wrong(*args: Any, **kwargs: Any) -> Any:
        return right(*args, **{**kwargs, "scale": kwargs["scale"] * 1.01})

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", wrong)
    asked = Asked(kernels=("cpu-flash", "sdpa"), checkpoint=str(make_checkpoint()), tokens=prompt(12))
    (found,) = compare(asked)
    assert found.first is not None
    assert found.first.name == "output"


# --------------------------------------------------------------------------------------------------- usage and output


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "A comparison needs two sides"),
        ({"engines": BOTH, "kernels": ("eager", "sdpa")}, "Both --engines and --kernels name several sides"),
        ({"engines": ("transformers", "transformers")}, "transformers is named twice"),
        ({"engines": ("transformers", "vllm")}, "There is no engine vllm"),
    ],
    ids=str,
)
def test_what_cannot_be_compared_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        compare(Asked(**asked))


def test_nano_vllm_with_a_kernel_that_it_never_calls_is_refused(make_checkpoint: Callable[..., Path]) -> None:
    with pytest.raises(Unsupported, match="nano-vllm calls flash_attn and nothing else"):
        one(make_checkpoint(), kernels=("sdpa",))


def test_the_page_says_where_and_why(single: Comparison) -> None:
    text = page(single)
    assert "A transformers modeling_qwen3.py" in text
    assert "│ residual = hidden_states" in text  # the line that keeps it, above the one that is marked
    assert text.count("hidden_states, residual = self.input_layernorm(hidden_states), hidden_states") == 1
    assert "nothing was mended here. This is where the first difference arises." in text
    assert "✗ they part at “residual beside the first norm”, layer 0" in text
    assert "The attention of layer 0 itself agrees." in text
    assert "The residual was overwritten while it was still in use." in text
    assert "torch's counter of writes to it at 0 before and 2 after" in text
    assert "The code ran as it stands upstream; nothing was mended here." in text


def test_the_page_is_there_in_chinese(single: Comparison) -> None:
    text = page(single, "zh")
    assert "在第 0 层的「进入第一个 norm 时保留的残差」处分叉" in text
    assert "残差在仍被使用时被覆盖了" in text


def test_the_page_of_two_that_agree_says_how_far_apart_they_are(make_checkpoint: Callable[..., Path]) -> None:
    text = page(one(make_checkpoint(), dtype="bfloat16", layer=1))
    assert "✓ they agree" in text
    assert "Every step that both compute lies within what rounding explains. The widest is" in text


def test_the_json_follows_the_schema_and_holds_no_path_of_this_machine(single: Comparison) -> None:
    text = as_json.dumps([single], "en")
    document = json.loads(text)
    jsonschema.validate(document, json.loads(data.schema("trace-1").read_text(encoding="utf-8")))
    assert document["first"] == {"layer": 0, "step": "residual"}
    assert document["findings"][0]["id"] == "in_place"
    assert str(data.pins().parent) not in text
