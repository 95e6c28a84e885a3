"""The real versions of flash-attn, and torch's own paths, on a real device: the whole of verification on each. Where
there is no device, or a version cannot be used, this is skipped with the reason, and a green run says nothing of it."""

import pytest
import whole

import tracer
from tracer.errors import Unsupported
from tracer.kernels.choose import Probes, choose
from tracer.kernels.interfaces import INTERFACES

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not Probes().cuda(), reason="NOT RUN: torch finds no CUDA device here"),
]
KINDS = [each.kind for each in INTERFACES]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Each version of flash-attn that can be used here."""
    found: str = request.param
    try:
        choose(found, dtype="bfloat16", head_dim=32)
    except Unsupported as refused:
        pytest.skip(f"NOT RUN: {refused}")
    return found


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_flash_attn_itself_passes_every_check(kind: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = tracer.trace(layer=1, head=5, kernel=kind, dtype=dtype)
    assert trace.layer.request.device.value.startswith("cuda")
    assert trace.exit_code == 0
    assert whole.checks(kind, dtype, choose, monkeypatch) == 0


def test_flash_attn_itself_raises_no_alarm_on_the_grid(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert whole.alarms(kind, choose, monkeypatch) == []


def test_every_planted_fault_is_caught_on_flash_attn_itself(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert whole.missed(kind, choose, monkeypatch) == []


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
def test_torchs_own_paths_pass_every_check_and_every_fault_is_caught(
    kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tracer.trace(layer=1, head=5, kernel=kernel, device="cuda").exit_code == 0
    assert whole.checks(kernel, "auto", choose, monkeypatch) == 0
    assert whole.alarms(kernel, choose, monkeypatch) == []
    assert whole.missed(kernel, choose, monkeypatch) == []
