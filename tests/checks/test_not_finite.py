"""Numbers that are not finite: told once, where they begin, and held against no head but those that have them."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.checks.conftest import Setup, array, site
from tracer import data
from tracer.checks import finite
from tracer.pipeline import trace
from tracer.records import Capture, LayerTrace, Status
from tracer.result import look_at

Tensors = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]


def spoil(name: str, head: int, value: float) -> Tensors:
    def change(*given: Tensor) -> tuple[Tensor, ...]:
        for tensor, x in zip("qkv", given, strict=True):
            if tensor == name:
                x[:, head, 0] = value
        return given

    return change  # type: ignore[return-value]


def told(setup: Setup) -> list[str]:
    return [str(warning) for warning in finite.warnings(setup.trace())]


def steps_of_q(trace: LayerTrace) -> LayerTrace:
    """q came about by a projection (line 3) and a norm (line 4); the projection of head 0 is NaN in one place."""
    projected = torch.zeros(1, 24, 4 * 32)
    projected[..., 5] = torch.nan
    q = trace.captures["q"]
    made = {
        "hidden": Capture("hidden", "x", ("T", "C"), array(torch.zeros(24, 96)), site(2), ""),
        "q_proj": Capture("q_proj", "x", ("B", "T", "H·D"), array(projected), site(3), ""),
        "q_norm": Capture("q_norm", "x", ("T", "H", "D"), q.array, site(4), ""),
    }
    return replace(trace, captures={**made, **trace.captures})


def test_finite_numbers_bring_no_warning(setup: type[Setup]) -> None:
    assert told(setup()) == []


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("dtype", ["F32", "BF16", "F16"])
def test_a_warning_names_the_tensor_its_heads_and_the_first_step(setup: type[Setup], dtype: str, value: float) -> None:
    (warning,) = told(setup(tensors=spoil("q", 0, value), dtype=dtype, change=steps_of_q))
    assert "q in head 0, first at q_proj, qwen3.py:3:4." in warning


def test_a_step_that_is_whole_for_that_head_is_not_blamed(setup: type[Setup]) -> None:
    (warning,) = told(setup(tensors=spoil("q", 3, torch.nan), change=steps_of_q))
    assert "q in head 3, first at q_norm, qwen3.py:4:4." in warning


def test_what_comes_from_one_step_is_told_in_one_sentence(setup: type[Setup]) -> None:
    def hidden(trace: LayerTrace) -> LayerTrace:
        x = Capture("hidden", "x", ("T", "C"), array(torch.full((24, 96), torch.nan)), site(2), "")
        return replace(trace, captures={"hidden": x, **trace.captures})

    def all_of_it(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return q * torch.nan, k * torch.nan, v * torch.nan

    (warning,) = told(setup(tensors=all_of_it, change=hidden))
    assert "q in heads 0–3, k in KV heads 0–1, v in KV heads 0–1, first at hidden, qwen3.py:2:4." in warning


def test_the_modules_output_is_told_where_every_head_is_finite(setup: type[Setup]) -> None:
    def mixed(trace: LayerTrace) -> LayerTrace:
        x = Capture("o_proj", "y", ("T", "C"), array(torch.full((24, 96), torch.nan)), site(7), "")
        return replace(trace, captures={**trace.captures, "o_proj": x})

    (warning,) = told(setup(change=mixed))
    assert "the output of the attention module" in warning
    assert "first at o_proj, qwen3.py:7:4" in warning


def test_every_check_that_they_stop_gives_the_one_reason_and_none_fails(setup: type[Setup]) -> None:
    found = setup(tensors=spoil("q", 2, torch.nan)).checks()
    stopped = {id: str(check.reason) for id, check in found.items() if check.status is Status.NOT_TESTABLE}
    assert len(set(stopped.values())) == 1, stopped
    assert {"causal.effect", "causal.weights"} <= stopped.keys()
    assert "q in head 2, first at q, qwen3.py:9:4" in stopped["causal.weights"]
    assert not [check for check in found.values() if check.status is Status.FAIL]


@pytest.mark.parametrize(("tensor", "spoilt"), [("q", 0), ("k", 0), ("v", 0)])
def test_another_heads_numbers_stop_no_check_of_this_head(setup: type[Setup], tensor: str, spoilt: int) -> None:
    """Head 2 reads KV head 1."""
    assert setup(tensors=spoil(tensor, spoilt, torch.nan)).untested(2) == set()
    assert setup(tensors=spoil(tensor, spoilt, torch.nan)).untested(0) != set()


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_one_weight_that_is_not_finite_is_warned_of_and_stops_the_checks_of_its_head_alone(
    tmp_path: Path, value: float
) -> None:
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(data.shipped_checkpoint("qwen3-tiny"), tmp_path / "spoilt")
    file = folder / "model.safetensors"
    tensors = load_file(file)
    tensors["model.layers.0.self_attn.q_proj.weight"][0, 0] = value
    save_file(tensors, file)
    layer = trace(str(folder), head=0, all_heads=True, kernel="cpu-flash").layer
    (warning,) = (str(warning) for warning in layer.warnings)
    assert "q in head 0, first at q_proj, modeling_qwen3.py:" in warning
    spoilt, sound = look_at(layer, 0), look_at(layer, 2)
    reasons = {str(check.reason) for check in spoilt.checks if check.status is Status.NOT_TESTABLE}
    assert len(reasons) == 1
    assert "q in head 0, first at q_proj" in reasons.pop()
    assert {check.status for check in sound.checks} == {Status.PASS}
