"""A whole trace and a whole verification on each version of flash-attn: transformers' own path calls stand-ins with
the version's real signature. The stand-ins compute on the CPU, so here the whole run is moved there."""

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
import standins
import whole

import tracer
from tests.conftest import random_model
from tracer import pipeline
from tracer.engines.transformers import definitions
from tracer.errors import Unsupported
from tracer.kernels.choose import ChosenKernel, Probes, choose
from tracer.kernels.interfaces import INTERFACES
from tracer.records import Status
from tracer.verification import entry
from tracer.verification.faults.catalogue import FAULTS
from tracer.verification.faults.grid import SHAPES
from tracer.verification.faults.trial import without

KINDS = [each.kind for each in INTERFACES]
STATE = (
    "_loaded_implementation",
    "_flash_fn",
    "_flash_varlen_fn",
    "_flash_with_kvcache_fn",
    "_pad_fn",
    "_unpad_fn",
    "_process_flash_kwargs_fn",
    "_process_with_kvcache_kwargs_fn",
)
FEW = ("scale_doubled", "hidden_changed", "top_left_chunk", "window_off_by_one")


class Hopper(Probes):
    """A machine with one CUDA device of compute capability 9.0 and every version installed."""

    def cuda(self) -> bool:
        return True

    def capability(self, device: str) -> tuple[int, int]:
        return 9, 0

    def recorded(self, package: str) -> str | None:
        return standins.VERSIONS.get(package)

    def module(self, name: str) -> ModuleType:
        (kind,) = (each.kind for each in INTERFACES if each.module == name)
        return standins.MODULES[kind]


def chosen_here(asked: str, **given: Any) -> ChosenKernel:
    """The choice that such a machine would make, its tensors on the CPU."""
    return replace(choose(asked, probes=Hopper(), **given), device="cpu")


@pytest.fixture(autouse=True)
def _hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (pipeline, entry):
        monkeypatch.setattr(module, "choose", chosen_here)
    standins.calls.clear()


@pytest.mark.parametrize("kind", KINDS)
def test_a_trace_passes_and_says_which_version_ran_and_why(kind: str) -> None:
    trace = tracer.trace(layer=1, head=5, kernel=kind, dtype="bfloat16")
    assert trace.exit_code == 0
    assert standins.calls, "the version's own function was not called"
    assert trace.layer.kernel.provider == f"{kind} {standins.VERSIONS[kind]}"
    assert str(trace.layer.request.kernel.reason) == f"asked for with --kernel {kind}"
    page = trace._repr_html_()
    assert f"{kind} ({kind} {standins.VERSIONS[kind]})" in page
    assert f"asked for with --kernel {kind}" in page
    assert ("dropout_p" in trace.layer.kernel.arguments) == (kind == "flash-attn")
    statuses = {check.id: check.status for check in trace.checks}
    assert statuses["scale.effective"] is Status.PASS


@pytest.mark.parametrize("kind", KINDS)
def test_every_check_of_a_verification_passes(kind: str) -> None:
    found = entry.verify_checkpoint(layers=None, kernel=kind, dtype="bfloat16")
    assert found.exit_code == 0
    assert found.kernel.value == kind


# ------------------------------------------------- what runs the whole of verification on CUDA, tried here in part


@pytest.mark.parametrize("kind", KINDS)
def test_a_cell_of_the_grid_passes(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    part = {"shapes": SHAPES[1:2], "dtypes": ("float16",), "columns": ("packed", "sliding")}
    assert whole.alarms(kind, chosen_here, monkeypatch, **part) == []
    assert standins.calls


@pytest.mark.parametrize("kind", KINDS[1:])
def test_faults_of_source_kernel_and_window_are_caught(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    some = tuple(fault for fault in FAULTS if fault.id in FEW)
    assert len(some) == len(FEW)
    assert whole.missed(kind, chosen_here, monkeypatch, some) == []


def test_a_fault_that_is_not_there_counts_as_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    healthy = without(next(fault for fault in FAULTS if fault.id == FEW[0]))
    assert whole.missed("flash-attn-3", chosen_here, monkeypatch, (healthy,)) == [FEW[0]]


def test_every_fault_is_meant_for_a_kernel_that_runs_on_cuda() -> None:
    for fault in FAULTS:
        assert sum(whole.meant_for(kind, fault) for kind in ("flash-attn", "sdpa", "eager")) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_transformers_is_told_the_versions_own_name(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path under another name would look for a package of its own, and find none here."""
    told = []
    code = definitions.whole()
    utils = code.modules[definitions.UTILS]
    real: Callable[..., object] = utils.lazy_import_flash_attention

    def watched(implementation: str, *args: object, **kwargs: object) -> object:
        told.append(implementation)
        return real(implementation, *args, **kwargs)

    monkeypatch.setattr(utils, "lazy_import_flash_attention", watched)
    tracer.trace(layer=0, head=0, kernel=kind, dtype="bfloat16")
    assert set(told) == {next(each.implementation for each in INTERFACES if each.kind == kind)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_live_models_own_version_is_watched_and_verified(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What transformers has loaded for ``attn_implementation="flash_attention_3"`` stays what runs."""
    utils = definitions.whole().modules[definitions.UTILS]
    for name in STATE:
        monkeypatch.setattr(utils, name, getattr(utils, name, None), raising=False)  # all is as before after the test
    module = standins.MODULES[kind]
    loaded = (module.flash_attn_func, module.flash_attn_varlen_func, None, utils._pad_input, utils._unpad_input)
    monkeypatch.setattr(utils, "_lazy_imports", lambda *args, **kwargs: loaded)
    monkeypatch.setattr(utils, "_loaded_implementation", None)
    model = random_model("bfloat16")
    model.config._attn_implementation = next(each.implementation for each in INTERFACES if each.kind == kind)
    found = tracer.verify(model, layers=[0], scenarios=("plain", "left_pad", "decode"))
    assert found.exit_code == 0
    assert found.kernel.value == kind
    assert standins.calls
    assert {outcome.check.status for outcome in found.outcomes if outcome.check.id == "numerics.lse"} <= {Status.PASS}
    assert (utils._flash_varlen_fn, utils._flash_fn) == (module.flash_attn_varlen_func, module.flash_attn_func)


# ------------------------------------------------------------------------------------------------ nano-vllm


@pytest.mark.usefixtures("nano_vllm_files")
@pytest.mark.parametrize("kind", KINDS[:2])
@pytest.mark.parametrize("phase", [{}, {"decode": True}], ids=["prefill", "decode"])
def test_nano_vllm_runs_on_every_version_with_a_function_over_a_cache(kind: str, phase: dict[str, bool]) -> None:
    trace = tracer.trace(engine="nano-vllm", layer=1, head=2, kernel=kind, dtype="bfloat16", **phase)
    assert trace.exit_code == 0
    assert trace.layer.kernel.provider.startswith(f"{kind} ")
    assert standins.calls


@pytest.mark.usefixtures("nano_vllm_files")
def test_a_cached_prefix_is_refused_on_flash_attention_3_which_has_no_pages_there() -> None:
    asked = {"engine": "nano-vllm", "layer": 1, "head": 2, "dtype": "bfloat16", "cached": 4}
    assert tracer.trace(kernel="flash-attn", **asked).exit_code == 0
    with pytest.raises(Unsupported, match="flash_attn_varlen_func of flash-attn-3 has no argument block_table"):
        tracer.trace(kernel="flash-attn-3", **asked)


@pytest.mark.usefixtures("nano_vllm_files")
def test_nano_vllm_cannot_run_on_flash_attention_4() -> None:
    with pytest.raises(Unsupported, match=r"cannot run with kernel=\"flash-attn-4\"\. Use kernel=\"flash-attn\""):
        tracer.trace(engine="nano-vllm", kernel="flash-attn-4", dtype="bfloat16")


def test_a_fault_inside_a_version_is_told_and_nothing_stays_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    utils = definitions.whole().modules[definitions.UTILS]
    before = utils._loaded_implementation, utils._flash_varlen_fn
    broken = standins.module("flash_attn_interface", flash_attn_varlen_func=_turned, flash_attn_func=_turned)
    monkeypatch.setitem(standins.MODULES, "flash-attn-3", broken)
    with pytest.raises(Unsupported, match="gave a logsumexp of shape"):
        tracer.trace(layer=0, head=0, kernel="flash-attn-3", dtype="bfloat16")
    assert (utils._loaded_implementation, utils._flash_varlen_fn) == before


def _turned(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, softmax_scale=None,
            causal=False, return_attn_probs=False):  # type: ignore[no-untyped-def]  # fmt: skip
    return q, q.new_zeros(q.shape[:2])


class Alone(Hopper):
    """The same machine with one version alone."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def recorded(self, package: str) -> str | None:
        return super().recorded(package) if package == self._kind else None

    def module(self, name: str) -> ModuleType:
        if not any(each.module == name and each.kind == self._kind for each in INTERFACES):
            raise ModuleNotFoundError(f"No module named '{name}'")
        return super().module(name)


@pytest.mark.usefixtures("nano_vllm_files")
@pytest.mark.parametrize(
    ("kind", "cached", "why"),
    [
        ("flash-attn-4", 0, "flash-attn-4 4.0.0b27 has no flash_attn_with_kvcache"),
        ("flash-attn-3", 4, "flash_attn_varlen_func of flash-attn-3 3.0.0 has no argument block_table"),
    ],
)
def test_nano_vllm_on_auto_runs_on_the_cpus_kernel_where_the_version_there_lacks_what_it_calls(
    monkeypatch: pytest.MonkeyPatch, kind: str, cached: int, why: str
) -> None:
    monkeypatch.setattr(pipeline, "choose", lambda asked, **given: choose(asked, probes=Alone(kind), **given))
    traced = tracer.trace(engine="nano-vllm", dtype="bfloat16", cached=cached)
    assert traced.exit_code == 0
    assert traced.layer.request.kernel.value == "cpu-flash"
    assert why in str(traced.layer.request.kernel.reason)
