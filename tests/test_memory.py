"""What a run would take is told before it starts, and refused where that is too much."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks import shapes
from tests.invented_trace import invented
from tracer import memory, pipeline
from tracer.checkpoint.open import open_checkpoint
from tracer.engines.transformers import engine, streaming
from tracer.errors import InputError
from tracer.pipeline import STREAMED
from tracer.records import LayerTrace

GIB = 1 << 30
MODEL = invented().model


@pytest.mark.parametrize(
    ("heads", "short", "long"), [(1, 0.25, 4), (16, 4, 64), (28 * 16, 112, 1792)], ids=["one", "a layer", "all layers"]
)
def test_scores_in_float32_grow_with_the_square_of_the_prompt(heads: int, short: float, long: float) -> None:
    assert memory.score_bytes(heads, 8192, 4) == short * GIB
    assert memory.score_bytes(heads, 32768, 4) == long * GIB


ASKED: dict[str, Any] = {
    "tokens": 4096,
    "layers": 1,
    "dtype": "F32",
    "kernel": "sdpa",
    "heads": 1,
    "alone": False,
    "inner": 0,
}


def test_it_grows_with_the_prompt_only() -> None:
    told = [memory.needed(MODEL, **{**ASKED, "tokens": tokens}) for tokens in (0, 4096, 32768)]
    assert told[2] - told[0] == 8 * (told[1] - told[0])


def test_eager_holds_six_sets_of_scores_for_one_layer_and_keeps_one_for_each_more() -> None:
    def eager(layers: int) -> int:
        eager, sdpa = (memory.needed(MODEL, **{**ASKED, "layers": layers, "kernel": it}) for it in ("eager", "sdpa"))
        return eager - sdpa

    assert eager(1) == 6 * memory.score_bytes(MODEL.heads, 4096, 4)
    assert eager(2) == 7 * memory.score_bytes(MODEL.heads, 4096, 4)


def test_one_head_alone_takes_less_than_all() -> None:
    assert memory.needed(MODEL, **{**ASKED, "alone": True}) < memory.needed(MODEL, **ASKED)


def test_a_layer_that_runs_to_its_end_holds_its_mlp() -> None:
    wide = memory.needed(MODEL, **{**ASKED, "inner": 10_000})
    assert wide - memory.needed(MODEL, **{**ASKED, "inner": 5_000}) == 4 * 5_000 * 4096 * 4


@pytest.mark.parametrize(("dtype", "times"), [("F64", 4), ("F32", 2), ("BF16", 1), ("F16", 1)])
def test_the_dtype_counts(dtype: str, times: int) -> None:
    wider = replace(MODEL, hidden_size=MODEL.hidden_size + 1)
    more, less = (memory.needed(model, **{**ASKED, "dtype": dtype}) for model in (wider, MODEL))
    assert more - less == times * 2 * 4096 * (2 + 5)  # two hidden states that are kept, and five while it runs


# ----------------------------------------------------------------------- what is told, against what a run really keeps


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two small layers with the heads of 32B: eight query heads share one key/value head."""
    small = {"vocab_size": 50, "hidden_size": 160, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 16}
    return shapes.write(tmp_path_factory.mktemp("memory") / "m", {**shapes.SHAPES["32B"], **small, **heads})


def kept(trace: LayerTrace) -> int:
    """What a trace keeps, each memory that is shared counted once."""
    arrays = [each.array for each in trace.captures.values()] + [trace.kernel.output, trace.effects.eager]
    arrays += [trace.kernel.lse] if trace.kernel.lse is not None else []
    return sum({each.bits.__array_interface__["data"][0]: each.bits.nbytes for each in arrays}.values())


@pytest.mark.parametrize("tokens", [60, 200], ids=["short", "long"])
@pytest.mark.parametrize("heads", [[2], None], ids=["one", "all"])
@pytest.mark.parametrize("kernel", ["cpu-flash", "sdpa", "eager"])
def test_what_is_told_is_what_a_run_keeps(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tokens: int, heads: list[int] | None, kernel: str
) -> None:
    told: list[int] = []
    each: list[int] = []
    real = memory.kept_bytes

    def kept_bytes(*args: Any, **asked: Any) -> int:
        each.append(real(*args, **asked))
        return each[-1]

    monkeypatch.setattr(memory, "kept_bytes", kept_bytes)
    monkeypatch.setattr(memory, "check", lambda needed, *_: told.append(needed))
    monkeypatch.setattr(engine, "LONG", 100)
    asked: dict[str, Any] = {"tokens": [n % 13 for n in range(tokens)], "kernel": kernel}
    traces = pipeline.trace_layers(str(folder), layers=[0, 1], head=2, heads=heads, **asked)
    assert ("merged" not in traces[0].captures) == (tokens > 100 and heads == [2] and kernel == "cpu-flash")
    assert told[0] >= sum(kept(trace) for trace in traces)
    for trace in traces:
        assert 0.9 * each[0] <= kept(trace) <= each[0]  # a bound, and no loose one


def test_the_weights_of_one_layer_are_counted_and_no_more(folder: Path) -> None:
    opened = open_checkpoint(str(folder))
    attention = 160 + 2 * 16 * 16 * 160 + 2 * 2 * 16 * 160 + 2 * 16
    assert STREAMED.weight_bytes(opened, 0, "BF16") == 2 * attention
    assert STREAMED.weight_bytes(opened, 1, "BF16") == 2 * (attention + 160 + 3 * 64 * 160)


def test_one_layer_at_a_time_is_in_memory_however_many_are_asked_for(
    make_checkpoint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Any] = []
    real = streaming.build

    def build(*args: Any) -> Any:
        built.append(real(*args))
        return built[0]

    monkeypatch.setattr(streaming, "build", build)

    def filled() -> list[int]:
        return [index for index, layer in enumerate(built[0].layers) if any(not p.is_meta for p in layer.parameters())]

    seen: list[list[int]] = []
    folder = make_checkpoint()
    pipeline.trace_layers(str(folder), layers=[0, 1, 2], tokens=[5, 7, 9], progress=lambda *_: seen.append(filled()))
    assert seen == [[0], [1], [2]]


# ------------------------------------------------------------------------------------------------ what may be taken


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
