"""What a run would take is told before it starts, and refused where that is too much."""

from pathlib import Path

import pytest

from tests.invented_trace import invented
from tracer import memory, pipeline
from tracer.errors import InputError

GIB = 1 << 30
MODEL = invented().model


@pytest.mark.parametrize(
    ("heads", "short", "long"), [(1, 0.25, 4), (16, 4, 64), (28 * 16, 112, 1792)], ids=["one", "a layer", "all layers"]
)
def test_scores_in_float32_grow_with_the_square_of_the_prompt(heads: int, short: float, long: float) -> None:
    assert memory.score_bytes(heads, 8192, 4) == short * GIB
    assert memory.score_bytes(heads, 32768, 4) == long * GIB


def test_captures_grow_with_the_prompt_only() -> None:
    one = memory.capture_bytes(8192, heads=16, kv_heads=8, head_dim=128, size=4)
    assert one == 8192 * (16 + 2 * 8) * 128 * 4 * 8
    assert memory.capture_bytes(32768, heads=16, kv_heads=8, head_dim=128, size=4) == 4 * one


def test_eager_holds_three_sets_of_scores_for_one_layer_and_keeps_one_for_each_more() -> None:
    def eager(layers: int) -> int:
        asked = {"tokens": 4096, "dtype": "F32", "heads": MODEL.heads, "layers": layers}
        return memory.needed(MODEL, kernel="eager", **asked) - memory.needed(MODEL, kernel="sdpa", **asked)

    assert eager(1) == 3 * memory.score_bytes(MODEL.heads, 4096, 4)
    assert eager(2) == 4 * memory.score_bytes(MODEL.heads, 4096, 4)


def test_one_head_on_the_cpu_flash_kernel_takes_less_than_all() -> None:
    asked = {"tokens": 32768, "layers": 1, "dtype": "BF16"}
    one, every = (memory.needed(MODEL, kernel="cpu-flash", heads=heads, **asked) for heads in (1, MODEL.heads))
    assert one * (MODEL.heads + 2 * MODEL.kv_heads) == every * 3


@pytest.mark.parametrize(("dtype", "times"), [("F64", 4), ("F32", 2), ("BF16", 1), ("F16", 1)])
def test_the_dtype_counts(dtype: str, times: int) -> None:
    asked = {"tokens": 100, "layers": 1, "kernel": "eager", "heads": 4}
    assert memory.needed(MODEL, dtype=dtype, **asked) == times * memory.needed(MODEL, dtype="F16", **asked)


def test_what_is_available_is_read_from_linux_and_guessed_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "meminfo"
    told.write_text("MemTotal:       16000 kB\nMemAvailable:    8000 kB\n", encoding="ascii")
    assert memory.available(told) == 8000 * 1024
    monkeypatch.setattr("tracer.memory.os.sysconf", lambda name: {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}[name])
    assert memory.available(tmp_path / "nowhere") == 500 * 4096
    monkeypatch.delattr("tracer.memory.os.sysconf")
    assert memory.available(tmp_path / "nowhere") is None


def test_the_limit_is_half_of_what_is_available_and_8_gib_where_that_is_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "available", lambda: 6 * GIB)
    assert memory.limit() == 3 * GIB
    monkeypatch.setattr(memory, "available", lambda: None)
    assert memory.limit() == 8 * GIB


def test_a_run_that_would_take_too_much_is_refused_with_estimate_limit_and_what_to_do() -> None:
    memory.check(8 * GIB, 8 * GIB, tokens=10)
    with pytest.raises(InputError) as refused:
        memory.check(12 * GIB, 8 * GIB, tokens=8192)
    for part in ("8192 tokens", "12.0 GiB", "8.0 GiB", "shorter prompt", "--head 0", "--kernel auto"):
        assert part in str(refused.value)
    assert refused.value.exit_code == 2
    assert "12.0 GiB" in refused.value.text("zh")


@pytest.mark.parametrize("kernel", ["eager", "auto"])
def test_the_pipeline_refuses_before_anything_runs(monkeypatch: pytest.MonkeyPatch, kernel: str) -> None:
    monkeypatch.setattr(memory, "limit", lambda: 1000)
    monkeypatch.setattr(pipeline, "ENGINES", {"transformers": "no.such.module"})
    with pytest.raises(InputError, match="This run was not started"):
        pipeline.trace_layers(None, layers=[0], kernel=kernel)
