"""What a trace costs follows what is asked: bytes that are read, what a long prompt keeps, what is run again."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from huggingface_hub import constants

from tests.benchmarks import shapes
from tracer import pipeline
from tracer.checkpoint import hub
from tracer.checkpoint.open import open_checkpoint
from tracer.engines.transformers import engine
from tracer.kernels import cpu_flash
from tracer.maths import criterion
from tracer.records import LayerTrace, Status
from tracer.result import look_at

TINY: dict[str, Any] = {
    **shapes.SHAPES["32B"],
    "vocab_size": 5000,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 5,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 8,
}
ATTENTION = 64 * 32 + 2 * 16 * 32 + 32 * 64 + 2 * 8  # q, k and v, o, and both norms over head_dim
LAYER = ATTENTION + 3 * 48 * 32 + 2 * 32
IDS = (5, 9, 5, 7)  # three different rows


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five layers in several files; only layers 0 to 2 hold numbers."""
    return shapes.write(tmp_path_factory.mktemp("sparse") / "sharded", TINY, layers=range(3), shard=40_000)


def test_the_shapes_are_laid_out_as_transformers_saves_them() -> None:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    with torch.device("meta"):
        model = Qwen3ForCausalLM(Qwen3Config(**TINY))
    assert {name: tuple(p.shape) for name, p in model.named_parameters()} == shapes.tensors(TINY)


@pytest.mark.parametrize(("layer", "numbers"), [(0, ATTENTION + 32), (2, 2 * LAYER + ATTENTION + 32)])
def test_a_layer_reads_its_attention_the_layers_below_and_the_prompts_rows(
    sharded: Path, layer: int, numbers: int
) -> None:
    told: list[tuple[int, int | None]] = []
    pipeline.trace_layers(
        str(sharded), layers=[layer], head=1, heads=[1], tokens=IDS, cost=lambda *cost: told.append(cost)
    )
    stored = sum(int(np.prod(shape)) for shape in shapes.tensors(TINY).values())
    assert told == [(2 * (3 * 32 + numbers), 2 * stored)]


def test_files_of_later_layers_are_never_opened_for_their_tensors(
    sharded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = json.loads((sharded / "model.safetensors.index.json").read_text())["weight_map"]
    opened = open_checkpoint(str(sharded))  # reads every header
    touched: set[Path] = set()
    real = Path.open

    def watched(self: Path, *args: Any, **kwargs: Any) -> Any:
        touched.add(self)
        return real(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", watched)
    monkeypatch.setattr(pipeline, "open_checkpoint", lambda *_, **__: opened)
    pipeline.trace_layers(layers=[0], head=1, heads=[1], tokens=IDS)
    needed = needed_files(index)
    assert {path.name for path in touched if path.suffix == ".safetensors"} == needed
    assert len(needed) < len(set(index.values()))


def needed_files(index: dict[str, str]) -> set[str]:
    """Return the files that hold what layer 0's attention depends on."""
    needed = ("model.embed_tokens.", "model.layers.0.self_attn.", "model.layers.0.input_layernorm.")
    return {file for name, file in index.items() if name.startswith(needed)}


def test_of_a_hub_id_only_the_shards_that_are_needed_come(
    sharded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brought: list[str] = []

    def bring(_name: str, file: str, _revision: str | None) -> Path:
        brought.append(file)
        return Path(shutil.copy(sharded / file, tmp_path / file))

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub, "_ask", lambda _name, file, _revision: "c0ffee" if (sharded / file).is_file() else None)
    monkeypatch.setattr(hub, "_download", bring)
    pipeline.trace_layers("org/large", layers=[0], head=1, heads=[1], tokens=IDS)
    index = json.loads((sharded / "model.safetensors.index.json").read_text())["weight_map"]
    assert {file for file in brought if file.endswith(".safetensors")} == needed_files(index)


def test_verbose_tells_the_bytes(sharded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tracer.cli.main import run

    arguments = ["qwen3", "--checkpoint", str(sharded), "--tokens", "5,9,5,7", "--head", "1", "--verbose"]
    run([*arguments, "--lang", "en"])
    said = capsys.readouterr().err
    assert re.search(rf"Read {2 * (3 * 32 + ATTENTION + 32):,} bytes of weights, of [\d,]+ in the checkpoint", said)
    run([*arguments, "--lang", "zh"])
    assert "字节的权重" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------- long prompts


@pytest.fixture
def short_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that is done for long prompts is done from 20 tokens on."""
    monkeypatch.setattr(engine, "LONG", 20)
    monkeypatch.setattr(criterion, "EAGER_WHOLE", 20)
    monkeypatch.setattr(criterion, "_EAGER_ROWS", (3, 4, 5))


def trace(folder: Path, *, heads: tuple[int, ...] | None = (2,), **asked: Any) -> LayerTrace:
    tokens = [n % 13 for n in range(3, 43)]
    return pipeline.trace_layers(
        str(folder), layers=[1], head=2, heads=heads, tokens=tokens, **{"kernel": "cpu-flash", **asked}
    )[0]


@pytest.mark.usefixtures("short_is_long")
def test_of_a_long_prompt_the_asked_heads_steps_are_kept_and_what_the_kernel_saw(
    make_checkpoint: Callable[..., Path],
) -> None:
    whole, one = trace(make_checkpoint(), heads=None), trace(make_checkpoint())
    part = {
        "q_proj": (..., slice(32, 48)),
        "k_proj": (..., slice(16, 32)),
        "v_proj": (..., slice(16, 32)),
        "q_norm": (slice(None), slice(None), 2),
        "k_norm": (slice(None), slice(None), 1),
        "q_rope": (slice(None), 2),
        "k_rope": (slice(None), 1),
    }
    for name, index in part.items():
        assert one.captures[name].axes == ("B", "T", "D")
        assert one.captures[name].array.same_bits(whole.captures[name].array[index]), name
    for name in ("hidden", "o_proj", "q", "k", "v", "cos", "sin"):
        assert one.captures[name].array.same_bits(whole.captures[name].array), name
    assert set(whole.captures) - set(one.captures) == {"merged"}
    assert one.kernel.output.same_bits(whole.kernel.output)


@pytest.mark.usefixtures("short_is_long")
def test_the_page_and_the_json_say_which_head_of_a_long_prompt_is_kept_and_why(
    make_checkpoint: Callable[..., Path],
) -> None:
    from tracer.render.json import to_json

    traced = trace(make_checkpoint())
    assert [warning.text("en") for warning in traced.warnings if warning.id == "engine.one_head"] == [
        "This prompt is long (40 tokens, more than 20), and one head was asked for: so that memory and time follow "
        "what is asked, the steps before the kernel are kept of head 2 and its KV head 1 alone, and what is run again "
        "computes head 2 alone. What the kernel was given and gave is kept of all 6 heads. Leave out --head to keep "
        "every step of every head."
    ]
    shown = to_json(look_at(traced, 2), "zh")["warnings"]
    assert any("只保留头 2 和它读取的 KV 头 1" in sentence for sentence in shown)
    whole = trace(make_checkpoint(), heads=None)
    assert not any(warning.id == "engine.one_head" for warning in whole.warnings)


@pytest.mark.usefixtures("short_is_long")
def test_a_long_prompt_is_run_again_for_the_asked_head_alone(
    make_checkpoint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    heads: list[int] = []
    real = cpu_flash._kernel

    def counted(q: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        heads.append(q.shape[1])
        return real(q, *args, **kwargs)

    monkeypatch.setattr(cpu_flash, "_kernel", counted)
    found = trace(make_checkpoint())
    assert heads == [6, 6, 1, 1, 1, 1]  # two layers, then: untraced, and three changed positions
    assert found.effects.untraced_same
    assert found.effects.changed == ((1, None, True), (20, None, True), (39, None, True))


@pytest.mark.usefixtures("short_is_long")
def test_a_kernel_that_gives_other_bits_when_run_again_is_found(
    make_checkpoint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = cpu_flash._kernel

    def drifting(q: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        out, lse = real(q, *args, **kwargs)
        return (out * 1.0001, lse) if q.shape[1] == 1 else (out, lse)

    monkeypatch.setattr(cpu_flash, "_kernel", drifting)
    traced = trace(make_checkpoint())
    assert not traced.effects.untraced_same
    failed = [check.id for check in look_at(traced, 2).checks if check.status is Status.FAIL]
    assert failed == ["run.bits"]


@pytest.mark.usefixtures("short_is_long")
def test_a_kernel_that_is_not_causal_is_found(
    make_checkpoint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = cpu_flash._kernel
    monkeypatch.setattr(cpu_flash, "_kernel", lambda *args, **kwargs: real(*args, **{**kwargs, "causal": False}))
    traced = trace(make_checkpoint())
    assert all(earlier == 0 for _, earlier, _ in traced.effects.changed)
    assert {"causal.effect", "causal.weights"} <= {
        check.id for check in look_at(traced, 2).checks if check.status is Status.FAIL
    }


@pytest.mark.usefixtures("short_is_long")
def test_plain_products_of_a_long_prompt_are_computed_for_the_rows_that_decide(
    make_checkpoint: Callable[..., Path],
) -> None:
    traced = trace(make_checkpoint())
    output = traced.kernel.output[:, 2].float64()
    rows = criterion.eager_rows(output)
    assert {0, 1, 2, 39} <= set(rows.tolist())
    assert np.abs(output).max(axis=1).argmax() in rows
    computed = np.flatnonzero(traced.effects.eager.float64()[:, 0].any(axis=1))
    assert computed.tolist() == rows.tolist()
    check = next(check for check in look_at(traced, 2).checks if check.id == "kernel.output")
    assert check.status is Status.PASS
    assert f"gets for {len(rows)} rows" in check.reason.text("en")


@pytest.mark.usefixtures("short_is_long")
def test_a_fault_outside_those_rows_is_found_too(make_checkpoint: Callable[..., Path]) -> None:
    traced = trace(make_checkpoint())
    missed = sorted(set(range(40)) - set(criterion.eager_rows(traced.kernel.output[:, 2].float64()).tolist()))
    bits = np.array(traced.kernel.output.bits)
    bits[missed[0], 2, 5] += 0.01
    wrong = replace(traced, kernel=replace(traced.kernel, output=replace(traced.kernel.output, bits=bits)))
    check = next(check for check in look_at(wrong, 2).checks if check.id == "kernel.output")
    assert check.status is Status.FAIL


@pytest.mark.usefixtures("short_is_long")
@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
def test_other_kernels_keep_every_head(make_checkpoint: Callable[..., Path], kernel: str) -> None:
    traced = trace(make_checkpoint(), kernel=kernel)
    assert "merged" in traced.captures
    assert traced.captures["q_proj"].array.shape == (1, 40, 96)


@pytest.mark.usefixtures("short_is_long")
@pytest.mark.parametrize("form", ["terminal", "json", "html"])
def test_every_form_of_the_answer_shows_such_a_trace(
    make_checkpoint: Callable[..., Path], tmp_path: Path, form: str
) -> None:
    from tracer.cli.main import run

    answer = tmp_path / "answer"
    arguments = ["qwen3", "--checkpoint", str(make_checkpoint()), "--layer", "1", "--head", "2", "--format", form]
    tokens = ",".join(str(n % 13) for n in range(40))
    assert run([*arguments, "--tokens", tokens, "--kernel", "cpu-flash", "-o", str(answer)]) == 0
    assert answer.stat().st_size > 1000


def test_of_a_short_prompt_nothing_is_left_out(make_checkpoint: Callable[..., Path]) -> None:
    assert trace(make_checkpoint()).captures["q_proj"].array.shape == (1, 40, 96)
