"""A model split over processes or spread over devices: the same trace, and where each head and layer lies."""

import importlib.util
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

from tracer import data, pipeline
from tracer.arrays import Array
from tracer.checkpoint.open import open_checkpoint
from tracer.cli.app import ROOT
from tracer.engines.transformers import loading, parallel, spreading
from tracer.engines.transformers.engine import Wanted
from tracer.engines.transformers.placement import Placement
from tracer.engines.transformers.ranks import Ranks, ranks_of
from tracer.errors import InputError, Unsupported
from tracer.kernels.choose import choose
from tracer.records import Effects, LayerTrace
from tracer.result import look_at
from tracer.saved.read import load
from tracer.texts import message

TINY = data.shipped_checkpoint("qwen3-tiny")  # 8 query heads over 4 key/value heads
TORCHRUN = {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
needs_accelerate = pytest.mark.skipif(
    importlib.util.find_spec("accelerate") is None and not os.environ.get("CI"),
    reason="transformers places models with accelerate, which is not installed",
)


@pytest.fixture(scope="module")
def alone() -> LayerTrace:
    return pipeline.trace_layers(layers=[1], head=5, kernel="cpu-flash")[0]


# ------------------------------------------------------------------------------------------------ what torchrun says


def test_torchrun_says_which_of_the_processes_this_is() -> None:
    assert ranks_of(TORCHRUN) == Ranks(rank=1, count=2, local=1)


@pytest.mark.parametrize("environment", [{}, {"WORLD_SIZE": "1", "RANK": "0"}, {"WORLD_SIZE": ""}])
def test_a_process_on_its_own(environment: dict[str, str]) -> None:
    assert ranks_of(environment) is None


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"MASTER_ADDR": "", "RANK": ""}, "RANK, MASTER_ADDR"),
        ({"RANK": "x"}, "RANK=x"),
        ({"RANK": "2"}, "RANK=2"),
        ({"WORLD_SIZE": "many"}, "WORLD_SIZE=many"),
    ],
)
def test_half_of_what_torchrun_sets_is_refused(changed: dict[str, str], named: str) -> None:
    with pytest.raises(InputError) as caught:
        ranks_of({**TORCHRUN, **changed})
    count = changed.get("WORLD_SIZE", "2")
    assert str(caught.value) == (
        f"WORLD_SIZE says that {count} processes belong together, but what torchrun sets for each of them is not all "
        f"there: {named}. Start them with torchrun --nproc-per-node {count} -m tracer …, or unset WORLD_SIZE to run "
        "alone."
    )


def test_heads_are_dealt_out_in_order() -> None:
    ranks = Ranks(1, 2, 1)
    assert (ranks.share(8), ranks.share(4), ranks.share(8, 0)) == (range(4, 8), range(2, 4), range(4))
    assert [ranks.owner(head, 8) for head in range(8)] == [0] * 4 + [1] * 4


# ----------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("placement", "asked", "sentence"),
    [
        (Placement("auto", Ranks(0, 2, 0)), {}, "one run cannot do both"),
        (Placement("auto"), {"device": "cpu"}, "--device cpu names one device"),
        (Placement("auto"), {"engine": "nano-vllm"}, "--device-map auto works with transformers as it is installed"),
        (Placement(ranks=Ranks(0, 2, 0)), {"engine": "transformers@5.16.1"}, "torchrun works with transformers as it"),
    ],
)
def test_what_contradicts_itself(placement: Placement, asked: dict[str, str], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        pipeline.trace_layers(layers=[0], placement=placement, **asked)


def test_heads_that_cannot_be_dealt_out_evenly() -> None:
    with pytest.raises(InputError) as caught:
        parallel.check_split(open_checkpoint(None).model_facts(0), Ranks(0, 3, 0))
    assert str(caught.value) == (
        "This model's 4 key/value heads cannot be dealt out evenly to 3 processes, and transformers' tensor-parallel "
        "plan would cut heads in two. Start a number of processes that divides 4: 2, 4."
    )


def test_a_kernel_of_the_cpu_cannot_follow_a_model_to_another_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "accelerator", lambda: "cuda")
    with pytest.raises(Unsupported, match=r"puts the model on cuda, and the kernel cpu-flash runs on the CPU only"):
        pipeline.trace_layers(layers=[0], placement=Placement("auto"))


@pytest.mark.parametrize("placement", [Placement("auto"), Placement(ranks=Ranks(0, 2, 0))])
def test_without_accelerate_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch, placement: Placement) -> None:
    monkeypatch.setattr(loading, "accelerator", lambda: "xpu" if placement.device_map else None)
    monkeypatch.setattr(loading, "has_accelerate", lambda: False)
    monkeypatch.setattr(Placement, "check_kernel", lambda *_: None)
    with pytest.raises(Unsupported, match="pip install accelerate"):
        pipeline.trace_layers(layers=[0], kernel="sdpa", placement=placement)


def test_a_run_over_several_processes_counts_its_weights() -> None:
    opened = open_checkpoint(None)
    stored = opened.bytes_stored
    assert stored is not None
    split = Placement(ranks=Ranks(0, 2, 0)).weight_bytes(opened, opened.settings.layers - 1, "F32")
    embedding = 4 * opened.settings.vocab_size * opened.settings.hidden_size
    norm = 4 * opened.settings.hidden_size
    assert split == stored + embedding - norm


# ---------------------------------------------------------------------------------------- from parts to a whole


def part(whole: LayerTrace, rank: int) -> LayerTrace:
    """What one of two ranks would have traced."""
    heads, kv_heads = slice(4 * rank, 4 * rank + 4), slice(2 * rank, 2 * rank + 2)
    size = whole.model.head_dim
    cuts = {
        "H": heads,
        "K": kv_heads,
        "H·D": slice(heads.start * size, heads.stop * size),
        "K·D": slice(kv_heads.start * size, kv_heads.stop * size),
    }
    captures = {
        name: replace(capture, array=capture.array[tuple(cuts.get(axis, slice(None)) for axis in capture.axes)])
        for name, capture in whole.captures.items()
    }
    assert whole.kernel.lse is not None
    kernel = replace(whole.kernel, output=whole.kernel.output[:, heads], lse=whole.kernel.lse[heads])
    effects = replace(whole.effects, eager=whole.effects.eager[:, heads], eager_heads=(0, 1, 2, 3))
    return replace(whole, captures=captures, kernel=kernel, effects=effects)


def test_the_ranks_parts_make_the_whole(alone: LayerTrace) -> None:
    joined = parallel.join([part(alone, 0), part(alone, 1)], Ranks(0, 2, 0))
    for name, capture in alone.captures.items():
        assert joined.captures[name].array.same_bits(capture.array), name
    assert joined.kernel.output.same_bits(alone.kernel.output)
    assert joined.kernel.lse is not None
    assert alone.kernel.lse is not None
    assert joined.kernel.lse.same_bits(alone.kernel.lse)
    assert joined.effects.eager.same_bits(alone.effects.eager)
    assert joined.effects.eager_heads == tuple(range(8))


def test_the_page_says_where_each_head_lives(alone: LayerTrace) -> None:
    joined = parallel.join([part(alone, 0), part(alone, 1)], Ranks(0, 2, 0))
    said = [warning.text("en") for warning in joined.warnings]
    assert said == [
        "Every layer is split over 2 processes (ranks) by transformers' own tensor-parallel plan: each holds 4 query "
        "heads and 2 key/value heads, in order. Each traced its own; rank 0 put them together and made this page.",
        "Head 5 lives on rank 1 (of ranks 0–1), which holds heads 4–7: there it is local head 1, and its KV head 2 is "
        "local KV head 0.",
    ]
    assert "头 5 位于 rank 1（共有 rank 0–1）" in joined.warnings[1].text("zh")


def test_where_no_head_was_asked_for_the_page_says_which_heads_lie_where(alone: LayerTrace) -> None:
    _, where = parallel.placement(alone.model, 0, Ranks(0, 2, 0), every=True)
    assert where.text("en") == "Which heads lie where: rank 0: 0–3 (KV 0–1); rank 1: 4–7 (KV 2–3)."
    assert where.text("zh") == "各头所在位置：rank 0: 0–3 (KV 0–1); rank 1: 4–7 (KV 2–3)。"


@pytest.mark.parametrize("command", ["verify", "compare", "lint", "show"])
def test_what_is_for_one_process_is_refused_under_torchrun(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError) as refused:
        ROOT.resolve_command(click.Context(ROOT), [command])
    assert refused.value.text("en").startswith(f"trace {command} runs in one process, and torchrun started 2")


def test_what_ran_again_is_told_of_all_ranks_together(alone: LayerTrace) -> None:
    def saw(trace: LayerTrace, **seen: Any) -> LayerTrace:
        return replace(trace, effects=Effects(**{**vars(trace.effects), **seen}))

    one = saw(part(alone, 0), changed=((1, None, True), (8, 3, False)))
    two = saw(part(alone, 1), changed=((1, 0, False), (8, 2, True)), untraced_same=False)
    joined = parallel.join([one, two], Ranks(0, 2, 0))
    assert joined.effects.changed == ((1, 0, True), (8, 2, True))
    assert not joined.effects.untraced_same


@pytest.mark.parametrize("what", ["hidden", "flash_attn_varlen_func"])
def test_ranks_that_did_not_compute_the_same_are_refused(alone: LayerTrace, what: str) -> None:
    one, two = part(alone, 0), part(alone, 1)
    if what == "hidden":
        bits = np.array(two.captures["hidden"].array.bits)
        bits[0, 3, 7] += 1
        hidden = replace(two.captures["hidden"], array=Array("F32", bits))
        two = replace(two, captures={**two.captures, "hidden": hidden})
    else:
        two = replace(two, kernel=replace(two.kernel, arguments={**two.kernel.arguments, "causal": False}))
    with pytest.raises(Unsupported, match=f"did not compute the same: {what}, which each of them holds whole"):
        parallel.join([one, two], Ranks(0, 2, 0))


# -------------------------------------------------------------------------------------------- two real processes

PROGRAM = """
import sys
from pathlib import Path
from tracer.cli.main import run
folder = Path(sys.argv[1])
arguments = ["qwen3", "--layer", "1", "--head", "5", "--lang", "en", "--save", str(folder / "saved.safetensors")]
code = run([*arguments, "--format", "json", "-o", str(folder / "page.json"), "--kernel", "sdpa"])
assert code == 0, code

import torch
from torch import distributed
from transformers import Qwen3Model
from transformers.distributed.configuration_utils import DistributedConfig
plan = DistributedConfig(tp_plan="auto")
distributed.init_process_group(init_method=f"file://{folder}/meet", rank=int(sys.argv[2]), world_size=2)
model = Qwen3Model.from_pretrained(sys.argv[3], distributed_config=plan, attn_implementation="sdpa", dtype="auto")
kept = {}
model.layers[1].self_attn.register_forward_hook(lambda m, a, out: kept.update(o_proj=out[0]))
model.layers[1].self_attn.q_norm.register_forward_hook(lambda m, a, out: kept.update(q_norm=out))
with torch.no_grad():
    model(torch.tensor([[int(id) for id in sys.argv[4].split(",")]]), use_cache=False)
torch.save(kept, folder / f"untraced-{sys.argv[2]}.pt")
distributed.destroy_process_group()
"""


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory, alone: LayerTrace) -> tuple[Path, list[str]]:
    """Return the folder that two gloo processes on the CPU wrote into, and what each of them said."""
    folder = tmp_path_factory.mktemp("ranks")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ids = ",".join(str(id) for id in alone.request.token_ids)
    common = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    common |= {"OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1", "CUDA_VISIBLE_DEVICES": ""}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(folder), str(rank), str(TINY), ids],
            env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=Path(__file__).resolve().parents[2],
        )
        for rank in range(2)
    ]
    try:
        said = [process.communicate(timeout=120)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], "\n".join(said)
    return folder, said


@needs_accelerate
def test_two_ranks_trace_what_one_process_does(two_ranks: tuple[Path, list[str]], alone: LayerTrace) -> None:
    saved = load(two_ranks[0] / "saved.safetensors")
    assert set(saved.captures) == set(alone.captures)
    for name, capture in alone.captures.items():
        found = saved.captures[name].array
        assert found.shape == capture.array.shape, name
        assert np.abs(found.float64() - capture.array.float64()).max() < 1e-4, name
    for head in range(8):
        assert look_at(saved, head).exit_code == 0


@needs_accelerate
def test_two_ranks_give_the_bits_of_an_untraced_run_over_two_ranks(two_ranks: tuple[Path, list[str]]) -> None:
    import torch

    folder, _ = two_ranks
    saved = load(folder / "saved.safetensors")
    kept = [torch.load(folder / f"untraced-{rank}.pt") for rank in range(2)]
    heads = np.concatenate([one["q_norm"].numpy() for one in kept], axis=2)
    assert saved.captures["q_norm"].array.same_bits(Array("F32", heads))
    for one in kept:
        assert saved.captures["o_proj"].array.same_bits(Array("F32", one["o_proj"].numpy()))


@needs_accelerate
def test_rank_0_alone_speaks_and_says_where_the_head_lives(two_ranks: tuple[Path, list[str]]) -> None:
    folder, said = two_ranks
    page = json.loads((folder / "page.json").read_text(encoding="utf-8"))
    assert page["request"]["device"]["reason"] == message("parallel.device", count=2).text("en")
    assert any(warning.startswith("Head 5 lives on rank 1") for warning in page["warnings"])
    assert {check["status"] for check in page["checks"]} <= {"pass", "not_testable"}
    assert "page.json" in said[0]
    assert "page.json" not in said[1]


# ------------------------------------------------------------------------------------------------ over devices


def test_on_a_machine_with_nothing_but_a_cpu_the_layers_lie_there(alone: LayerTrace) -> None:
    found = pipeline.trace_layers(layers=[1], head=5, kernel="cpu-flash", placement=Placement("auto"))[0]
    sentence = found.warnings[0].text("en")
    assert sentence.startswith("--device-map auto: torch finds no device but the CPU")
    assert sentence.endswith("Where the layers lie: 0–2 → cpu.")
    assert (found.request.device.value, found.request.device.reason) == ("cpu", found.warnings[0])
    assert found.captures["o_proj"].array.same_bits(alone.captures["o_proj"].array)


def wanted(kernel: str) -> Wanted:
    """Return the order for layer 1 of the shipped checkpoint, head 5."""
    chosen = choose(kernel, device="cpu", dtype="float32", head_dim=32)
    request = pipeline.trace_layers(layers=[1], head=5, kernel=kernel)[0].request
    return Wanted(request, chosen, (5,))


@needs_accelerate
@pytest.mark.parametrize("kernel", ["cpu-flash", "sdpa"])
def test_a_model_spread_by_transformers_gives_the_same_bits_and_says_where_each_layer_lies(
    kernel: str, alone: LayerTrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Callable[..., Any] = loading.load
    monkeypatch.setattr(loading, "load", lambda *args, **placed: real(*args, **placed, offload_folder=str(tmp_path)))
    opened = open_checkpoint(None)
    names = ("model.embed_tokens", "model.norm", "model.rotary_emb", "lm_head", "model.layers.0", "model.layers.2")
    device_map = {**dict.fromkeys(names, "cpu"), "model.layers.1": "disk"}
    tokens = opened.tokens(alone.request.token_ids)
    (found,) = spreading.trace_layers(opened, tokens, wanted(kernel), [1], device_map)
    assert found.warnings[0].text("en") == (
        "--device-map auto, as transformers spreads this model. Where the layers lie: 0 → cpu, 1 → disk, 2 → cpu."
    )
    assert found.request.device.value == "cpu"
    if kernel == "cpu-flash":
        assert found.captures["o_proj"].array.same_bits(alone.captures["o_proj"].array)
    assert look_at(found, 5).exit_code == 0


@needs_accelerate
def test_a_model_too_large_for_all_devices_is_refused(alone: LayerTrace) -> None:
    opened = open_checkpoint(None)
    tokens = opened.tokens(alone.request.token_ids)
    with pytest.raises(Unsupported, match=r"could not place the whole model: .*Leave out --device-map"):
        spreading.trace_layers(opened, tokens, wanted("sdpa"), [1], {"": "disk"})
