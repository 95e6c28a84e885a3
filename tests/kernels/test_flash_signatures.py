"""flash-attn's varlen function as its versions have it: whatever the order and number of its parameters, a run knows
each argument by its name. The signatures are flash-attn's own; what computes is the CPU kernel."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tracer.capture.recorder import Recorder
from tracer.engines.transformers.lending import KernelWatch
from tracer.kernels import cpu_flash

CAUSAL_SCALE = 0.25


def v2_1(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0, softmax_scale=None,
         causal=False, return_attn_probs=False):  # fmt: skip
    return _computed(locals())


def v2_3(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0, softmax_scale=None,
         causal=False, window_size=(-1, -1), return_attn_probs=False):  # fmt: skip
    return _computed(locals())


def v2_5(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0, softmax_scale=None,
         causal=False, window_size=(-1, -1), alibi_slopes=None, deterministic=False, return_attn_probs=False,
         block_table=None):  # fmt: skip
    return _computed(locals())


def v2_6(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0, softmax_scale=None,
         causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None, deterministic=False,
         return_attn_probs=False, block_table=None):  # fmt: skip
    return _computed(locals())


def _computed(given: dict[str, Any]) -> Any:
    known = {name: value for name, value in given.items() if name not in ("softcap", "deterministic")}
    return cpu_flash.flash_attn_varlen_func(**known)


@pytest.mark.parametrize("function", [v2_1, v2_3, v2_5, v2_6], ids=["2.1", "2.3", "2.5", "2.6 to 2.8"])
@pytest.mark.parametrize("positional", [True, False], ids=["by position", "by name"])
def test_every_argument_is_known_by_its_name(function: Callable[..., Any], positional: bool) -> None:
    recorder = Recorder()
    watch = KernelWatch(function, recorder)
    lent = watch.lent(None)
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(5, 4, 8, generator=generator)
    k, v = (torch.randn(5, 2, 8, generator=generator) for _ in range(2))
    bounds = torch.tensor([0, 5], dtype=torch.int32)
    with recorder.during("attention"):
        if positional:
            output = lent(q, k, v, bounds, bounds, 5, 5, 0.0, CAUSAL_SCALE, True)
        else:
            output = lent(q=q, k=k, v=v, cu_seqlens_q=bounds, cu_seqlens_k=bounds, max_seqlen_q=5, max_seqlen_k=5,
                          softmax_scale=CAUSAL_SCALE, causal=True)  # fmt: skip
    (seen,) = watch.drain()
    assert (seen.arguments["softmax_scale"], seen.arguments["causal"]) == (CAUSAL_SCALE, True)
    assert (seen.arguments["max_seqlen_q"], seen.arguments["dropout_p"]) == (5, 0.0)
    assert torch.equal(seen.arguments["q"], q)
    assert torch.equal(seen.output, output)
    assert seen.lse.shape == (4, 5)  # asked for, though the caller did not
    assert isinstance(output, torch.Tensor)  # and the caller gets what it asked for
