"""In a user's process: whatever fails in the middle of a trace or a verification, everything is as it was before."""

import importlib
import logging
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

import tracer
from tests.robust.faults import Planted, at_call, at_place, places
from tests.robust.state import differences, look
from tests.verify.conftest import IDS, live_model, one_thread
from tracer.capture.recorder import Recorder
from tracer.errors import Unsupported

__all__ = ["one_thread"]  # pytest finds the fixture by its name here

KERNELS = ("cpu-flash", "sdpa", "eager")
# What a fault is planted in: how a trace is asked for, how many probes it has at least, every which of them raises. All
# of transformers' on its flash path; the other paths, and nano-vllm's phases with each other, share nearly all of them.
ASKED: dict[str, tuple[dict[str, Any], int, int]] = {
    "cpu-flash": ({"kernel": "cpu-flash"}, 20, 1),
    "sdpa": ({"kernel": "sdpa"}, 20, 4),
    "eager": ({"kernel": "eager"}, 20, 4),
    "nano-vllm prefill": ({"engine": "nano-vllm"}, 20, 4),
    "nano-vllm cached": ({"engine": "nano-vllm", "cached": 1}, 20, 4),
    "nano-vllm decode": ({"engine": "nano-vllm", "decode": True}, 20, 4),
}
# What is put into transformers and torch, and taken out again.
PATCHING = [
    importlib.import_module(f"tracer.{name}")
    for name in ("capture.instrument", "capture.turn", "engines.ambient", "engines.transformers.lending")
]
# All else that runs while it is in.
RUNNING = [
    importlib.import_module(f"tracer.engines.transformers.{name}")
    for name in ("engine", "streaming", "steps", "attention", "effects")
]
WATCHING = [
    importlib.import_module(f"tracer.engines.transformers.{name}")
    for name in ("live", "watching", "observed", "seeing", "frames", "calls")
]


def traced(**asked: Any) -> Any:
    return tracer.trace(tokens=[1, 2, 3], layer=1, **{"kernel": "cpu-flash", **asked})


def verified(model: Any) -> Any:
    found = tracer.verify(model, tokens=IDS[:12], layers=(1,), scenarios=("plain", "cached"))
    for outcome in found.failures:  # what plants a fault stands outside the package: beside the plain scenario it looks
        if outcome.check.figures.get("error") == Planted.__name__:  # as if the model had raised it
            raise Planted(outcome.check.measured.text())
    return found


def leaves_all(run: Callable[[], object], faults: Iterable[tuple[object, Any]], model: Any = None) -> None:
    """Run into each fault (its name, and itself), which has to happen, and look whether all is as it was before."""
    before = look(model)
    for name, fault in faults:
        with pytest.raises(Planted), fault:
            run()
        assert differences(before, look(model)) == {}, name


@pytest.mark.parametrize("name", ASKED)
def test_an_exception_at_each_probe_of_a_trace(name: str, request: pytest.FixtureRequest) -> None:
    asked, least, step = ASKED[name]
    if "engine" in asked:
        request.getfixturevalue("nano_vllm_files")
    traced(**asked)
    with at_call(Recorder, "note", 0) as calls:
        traced(**asked)
    assert calls[0] > least
    numbers = range(1, calls[0] + 1, step)
    leaves_all(lambda: traced(**asked), ((number, at_call(Recorder, "note", number)) for number in numbers))
    assert traced(**asked).exit_code == 0


def test_an_exception_at_each_step_of_lending_and_patching() -> None:
    traced()
    found = places(PATCHING, "line", traced)
    assert len(found) > 60
    leaves_all(traced, ((place, at_place(PATCHING, "line", place)) for place in found))
    with ThreadPoolExecutor(1) as another:  # nobody else's turn was lost either
        assert another.submit(traced).result().exit_code == 0


def test_an_exception_in_each_function_of_a_run() -> None:
    traced()
    found = places(RUNNING, "call", traced)
    assert len(found) > 20
    leaves_all(traced, ((place, at_place(RUNNING, "call", place)) for place in found))


def test_an_exception_in_every_second_function_of_a_verification() -> None:
    model = live_model()
    verified(model)
    found = places(WATCHING, "call", lambda: verified(model))
    assert len(found) > 20
    # every second one: a verification takes several times as long as a trace
    leaves_all(lambda: verified(model), ((place, at_place(WATCHING, "call", place)) for place in found[::2]), model)
    assert verified(model).exit_code == 0


@pytest.mark.parametrize("kernel", KERNELS)
def test_nothing_differs_after_a_trace_that_went_well(kernel: str) -> None:
    traced(kernel=kernel)
    before = look()
    assert traced(kernel=kernel).exit_code == 0
    assert differences(before, look()) == {}


def test_what_is_left_behind_would_be_noticed() -> None:
    from transformers.models.qwen3 import modeling_qwen3 as qwen3

    model = live_model()
    before = look(model)
    hook = model.model.layers[0].register_forward_hook(lambda *_: None)
    rotate = qwen3.rotate_half
    own = rotate.__code__
    rotate.__code__ = own.replace(co_name="other")
    qwen3.__dict__["__probe__"] = None
    torch.set_default_dtype(torch.float64)
    logging.getLogger("transformers").addFilter(keep := logging.Filter())
    try:
        found = differences(before, look(model))
    finally:
        hook.remove()
        rotate.__code__ = own
        del qwen3.__dict__["__probe__"]
        torch.set_default_dtype(torch.float32)
        logging.getLogger("transformers").removeFilter(keep)
    for name in ("rotate_half code", "__probe__", "default dtype", "_forward_hooks", "loggers"):
        assert any(name in key for key in found), name
    assert differences(before, look(model)) == {}


# ---------------------------------------------------------------------------------------- modes that a user has set


def test_the_users_warnings_and_log_are_the_users(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        shown, warnings.showwarning = warnings.showwarning, lambda *found: heard.append(str(found[0]))
        try:
            with caplog.at_level(logging.DEBUG):
                traced()
                warnings.warn("mine", stacklevel=1)
                logging.getLogger("mine").info("heard")
        finally:
            warnings.showwarning = shown
    assert heard == ["mine"]  # none of ours among them, and the user's own came through
    assert [record.getMessage() for record in caplog.records if record.name == "mine"] == ["heard"]
    assert not [
        record for record in caplog.records if record.name.startswith("tracer") and record.levelno >= logging.WARNING
    ]


MODES: dict[str, Callable[[], Any]] = {
    "inference": torch.inference_mode,
    "no gradients": torch.no_grad,
    "gradients": torch.enable_grad,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "meta device": lambda: torch.device("meta"),
}


@pytest.fixture(scope="module")
def unmoded() -> tuple[Any, Any, Any]:
    """A model, a trace, and a verification of that model, under no mode."""
    model = live_model()
    return model, traced(), verified(model)


@pytest.mark.parametrize("mode", MODES)
def test_a_trace_and_a_verification_give_the_same_under_any_mode(mode: str, unmoded: tuple[Any, Any, Any]) -> None:
    model, plain, proven = unmoded
    with MODES[mode]():
        before = look()
        trace, verification = traced(), verified(model)
        assert differences(before, look()) == {}
    assert trace.layer.kernel.output.bits.tolist() == plain.layer.kernel.output.bits.tolist()
    assert [check.status for check in trace.checks] == [check.status for check in plain.checks]
    assert [one.check.status for one in verification.outcomes] == [one.check.status for one in proven.outcomes]


def test_a_double_default_dtype_changes_no_bit() -> None:
    plain = traced()
    torch.set_default_dtype(torch.float64)
    try:
        assert traced().layer.kernel.output.bits.tolist() == plain.layer.kernel.output.bits.tolist()
        assert torch.get_default_dtype() is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_compiled_model_is_verified() -> None:
    model = live_model()
    compiled = torch.compile(model, backend="eager")
    before = look(model)
    found = tracer.verify(compiled, tokens=IDS[:12], layers=(1,), scenarios=("plain",))
    assert found.exit_code == 0
    torch.compiler.reset()
    assert differences(before, look(model)) == {}


def test_a_model_without_numbers_says_why_not() -> None:
    model = live_model().to("meta")
    with pytest.raises(Unsupported) as caught:
        tracer.verify(model, tokens=IDS[:12], layers=(1,))
    assert "meta" in caught.value.text()
