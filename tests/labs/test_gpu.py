"""The measurement of a flash kernel: what is run and what is left out, judged on an invented machine; and one real run
on the CPU, small."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from tracer.errors import InputError, Unsupported
from tracer.labs import bench, gpu
from tracer.labs.bench import Machine, Way
from tracer.maths.criterion import Numerics, numerics
from tracer.texts import message

GIGABYTE = 10**9


@dataclass
class Invented:
    """A machine on which explicit products take ``slow`` seconds at T = 1024, and the kernel a tenth of it."""

    slow: float = 0.01
    free: int = 12 * GIGABYTE
    cuda: bool = True
    error: float = 0.0
    ran: list[tuple[str, int]] = field(default_factory=list)

    @property
    def machine(self) -> Machine:
        name = message("labs.gpu_card", name="Invented 12 GB")
        reason = message("kernels.asked", kernel="flash-attn")
        return Machine("cuda", name, "flash_attn_func", "flash-attn 2.8", reason, "bfloat16", self.free, self.cuda)

    def flash(self, length: int) -> Way:
        self.ran.append(("flash", length))
        return Way(self.slow / 10 * (length / 1024) ** 2, bench.flash_bytes(length, "bfloat16"))

    def explicit(self, length: int) -> Way:
        self.ran.append(("explicit", length))
        return Way(self.slow * (length / 1024) ** 2, bench.explicit_bytes(length, "bfloat16"))

    def check(self, length: int) -> Numerics | None:
        right = np.ones((4, 2))
        return numerics(right + self.error, right, right, "BF16") if length <= 1024 else None


def test_everything_runs_on_a_card_of_12_gb() -> None:
    found = bench.measure(Invented(slow=0.001), gpu.ON_CUDA)
    assert all(each.explicit.seconds and each.flash.seconds for each in found)


def test_what_does_not_fit_is_left_out_and_says_so() -> None:
    machine = Invented(slow=0.001, free=GIGABYTE)
    found = bench.measure(machine, (1024, 32768))
    assert found[1].explicit.seconds is None
    assert "5.4 GB needed, 1.0 GB may be used" in str(found[1].explicit.why)
    assert machine.ran == [("explicit", 1024), ("flash", 1024), ("flash", 32768)]


def test_what_would_take_too_long_is_left_out_and_everything_longer_too() -> None:
    machine = Invented(slow=2.0)
    found = bench.measure(machine, (1024, 2048, 4096, 8192))
    assert [each.explicit.seconds is None for each in found] == [False, True, True, True]
    assert [each.flash.seconds is None for each in found] == [False, False, False, True]
    assert "more than 5 s" in str(found[1].explicit.why)


def test_explicit_memory_grows_like_the_square_and_flash_like_the_length() -> None:
    assert bench.explicit_bytes(2048, "bfloat16") == 4 * bench.explicit_bytes(1024, "bfloat16")
    assert bench.flash_bytes(2048, "bfloat16") == 2 * bench.flash_bytes(1024, "bfloat16")


def test_a_kernel_that_is_wrong_ends_with_1() -> None:
    assert gpu.lesson(lengths=(512,), on=Invented()).exit_code == 0
    assert gpu.lesson(lengths=(512,), on=Invented(error=0.1)).exit_code == 1


def test_the_page_says_whether_memory_was_measured() -> None:
    assert gpu.lesson(lengths=(512,), on=Invented()).json("en")["memory"] == "measured"
    assert gpu.lesson(lengths=(512,), on=Invented(cuda=False)).json("en")["memory"] == "computed"


def test_lengths_beyond_reason_are_refused_before_torch_is_asked() -> None:
    for lengths in ((1,), (10**9,), ()):
        with pytest.raises(InputError):
            gpu.lesson(lengths=lengths)


def test_the_cpu_kernel_does_it_without_cuda_and_says_so() -> None:
    found = gpu.lesson(lengths=(16, 33), device="cpu").json("en")
    assert found["kernel"]["function"] == "_scaled_dot_product_flash_attention_for_cpu"
    assert "flash-attn itself did not run" in " ".join(found["after"])
    assert [each["check"]["pass"] for each in found["lengths"]] == [True, True]


def test_cuda_that_is_not_there_is_refused() -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    with pytest.raises(Unsupported):
        gpu.lesson(device="cuda")


def test_explicit_attention_is_attention() -> None:
    import torch

    q, k, v = (torch.randn(7, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(i)) for i in range(3))
    expected = torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
    assert torch.allclose(bench.explicit_attention(q, k, v), expected)
