"""Which kernel runs, on which device, and the reason the reader is given."""

from types import ModuleType

import pytest

from tracer.errors import InputError, Unsupported
from tracer.kernels.choose import KERNELS, Probes, choose


class Machine(Probes):
    """A machine of the test's choosing."""

    def __init__(
        self,
        cuda: bool = False,
        flash_attn: str | None = None,
        capability: tuple[int, int] = (9, 0),
        error: Exception | None = None,
    ) -> None:
        self._cuda, self._version, self._capability = cuda, flash_attn, capability
        self._error = error or ModuleNotFoundError("No module named 'flash_attn'")

    def torch_version(self) -> str:
        return "2.13.0"

    def cuda(self) -> bool:
        return self._cuda

    def capability(self, device: str) -> tuple[int, int]:
        return self._capability

    def flash_attn(self) -> ModuleType:
        if self._version is None:
            raise self._error
        module = ModuleType("flash_attn")
        module.__version__ = self._version
        for name in ("flash_attn_varlen_func", "flash_attn_func", "flash_attn_with_kvcache"):
            setattr(module, name, lambda: None)
        return module


GPU = Machine(cuda=True, flash_attn="2.8.3")


def test_auto_takes_flash_attn_on_cuda_and_says_what_it_found() -> None:
    chosen = choose("auto", dtype="bfloat16", head_dim=128, probes=GPU)
    assert (chosen.kind, chosen.device, chosen.provider) == ("flash-attn", "cuda", "flash-attn 2.8.3")
    assert str(chosen.reason) == "flash-attn 2.8.3 is installed and takes bfloat16 with head_dim 128 on cuda"
    assert chosen.varlen is not None
    assert chosen.dense is not None


@pytest.mark.parametrize(
    ("machine", "asked", "why"),
    [
        (Machine(), {}, "torch finds no CUDA device"),
        (GPU, {"device": "cpu"}, "--device cpu was asked for"),
        (GPU, {"device": "mps"}, "flash-attn runs on CUDA devices, and --device mps was asked for"),
        (GPU, {"dtype": "float32"}, "flash-attn takes float16 and bfloat16, not float32"),
        (GPU, {"head_dim": 320}, "flash-attn takes a head_dim up to 256 that 8 divides, not 320"),
        (GPU, {"head_dim": 36}, "flash-attn takes a head_dim up to 256 that 8 divides, not 36"),
        (Machine(cuda=True), {}, "flash-attn cannot be imported (No module named 'flash_attn')"),
        (
            Machine(cuda=True, error=OSError("libcudart.so.12: cannot open shared object file\nmore")),
            {},
            "flash-attn cannot be imported (libcudart.so.12: cannot open shared object file)",
        ),
        (
            Machine(cuda=True, flash_attn="2.0.9"),
            {},
            "flash-attn 2.0.9 is older than 2.1 and aligns causal masks to the top left",
        ),
        (
            Machine(cuda=True, flash_attn="2.8.3", capability=(7, 5)),
            {},
            "flash-attn needs compute capability 8.0 or later, and cuda has 7.5",
        ),
    ],
)
def test_auto_moves_the_whole_run_to_the_cpu_and_says_why(machine: Machine, asked: dict[str, object], why: str) -> None:
    settings = {"dtype": "bfloat16", "head_dim": 128} | asked
    chosen = choose("auto", probes=machine, **settings)
    assert (chosen.kind, chosen.device, chosen.provider) == ("cpu-flash", "cpu", "torch 2.13.0")
    assert str(chosen.reason) == f"the CPU flash kernel, because {why}"
    assert why  # the same reason turns an explicit request down:
    with pytest.raises(Unsupported, match="--kernel flash-attn cannot be used here") as refused:
        choose("flash-attn", probes=machine, **settings)
    assert why in str(refused.value)
    assert refused.value.exit_code == 3


def test_flash_attn_older_than_2_1_is_refused_because_its_causal_mask_is_top_left() -> None:
    with pytest.raises(Unsupported, match=r"2\.0\.9 is older than 2\.1"):
        choose("flash-attn", dtype="float16", head_dim=64, probes=Machine(cuda=True, flash_attn="2.0.9"))


def test_a_version_that_is_no_version_counts_as_too_old() -> None:
    with pytest.raises(Unsupported, match="main is older than"):
        choose("flash-attn", dtype="float16", head_dim=64, probes=Machine(cuda=True, flash_attn="main"))


@pytest.mark.parametrize(("device", "goes_to"), [("auto", "cuda"), ("cuda:1", "cuda:1")])
def test_flash_attn_runs_on_the_device_that_was_asked_for(device: str, goes_to: str) -> None:
    chosen = choose("flash-attn", device=device, dtype="float16", head_dim=64, probes=GPU)
    assert (chosen.device, str(chosen.reason)) == (goes_to, "asked for with --kernel flash-attn")


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_cuda_device_that_is_not_there_is_an_error_for_every_kernel(kernel: str) -> None:
    with pytest.raises(Unsupported, match=r"torch 2\.13\.0 finds no CUDA device.*--device cpu"):
        choose(kernel, device="cuda", dtype="bfloat16", head_dim=128, probes=Machine())


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
@pytest.mark.parametrize(("machine", "device"), [(GPU, "cuda"), (Machine(), "cpu")])
def test_torchs_own_paths_have_no_flash_function(kernel: str, machine: Machine, device: str) -> None:
    chosen = choose(kernel, dtype="float32", head_dim=32, probes=machine)
    assert (chosen.kind, chosen.attn_implementation, chosen.device) == (kernel, kernel, device)
    assert chosen.varlen is None
    assert chosen.dense is None


def test_the_cpu_flash_kernel_cannot_run_elsewhere() -> None:
    assert choose("cpu-flash", dtype="float32", head_dim=32, probes=GPU).device == "cpu"
    with pytest.raises(Unsupported, match="runs on the CPU, but --device cuda was asked for"):
        choose("cpu-flash", device="cuda", dtype="float32", head_dim=32, probes=GPU)


def test_unknown_names_are_bad_input() -> None:
    with pytest.raises(InputError, match=r"no kernel flash\..*auto, flash-attn, cpu-flash, sdpa, eager"):
        choose("flash", dtype="float32", head_dim=32, probes=GPU)
    with pytest.raises(InputError, match="gpu is no device that torch knows"):
        choose("auto", device="gpu", dtype="float32", head_dim=32, probes=GPU)


@pytest.mark.parametrize(
    ("asked", "device", "machine", "why"),
    [
        ("auto", "auto", Machine(), "the CPU flash kernel runs on the CPU"),
        ("auto", "cpu", Machine(), "asked for with --device cpu"),
        ("auto", "mps", Machine(), "the CPU flash kernel runs on the CPU"),
        ("cpu-flash", "auto", GPU, "the CPU flash kernel runs on the CPU"),
        ("auto", "auto", GPU, "flash-attn runs on CUDA"),
        ("auto", "cuda:1", GPU, "asked for with --device cuda:1"),
        ("eager", "auto", GPU, "torch finds a CUDA device"),
        ("sdpa", "auto", Machine(), "torch finds no CUDA device"),
        ("sdpa", "cpu", GPU, "asked for with --device cpu"),
    ],
)
def test_the_device_has_a_reason_of_its_own(asked: str, device: str, machine: Machine, why: str) -> None:
    chosen = choose(asked, device=device, dtype="bfloat16", head_dim=128, probes=machine)
    assert str(chosen.device_reason) == why
