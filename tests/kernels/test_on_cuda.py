"""The real flash-attn on a real device. Where there is none this is skipped, and a green run says nothing of it."""

import pytest

import tracer
from tracer.kernels.choose import Probes

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not Probes().cuda(), reason="NOT RUN: torch finds no CUDA device here"),
]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_flash_attn_itself_passes_every_check(dtype: str) -> None:
    pytest.importorskip("flash_attn", reason="NOT RUN: flash-attn is not installed here")
    from tracer.verification.entry import verify_checkpoint

    trace = tracer.trace(layer=1, head=5, kernel="flash-attn", dtype=dtype)
    assert trace.layer.request.device.value.startswith("cuda")
    assert trace.exit_code == 0
    assert verify_checkpoint(layers=None, kernel="flash-attn", dtype=dtype).exit_code == 0


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
def test_torchs_own_paths_pass_every_check(kernel: str) -> None:
    from tracer.verification.entry import verify_checkpoint

    assert tracer.trace(layer=1, head=5, kernel=kernel, device="cuda").exit_code == 0
    assert verify_checkpoint(layers=None, kernel=kernel, device="cuda").exit_code == 0
