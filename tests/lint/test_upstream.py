"""The pinned upstream sources: no fault in code that is right, what is proven is right, the rest is unknown."""

import os
from collections import Counter
from pathlib import Path

import pytest
import transformers

from tracer.lint.records import KernelStatus, Report, ScaleStatus
from tracer.lint.run import lint
from tracer.vendoring.places import default_folder, release_folder

RIGHT, DEPENDS, UNKNOWN = KernelStatus.RIGHT, KernelStatus.DEPENDS, KernelStatus.UNKNOWN


def release(project: str, version: str) -> Report:
    folder = release_folder(default_folder(), project, version)
    if folder is None:
        missing = f"bring the files first: python -m tracer vendor sync {project}"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
    return lint([folder])


@pytest.mark.usefixtures("nano_vllm_files")
def test_nano_vllm_is_right_and_its_path_complete() -> None:
    report = release("nano-vllm", "20260210")
    assert (report.findings, report.skipped, report.exit_code) == ((), (), 0)
    assert [(each.function, each.status) for each in report.kernels] == [
        ("flash_attn_varlen_func", RIGHT),
        ("flash_attn_with_kvcache", RIGHT),
    ]
    for kernel in report.kernels:
        (scale,) = kernel.scales
        assert [hop.binds for hop in scale.hops] == ["self.scaling", "scale", "self.scale", "softmax_scale="]


@pytest.mark.parametrize(
    ("project", "version", "right"),
    [("vllm", "0.33.0", 0), ("vllm", "0.27.1", 0), ("sglang", "0.5.23", 9), ("sglang", "0.5.18", 9)],
)
def test_the_engines_have_no_fault(project: str, version: str, right: int) -> None:
    report = release(project, version)
    assert (report.findings, report.skipped) == ((), ())
    count = Counter(kernel.status for kernel in report.kernels)
    assert (count[RIGHT] + count[DEPENDS], count[KernelStatus.FAULT]) == (right, 0)


def test_vllms_backend_is_found_through_a_variable_and_therefore_not_proven() -> None:
    report = release("vllm", "0.27.1")
    scales = [scale for kernel in report.kernels if kernel.signature for scale in kernel.scales]
    assert {(scale.status, scale.normal) for scale in scales} == {(ScaleStatus.UNKNOWN, "head_dim**-0.5")}
    assert {scale.why.id for scale in scales if scale.why is not None} == {"lint.through_table"}


def test_flash_attn_itself_calls_no_kernel() -> None:
    report = release("flash-attn", "2.8.3.post2")
    assert (report.kernels, report.exit_code) == ((), 3)


PACKAGE = Path(transformers.__file__).parent
PATHS = [
    PACKAGE / "models" / "qwen3",
    PACKAGE / "integrations" / "flash_attention.py",
    PACKAGE / "integrations" / "sdpa_attention.py",
    PACKAGE / "modeling_flash_attention_utils.py",
]


def test_transformers_is_right_where_the_source_proves_it() -> None:
    report = lint(PATHS)
    assert (report.findings, report.exit_code) == ((), 0)
    by_function = {kernel.function: kernel for kernel in report.kernels}
    assert by_function["softmax(q @ k) @ v"].status is DEPENDS  # the mask is its caller's
    assert by_function["softmax(q @ k) @ v"].causal.depends_on == ("attention_mask",)
    (scale,) = by_function["flash_varlen_fn"].scales  # a partial, a dictionary and a table of functions on the way
    assert scale.status is ScaleStatus.UNKNOWN
    assert "**" in [hop.binds for hop in scale.hops]
    assert "is_causal" in by_function["flash_varlen_fn"].causal.depends_on


@pytest.mark.parametrize("model", ["llama", "bert", "gpt2", "whisper", "clip", "gemma2", "mpt", "t5", "gpt_oss"])
def test_other_models_have_no_fault(model: str) -> None:
    report = lint([PACKAGE / "models" / model])
    assert report.findings == ()
    assert report.kernels
