"""The stand-in for triton: programs run one by one, pointers reach into any strided tensor."""

import torch

from tracer.engines.nanovllm import triton


@triton.jit
def _copy(source, stride, target, places, D: triton.constexpr):  # type: ignore[no-untyped-def]
    program = triton.program_id(0)
    place = triton.load(places + program)
    if place == -1:
        return
    row = triton.load(source + (program * stride + triton.arange(0, D)))
    triton.store(target + (place * D + triton.arange(0, D)), row)


def test_each_program_copies_its_row_to_the_place_that_is_named_for_it() -> None:
    wide = torch.arange(24.0).reshape(3, 8)
    source, target = wide[:, 2:6], torch.zeros(5, 4)  # rows of 4 in rows of 8, not from the start
    _copy[(3,)](source, source.stride(0), target, torch.tensor([4, -1, 0], dtype=torch.int32), 4)
    assert target[4].tolist() == source[0].tolist()
    assert target[0].tolist() == source[2].tolist()
    assert not target[1:4].any()
