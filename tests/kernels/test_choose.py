"""Which kernel runs, on which device, and the reason the reader is given."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tracer.cli import words
from tracer.errors import InputError, Unsupported
from tracer.kernels.choose import KERNELS, Probes, choose
from tracer.kernels.interfaces import FOUR, INTERFACES, TWO


def of_two(q, k, v, return_attn_probs=False):  # type: ignore[no-untyped-def]
    """Stands for every function of flash-attn 2 and 3 here, where nothing is called."""


def of_four(q, k, v, return_lse=False):  # type: ignore[no-untyped-def]
    """Stands for the functions of FlashAttention 4."""


def before_lse(q, k, v):  # type: ignore[no-untyped-def]
    """Stands for FlashAttention 3 as it was before 29 August 2025."""


class Machine(Probes):
    """A machine of the test's choosing: what is installed, by package, and how each import ends."""

    def __init__(
        self,
        cuda: bool = False,
        flash_attn: str | None = None,
        capability: tuple[int, int] = (9, 0),
        error: Exception | None = None,
        three: str | None = None,
        four: str | None = None,
        functions: Callable[..., Any] | None = None,
        devices: int = 2,
    ) -> None:
        self._devices = devices
        self._cuda, self._capability, self._error, self._functions = cuda, capability, error, functions
        self._versions = {"flash-attn": flash_attn, "flash-attn-3": three, "flash-attn-4": four}
        self.imported: list[str] = []

    def torch_version(self) -> str:
        return "2.13.0"

    def cuda(self) -> bool:
        return self._cuda

    def devices(self) -> int:
        return self._devices

    def capability(self, device: str) -> tuple[int, int]:
        return self._capability

    def recorded(self, package: str) -> str | None:
        return self._versions[package]

    def module(self, name: str) -> ModuleType:
        self.imported.append(name)
        if self._error is not None:
            raise self._error
        (interface,) = (each for each in INTERFACES if each.module == name)
        version = self._versions[interface.kind]
        if version is None and not (name == "flash_attn" and self._versions["flash-attn-4"]):
            raise ModuleNotFoundError(f"No module named '{name}'")
        module = ModuleType(name)
        if version is None:
            return module  # flash-attn-4 alone leaves a folder flash_attn with nothing of its own in it
        if interface is TWO:
            module.__version__ = version
        names = ["flash_attn_varlen_func", "flash_attn_func"]
        if interface is not FOUR:
            names.append("flash_attn_with_kvcache")
        for function in names:
            setattr(module, function, self._functions or (of_four if interface is FOUR else of_two))
        return module


GPU = Machine(cuda=True, flash_attn="2.8.3")
HOPPER, BLACKWELL, AMPERE = (9, 0), (10, 0), (8, 0)


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


class Raw(Machine):
    """A machine that asks about a device as torch does."""

    def capability(self, device: str) -> tuple[int, int]:
        if int(device.partition(":")[2] or 0) >= self._devices:
            raise AssertionError("Invalid device id")
        return super().capability(device)


@pytest.mark.parametrize("kernel", ["auto", "flash-attn", "sdpa", "eager"])
@pytest.mark.parametrize(
    ("count", "told", "zh"),
    [
        (1, "cuda:9 was asked for, but torch finds one CUDA device, cuda:0.", "只找到一个 CUDA 设备：cuda:0"),
        (
            4,
            "cuda:9 was asked for, but torch finds 4 CUDA devices, cuda:0 to cuda:3.",
            "4 个 CUDA 设备：cuda:0 到 cuda:3",
        ),
    ],
)
def test_a_cuda_device_beyond_those_there_are_is_told_with_their_number(
    kernel: str, count: int, told: str, zh: str
) -> None:
    machine = Raw(cuda=True, flash_attn="2.8.3", devices=count)
    with pytest.raises(Unsupported) as refused:
        choose(kernel, device="cuda:9", dtype="bfloat16", head_dim=128, probes=machine)
    assert told in str(refused.value)
    assert zh in refused.value.text("zh")
    last = f"cuda:{count - 1}"
    assert choose(kernel, device=last, dtype="bfloat16", head_dim=128, probes=machine).device == last


@pytest.mark.parametrize("device", ["cuda:", "cuda:x", "cuda:-1", "cuda:1:2", "auto:0", "cpu:one"])
def test_a_device_number_that_is_none_is_bad_input(device: str) -> None:
    with pytest.raises(InputError, match=rf"{device} is no device that torch knows"):
        choose("auto", device=device, dtype="bfloat16", head_dim=128, probes=GPU)


def test_auto_passes_over_a_version_without_the_function_for_caches_and_says_so() -> None:
    four = Machine(cuda=True, four="4.0.0b27")
    asked = {"dtype": "bfloat16", "head_dim": 128, "probes": four}
    assert choose("auto", **asked).kind == "flash-attn-4"
    chosen = choose("auto", calls={"with_kvcache": ()}, **asked)
    assert (chosen.kind, chosen.device) == ("cpu-flash", "cpu")
    assert chosen.with_kvcache is not None
    why = "flash-attn-4 4.0.0b27 has no flash_attn_with_kvcache, which this code calls too"
    assert why in str(chosen.reason)
    assert "没有 flash_attn_with_kvcache" in chosen.reason.text("zh")
    both = Machine(cuda=True, three="3.0.0", four="4.0.0b27")
    assert (
        choose("auto", dtype="bfloat16", head_dim=128, calls={"with_kvcache": ()}, probes=both).kind == "flash-attn-3"
    )


def test_auto_passes_over_a_version_whose_function_has_not_the_argument_needed() -> None:
    three = Machine(cuda=True, three="3.0.0")
    chosen = choose("auto", dtype="bfloat16", head_dim=128, calls={"varlen": ("block_table",)}, probes=three)
    assert chosen.kind == "cpu-flash"
    assert "flash_attn_varlen_func of flash-attn-3 3.0.0 has no argument block_table" in str(chosen.reason)
    assert "没有参数 block_table" in chosen.reason.text("zh")


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
    with pytest.raises(
        InputError, match=r"no kernel flash\..*auto, flash-attn, flash-attn-3, flash-attn-4, cpu-flash, sdpa, eager"
    ):
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


# ------------------------------------------------------------------------------------- FlashAttention 3 and 4


def test_the_command_line_knows_the_kernels_there_are() -> None:
    assert words.KERNELS == KERNELS


@pytest.mark.parametrize(
    ("kind", "machine", "capability", "provider", "implementation"),
    [
        ("flash-attn-3", {"three": "3.0.0"}, HOPPER, "flash-attn-3 3.0.0", "flash_attention_3"),
        ("flash-attn-4", {"four": "4.0.0b27"}, HOPPER, "flash-attn-4 4.0.0b27", "flash_attention_4"),
        ("flash-attn-4", {"four": "4.0.0b27"}, BLACKWELL, "flash-attn-4 4.0.0b27", "flash_attention_4"),
    ],
)
@pytest.mark.parametrize("asked", [True, False], ids=["asked for", "auto"])
def test_3_and_4_are_taken_where_they_are_what_is_there(
    kind: str, machine: dict[str, str], capability: tuple[int, int], provider: str, implementation: str, asked: bool
) -> None:
    probes = Machine(cuda=True, capability=capability, **machine)
    chosen = choose(kind if asked else "auto", dtype="bfloat16", head_dim=128, probes=probes)
    assert (chosen.kind, chosen.provider, chosen.device) == (kind, provider, "cuda")
    assert chosen.attn_implementation == implementation
    assert (chosen.with_kvcache is None) == (kind == "flash-attn-4")
    assert str(chosen.device_reason) == f"{kind} runs on CUDA"
    if asked:
        assert str(chosen.reason) == f"asked for with --kernel {kind}"
    else:
        assert str(chosen.reason) == f"{provider} is installed and takes bfloat16 with head_dim 128 on cuda"


def test_2_comes_first_and_what_else_is_installed_is_told() -> None:
    probes = Machine(cuda=True, flash_attn="2.8.3", three="3.0.0", four="4.0.0b27")
    chosen = choose("auto", dtype="bfloat16", head_dim=128, probes=probes)
    assert chosen.kind == "flash-attn"
    assert probes.imported == ["flash_attn"]  # nothing else is imported for it
    assert str(chosen.reason) == (
        "flash-attn 2.8.3 is installed and takes bfloat16 with head_dim 128 on cuda; flash-attn-3 is installed too: "
        "--kernel flash-attn-3 takes it; flash-attn-4 is installed too: --kernel flash-attn-4 takes it"
    )


def test_where_2_is_too_old_3_is_taken_and_both_facts_are_told() -> None:
    chosen = choose(
        "auto", dtype="bfloat16", head_dim=128, probes=Machine(cuda=True, flash_attn="2.0.9", three="3.0.0")
    )
    assert str(chosen.reason) == (
        "flash-attn-3 3.0.0 is installed and takes bfloat16 with head_dim 128 on cuda; "
        "flash-attn 2.0.9 is older than 2.1 and aligns causal masks to the top left"
    )
    assert chosen.reason.text("zh").startswith("已安装 flash-attn-3 3.0.0")


@pytest.mark.parametrize(
    ("kind", "machine", "capability", "settings", "why"),
    [
        (
            "flash-attn-3",
            {"three": "3.0.0"},
            AMPERE,
            {},
            "flash-attn-3 runs on compute capability 9.0 to 9.x, and cuda has 8.0",
        ),
        (
            "flash-attn-3",
            {"three": "3.0.0"},
            BLACKWELL,
            {},
            "flash-attn-3 runs on compute capability 9.0 to 9.x, and cuda has 10.0",
        ),
        (
            "flash-attn-4",
            {"four": "4.0.0b27"},
            AMPERE,
            {},
            "flash-attn-4 runs on compute capability 9.0 to 11.x, and cuda has 8.0",
        ),
        (
            "flash-attn-4",
            {"four": "4.0.0b27"},
            BLACKWELL,
            {"head_dim": 192},
            "on this device flash-attn-4 takes a head_dim up to 128 that 8 divides, or 256, not 192",
        ),
        (
            "flash-attn-3",
            {"three": "3.0.0"},
            HOPPER,
            {"head_dim": 264},
            "flash-attn-3 takes a head_dim up to 256 that 8 divides, not 264",
        ),
        (
            "flash-attn-3",
            {"three": "3.0.0b1", "functions": before_lse},
            HOPPER,
            {},
            "flash_attn_varlen_func of flash-attn-3 3.0.0b1 has no argument that asks for the logsumexp",
        ),
    ],
)
def test_a_version_that_does_not_fit_is_refused_with_the_reason(
    kind: str, machine: dict[str, Any], capability: tuple[int, int], settings: dict[str, int], why: str
) -> None:
    wanted = {"dtype": "bfloat16", "head_dim": 128} | settings
    probes = Machine(cuda=True, capability=capability, **machine)
    with pytest.raises(Unsupported, match=f"--kernel {kind} cannot be used here") as refused:
        choose(kind, probes=probes, **wanted)
    assert why in str(refused.value)
    chosen = choose("auto", probes=probes, **wanted)
    assert (chosen.kind, chosen.device) == ("cpu-flash", "cpu")
    assert why in str(chosen.reason)


@pytest.mark.parametrize("kind", ["flash-attn-3", "flash-attn-4"])
def test_nothing_is_imported_that_cannot_run_on_the_device(kind: str) -> None:
    probes = Machine(cuda=True, capability=AMPERE, three="3.0.0", four="4.0.0b27")
    with pytest.raises(Unsupported):
        choose(kind, dtype="bfloat16", head_dim=128, probes=probes)
    assert probes.imported == []


@pytest.mark.parametrize("kind", ["flash-attn", "flash-attn-3", "flash-attn-4"])
@pytest.mark.parametrize("fault", [RuntimeError("CUDA driver\nmore"), AttributeError("cutlass"), OSError("no libcuda")])
def test_an_import_that_fails_is_a_reason_and_no_traceback(kind: str, fault: Exception) -> None:
    probes = Machine(cuda=True, flash_attn="2.8.3", three="3.0.0", four="4.0.0b27", error=fault)
    with pytest.raises(Unsupported) as refused:
        choose(kind, dtype="bfloat16", head_dim=128, probes=probes)
    assert f"{kind} cannot be imported ({str(fault).splitlines()[0]})" in str(refused.value)


def test_the_folder_that_flash_attn_4_leaves_is_not_taken_for_flash_attn_2() -> None:
    probes = Machine(cuda=True, four="4.0.0b27")
    with pytest.raises(Unsupported, match="flash_attn can be imported but has no flash_attn_varlen_func"):
        choose("flash-attn", dtype="bfloat16", head_dim=128, probes=probes)


def test_flash_attn_2_1_has_no_function_over_a_cache() -> None:
    class Old(Machine):
        def module(self, name: str) -> ModuleType:
            module = super().module(name)
            del module.flash_attn_with_kvcache
            return module

    assert choose("flash-attn", dtype="float16", head_dim=64, probes=Old(True, "2.1.0")).with_kvcache is None
