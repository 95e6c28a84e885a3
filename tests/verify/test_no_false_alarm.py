"""The real code passes, whatever the shape, dtype, kernel and situation."""

import pytest
import torch

from tests.verify.conftest import IDS, failed, live_model, status
from tracer.records import Status
from tracer.verification.entry import verify_model
from tracer.verification.faults import tables
from tracer.verification.faults.grid import COLUMNS, DTYPES, SHAPES, Cell, cells


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("column", COLUMNS)
def test_the_real_code_on_a_random_checkpoint_raises_no_alarm(column: str, dtype: str) -> None:
    (cell,) = cells(shapes=(SHAPES[1],), dtypes=(dtype,), columns=(column,))
    assert failed(cell.found) == set()
    assert cell.passed
    assert cell.tested >= 25


@pytest.mark.parametrize("shape", [SHAPES[0], SHAPES[2], SHAPES[3]], ids=lambda shape: shape.name)
def test_other_shapes_in_the_coarsest_dtype(shape: object) -> None:
    found = list(cells(shapes=(shape,), dtypes=("bfloat16",), columns=("plain", "yarn", "sliding")))  # type: ignore[arg-type]
    assert [cell.passed for cell in found] == [True] * 3


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_sdpa_and_eager_pass_in_all_scenarios_and_say_what_needs_a_logsumexp(kernel: str, dtype: str) -> None:
    found = verify_model(live_model(kernel, dtype), tokens=IDS, layers=(0, 2))
    assert failed(found) == set()
    assert found.exit_code == 0
    assert status(found, "kernel.lse") is Status.NOT_TESTABLE
    assert status(found, "scale.effective") is Status.PASS
    assert status(found, "causal.weights") is Status.PASS


@pytest.mark.parametrize("seed", [105, 126])
def test_a_sharp_softmax_that_turns_a_rounding_into_another_output_is_no_fault_of_the_cache(seed: int) -> None:
    model = live_model("sdpa", "bfloat16", seed=seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(("q_norm.weight", "k_norm.weight")):
                weight.mul_(8)  # scores of some hundreds
    found = verify_model(model, tokens=IDS, scenarios=("plain", "cached"))
    assert failed(found) == set()
    told = {why.id for one in found.outcomes if one.check.id == "cache.same" for why, _ in one.reasons}
    assert "verify.same_sharp" in told


def test_sliding_layers_show_their_window_and_the_others_none() -> None:
    (cell,) = cells(shapes=(SHAPES[1],), dtypes=("float32",), columns=("sliding",))
    assert [(w.layer_type, w.configured, w.effective) for w in cell.found.windows] == [
        ("full_attention", None, None),
        ("sliding_attention", 7, 7),
    ]


def test_the_grid_is_told_as_a_table() -> None:
    found: list[Cell] = list(cells(shapes=(SHAPES[3],), dtypes=("float32",), columns=("plain",)))
    text = tables.grid(found, "en")
    assert "| 2/2×64, 1L | float32 | ✓ " in text
    assert "1 of 1 verifications of the real code pass without a false alarm" in text
