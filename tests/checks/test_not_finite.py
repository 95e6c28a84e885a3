"""Numbers that are not finite: told once, where they begin, and held against no head but those that have them."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.checks.conftest import Setup, array, eager, site
from tracer import data
from tracer.arrays import Array
from tracer.checks import finite, heads
from tracer.pipeline import trace
from tracer.records import Capture, Check, LayerTrace, Status
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


# ---------------------------------------------------------------- numbers in keys that a row may not see (0 · NaN)

CAUGHT = "That is no error of the kernel"


def from_token(names: str, token: int, value: float, places: slice = slice(None)) -> Tensors:
    """The tensors ``names`` of KV head 1 are not finite at one token."""

    def change(*given: Tensor) -> tuple[Tensor, ...]:
        for tensor, x in zip("qkv", given, strict=True):
            if tensor in names:
                x[token, 1, places] = value
        return given

    return change  # type: ignore[return-value]


def as_tiles(setup: Setup, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, None]:
    """A kernel that multiplies the values of the whole prompt by weights that are 0 where they are hidden."""
    return eager(q, k, v, setup.scale, setup.allowed()), None


def not_accused(checks: dict[str, Check]) -> None:
    assert not [id for id, check in checks.items() if check.status is Status.FAIL]
    assert checks["kernel.output"].status is Status.NOT_TESTABLE
    told = str(checks["kernel.output"].reason)
    assert CAUGHT in told
    assert "v in KV head 1 at token 10 hold numbers that are not finite, first at v, qwen3.py:9:4" in told
    for check in checks.values():
        assert "overflow" not in str(check.reason), check.id
        assert check.measured.id != "checks.mismatch"


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("names", ["v", "kv"])
@pytest.mark.parametrize("kernel", ["flash", "tiles"])
def test_what_a_hidden_token_spoils_is_no_error_of_the_kernel(
    setup: type[Setup], names: str, value: float, kernel: str
) -> None:
    ran = {} if kernel == "flash" else {"kernel": as_tiles, "kind": "eager"}
    not_accused(setup(tensors=from_token(names, 10, value), **ran).checks(2))


def test_the_kernel_is_held_to_the_rows_that_nothing_hidden_reaches(setup: type[Setup]) -> None:
    """Head 0 reads KV head 0, which is whole: nothing of it is set aside."""
    found = setup(tensors=from_token("v", 10, torch.nan)).checks(0)
    assert found["kernel.output"].status is Status.PASS
    assert found["heads.kv"].status is not Status.FAIL


def broken(change: Callable[[Tensor], None]) -> Callable[[Setup, Tensor, Tensor, Tensor], tuple[Tensor, Tensor | None]]:
    def kernel(setup: Setup, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor | None]:
        out, lse = setup.flash(q, k, v)
        change(out)
        return out, lse

    return kernel


def wrong_number(out: Tensor) -> None:
    out[0] = 7.0


def wrong_nan(out: Tensor) -> None:
    out[3, 2, 0] = torch.nan


def test_a_kernel_that_makes_nan_of_finite_numbers_fails(setup: type[Setup]) -> None:
    assert "kernel.output" in setup(kernel=broken(wrong_nan)).failed(2)


def test_a_kernel_that_makes_nan_where_no_hidden_value_is_nan_fails(setup: type[Setup]) -> None:
    spoilt = from_token("v", 10, torch.nan, slice(5, 6))
    assert "kernel.output" in setup(tensors=spoilt, kernel=broken(wrong_nan)).failed(2)
    assert "kernel.output" not in setup(tensors=spoilt).failed(2)


def test_a_wrong_number_fails_beside_hidden_numbers_that_are_not_finite(setup: type[Setup]) -> None:
    assert "kernel.output" in setup(tensors=from_token("v", 10, torch.nan), kernel=broken(wrong_number)).failed(2)


def test_a_weight_on_a_hidden_key_fails_beside_hidden_numbers_that_are_not_finite(setup: type[Setup]) -> None:
    def one_more(setup: Setup, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor | None]:
        return setup.flash(q, k, v, causal=False, right=1)

    assert "causal.weights" in setup(tensors=from_token("v", 22, torch.nan), kernel=one_more).failed(2)


def test_rows_moved_by_a_hidden_key_that_is_infinite_are_no_leak(setup: type[Setup]) -> None:
    """Negated, the score of a hidden key is −inf in place of +inf, and what it spoilt is whole again."""

    def moved(trace: LayerTrace) -> LayerTrace:
        effects = replace(trace.effects, changed=((12, 3, True),))
        return replace(trace, effects=effects)

    spoilt = setup(tensors=from_token("k", 12, torch.inf), change=moved)
    assert "causal.effect" not in spoilt.failed(2)
    assert "causal.effect" not in spoilt.failed(0)
    assert "another head" in str(spoilt.checks(0)["causal.effect"].reason)
    assert "causal.effect" in setup(change=moved).failed(2)


@pytest.mark.parametrize("dtype", ["F32", "BF16"])
@pytest.mark.parametrize("kernel", ["flash", "tiles"])
@pytest.mark.parametrize(("window", "keys"), [(None, None), (4, None), (None, 40)])
def test_no_number_that_came_in_is_held_against_the_kernel(
    setup: type[Setup], dtype: str, kernel: str, window: int | None, keys: int | None
) -> None:
    """Vectors and single numbers, seen and hidden: what a kernel makes of ∞ − ∞ and of 0 · ∞ is its own affair."""
    ran: dict[str, Any] = {} if kernel == "flash" else {"kernel": as_tiles, "kind": "eager"}
    ran |= {"dtype": dtype, "window": window, "keys": keys}
    for names, token, value, places in product(
        ("q", "k", "v", "qkv"), (0, 10, 23), (torch.nan, torch.inf, -torch.inf), (slice(None), slice(0, 1))
    ):
        spoilt = setup(tensors=from_token(names, token, value, places), **ran)
        assert spoilt.failed(1) | spoilt.failed(2) == set(), (names, token, value, places)


def test_a_nan_that_was_seen_and_left_no_trace_fails(setup: type[Setup]) -> None:
    def whole(setup: Setup, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor | None]:
        return setup.flash(q, k.nan_to_num(0.0), v)

    assert "kernel.output" in setup(tensors=from_token("k", 10, torch.nan), kernel=whole).failed(2)


def test_a_wrong_number_fails_beside_an_infinite_score(setup: type[Setup]) -> None:
    spoilt = from_token("k", 10, torch.inf, slice(0, 1))
    assert "kernel.output" in setup(tensors=spoilt, kernel=broken(wrong_number)).failed(2)


def test_an_infinite_value_may_come_out_as_nan(setup: type[Setup]) -> None:
    """The weight of token 10 is 0 in float32 and not in float64: 0 · inf in place of something times inf."""

    def nan_for_inf(out: Tensor) -> None:
        out[11:, 2][out[11:, 2].isinf()] = torch.nan

    spoilt = setup(tensors=from_token("v", 10, torch.inf), kernel=broken(nan_for_inf))
    assert "kernel.output" not in spoilt.failed(2)


@pytest.mark.parametrize("kernel", ["cpu-flash", "sdpa", "eager"])
def test_an_embedding_that_is_infinite_accuses_no_kernel(tmp_path: Path, kernel: str) -> None:
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(data.shipped_checkpoint("qwen3-tiny"), tmp_path / "spoilt")
    file = folder / "model.safetensors"
    tensors = load_file(file)
    tensors["model.embed_tokens.weight"][608, 0] = torch.inf  # " dog", token 10 of the default prompt
    save_file(tensors, file)
    layer = trace(str(folder), head=0, all_heads=True, kernel=kernel).layer
    for head in range(layer.model.heads):
        found = {check.id: check for check in look_at(layer, head).checks}
        assert not [id for id, check in found.items() if check.status is Status.FAIL]
        told = str(found["kernel.output"].reason)
        assert f"v in KV head {head // 2} at token 10 hold numbers that are not finite, first at hidden" in told
        assert CAUGHT in told


def test_the_reason_is_told_in_chinese_too(setup: type[Setup]) -> None:
    (reason,) = (setup(tensors=from_token("v", 10, torch.nan)).checks(2)["kernel.output"].reason,)
    assert "这不是 kernel 的错误" in reason.text("zh")


@pytest.mark.filterwarnings("error")
def test_infinities_of_both_signs_in_another_head_far_apart_raise_no_warning() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(5000, 2, 4)).astype("<f4")  # two stretches of keys
    values[10, 1, 0], values[4500, 1, 0] = np.inf, -np.inf
    weights, visible = np.full((2, 3, 5000), 1 / 5000), np.ones((3, 5000), dtype=np.bool_)
    mixed = heads._mixed(weights, Array("F32", values), visible)
    assert np.isnan(mixed[:, :, 1, 0]).all()
    assert np.allclose(mixed[:, :, 0], values[:, 0].astype(np.float64).mean(axis=0))
