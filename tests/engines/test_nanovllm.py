"""The real nano-vllm code on a checkpoint, on a CPU: every number at its expression, nothing of the process changed."""

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from tests.engines.test_transformers import LONG, prompt
from tracer.checkpoint.open import open_checkpoint
from tracer.engines.nanovllm.engine import trace_layer, trace_layers
from tracer.engines.nanovllm.phase import PREFILL, Phase
from tracer.engines.transformers import engine as transformers
from tracer.engines.transformers.engine import Wanted
from tracer.errors import InputError, Unsupported
from tracer.kernels import cpu_flash
from tracer.kernels.choose import choose
from tracer.page.head import head_page
from tracer.records import Choice, LayerTrace, Request, Status, Token
from tracer.render.terminal.render import render
from tracer.render.terminal.screen import Screen
from tracer.result import look_at
from tracer.saved.read import load
from tracer.saved.write import save
from tracer.texts import message
from tracer.vendoring import places

pytestmark = pytest.mark.usefixtures("nano_vllm_files")
_CACHE = Path(tempfile.mkdtemp(prefix="tracer-anchors-"))
STEPS = {"hidden", "cos", "sin", "q_proj", "k_proj", "v_proj", "q_norm", "k_norm", "q_rope", "k_rope", "q", "k", "v"}
STEPS |= {"qkv", "merged", "o_proj"}


def wanted(folder: Path, layer: int, ids: tuple[int, ...], dtype: str, kernel: str = "cpu-flash") -> Wanted:
    chosen = choose(kernel, device="cpu", dtype=dtype, head_dim=open_checkpoint(str(folder)).settings.head_dim)
    why = message("pipeline.engine_default")
    engine, other = Choice("nano-vllm", why), Choice(kernel, why)
    request = Request(
        layer, 1, None, ids, engine, other, Choice("cpu", why), Choice({**LONG, "float64": "F64"}[dtype], why)
    )
    return Wanted(request, chosen, heads=(0, 1), cache=_CACHE)


def run(
    folder: Path, layer: int, ids: tuple[int, ...], dtype: str = "float32", phase: Phase = PREFILL, **asked: Any
) -> LayerTrace:
    tokens = tuple(Token(id, b"", None) for id in ids)
    return trace_layer(open_checkpoint(str(folder)), tokens, wanted(folder, layer, ids, dtype, **asked), phase)


def same_on_transformers(folder: Path, layer: int, ids: tuple[int, ...], dtype: str) -> LayerTrace:
    tokens = tuple(Token(id, b"", None) for id in ids)
    return transformers.trace_layer(open_checkpoint(str(folder)), tokens, wanted(folder, layer, ids, dtype))


def apart(a: LayerTrace, b: LayerTrace, name: str) -> float:
    return float(np.abs(a.captures[name].array.float64() - b.captures[name].array.float64()).max())


@pytest.fixture(scope="module")
def traced(make_checkpoint: Callable[..., Path]) -> LayerTrace:
    return run(make_checkpoint(), 0, prompt(9))


# ------------------------------------------------------------------------------------------- one attention, whole


def test_every_step_is_captured_at_nano_vllm_s_own_place(traced: LayerTrace) -> None:
    assert set(traced.captures) == STEPS
    for capture in traced.captures.values():
        assert len(capture.axes) == len(capture.array.shape)
        assert capture.site.project == "nano-vllm"
        assert capture.site.link_kind == "commit"
    assert traced.captures["q_proj"].site.code == "qkv.split([self.q_size, self.kv_size, self.kv_size], dim=-1)"
    assert traced.captures["qkv"].site.code == "self.qkv_proj(hidden_states)"
    assert traced.captures["q_norm"].site.code == "self.q_norm(q)"
    assert traced.captures["q"].site.scope == "Attention.forward"
    assert traced.kernel.site.code.startswith("flash_attn_varlen_func(q, k, v,")
    assert traced.versions["nano-vllm"] == traced.captures["q"].site.version


def test_packed_projections_are_split_into_what_the_checkpoint_s_own_weights_give(
    make_checkpoint: Callable[..., Path], traced: LayerTrace
) -> None:
    checkpoint = open_checkpoint(str(make_checkpoint()))
    hidden = torch.from_numpy(traced.captures["hidden"].array.float64())
    for name in ("q_proj", "k_proj", "v_proj"):
        full = f"model.layers.0.self_attn.{name}.weight"
        weight = checkpoint.load([full], torch.float64)[full]
        assert np.abs(traced.captures[name].array.float64() - (hidden @ weight.T).numpy()).max() < 1e-5
    parts = [traced.captures[name].array.float64() for name in ("q_proj", "k_proj", "v_proj")]
    assert np.array_equal(traced.captures["qkv"].array.float64(), np.concatenate(parts, axis=-1))


@pytest.mark.parametrize(("language", "between"), [("en", ", split at "), ("zh", "，拆分在 ")])
def test_the_first_step_names_the_product_and_the_split_beside_it(
    traced: LayerTrace, language: str, between: str
) -> None:
    page = render(head_page(look_at(traced, 1), language), Screen(width=120))
    packed, split = (traced.captures[name].site for name in ("qkv", "q_proj"))
    (row,) = [row for row in page.splitlines() if "Q = x·W_qᵀ" in row]
    assert f"{packed.place}{between}{split.span.line}:{split.span.column}" in row
    assert "self.qkv_proj(hidden_states)" in page
    assert "T=9, (H+2K)·D=" in page


def test_captures_hold_what_was_there_before_the_norm_wrote_in_place(traced: LayerTrace) -> None:
    # In float32 its RMSNorm multiplies q inside the packed projection itself.
    q = traced.captures["q_proj"].array.float64()
    q_norm = traced.captures["q_norm"].array.float64().reshape(q.shape)
    assert not np.allclose(q, q_norm)


def test_the_scale_is_one_object_through_both_classes_and_every_hop_is_linked(traced: LayerTrace) -> None:
    assert (traced.scale.value, traced.scale.expression) == (16**-0.5, "self.head_dim ** -0.5")
    assert [hop.binds for hop in traced.scale.hops] == ["self.scaling", "scale=", "self.scale", "softmax_scale="]
    assert all(hop.linked and hop.seen and hop.same_object for hop in traced.scale.hops)


def test_the_causal_flag_is_written_where_the_kernel_is_called(traced: LayerTrace) -> None:
    (hop,) = traced.causal.hops
    assert (hop.site.code, hop.value, hop.binds) == ("True", True, "causal=")


def test_the_call_is_told_by_argument_name_and_nothing_claims_that_flash_attn_ran(traced: LayerTrace) -> None:
    # Public reports: there is no CPU path upstream, and the order of cu_seqlens and max_seqlen in the call was doubted.
    told = traced.kernel.arguments
    assert (told["cu_seqlens_q"], told["cu_seqlens_k"], told["max_seqlen_q"], told["max_seqlen_k"]) == (
        [0, 9], [0, 9], 9, 9,
    )  # fmt: skip
    assert traced.kernel.provider == f"torch {torch.__version__}"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
def test_all_checks_pass_on_any_layer(make_checkpoint: Callable[..., Path], dtype: str) -> None:
    trace = run(make_checkpoint(), 2, prompt(20), dtype)
    failed = [check.id for check in look_at(trace, 1).checks if check.status is not Status.PASS]
    assert failed == []


def test_one_pass_gives_the_same_bits_for_several_layers_as_one_pass_each(make_checkpoint: Callable[..., Path]) -> None:
    folder, ids = make_checkpoint(), prompt(9)
    tokens = tuple(Token(id, b"", None) for id in ids)
    both = trace_layers(open_checkpoint(str(folder)), tokens, wanted(folder, 0, ids, "bfloat16"), (0, 2))
    for trace in both:
        alone = run(folder, trace.request.layer, ids, "bfloat16")
        assert trace.effects.untraced_same
        assert trace.captures["o_proj"].array.same_bits(alone.captures["o_proj"].array)


def test_a_saved_trace_opens_again(traced: LayerTrace, tmp_path: Path) -> None:
    save(look_at(traced, 1), tmp_path / "trace.safetensors")
    again = load(tmp_path / "trace.safetensors")
    assert again.captures["cos"].array.same_bits(traced.captures["cos"].array)


# ---------------------------------------------------------------------------------------------- against transformers


@pytest.mark.parametrize("layer", [0, 1, 2])
@pytest.mark.parametrize(("dtype", "within"), [("float64", 3e-5), ("bfloat16", 0.5)])
def test_in_float64_and_bfloat16_it_agrees_with_transformers(
    make_checkpoint: Callable[..., Path], layer: int, dtype: str, within: float
) -> None:
    folder, ids = make_checkpoint(), prompt(12)
    nano, other = run(folder, layer, ids, dtype), same_on_transformers(folder, layer, ids, dtype)
    size = max(1.0, float(np.abs(other.captures["q"].array.float64()).max()))
    assert max(apart(nano, other, name) for name in "qkv") < within * size / 4


def test_in_float32_it_parts_after_the_first_layer_and_says_so(make_checkpoint: Callable[..., Path]) -> None:
    folder, ids = make_checkpoint(), prompt(12)
    assert (
        max(apart(run(folder, 0, ids), same_on_transformers(folder, 0, ids, "float32"), name) for name in "qkv") < 1e-5
    )
    nano = run(folder, 1, ids)
    assert apart(nano, same_on_transformers(folder, 1, ids, "float32"), "q") > 0.1
    assert "writes into the tensor that is also the residual" in str(nano.warnings[-1])


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_in_other_dtypes_the_residual_is_not_written_and_nothing_is_said(
    make_checkpoint: Callable[..., Path], dtype: str
) -> None:
    assert run(make_checkpoint(), 0, prompt(5), dtype).warnings == ()


# ------------------------------------------------------------------------------------- cached prefix, chunks, decode


@pytest.mark.parametrize("layer", [0, 2])
@pytest.mark.parametrize(
    "phase",
    [
        Phase(cached=5, page=4, order=(3, 0, 2)),  # pages out of order: the block table is read
        Phase(cached=4, page=4),  # a whole page cached, as by its prefix cache
        Phase(cached=5),
        Phase(cached=11, page=4, order=(2, 5, 1)),
    ],
    ids=str,
)
def test_new_tokens_behind_a_cached_prefix_give_the_rows_of_the_whole_prompt(
    make_checkpoint: Callable[..., Path], layer: int, phase: Phase
) -> None:
    folder, ids = make_checkpoint(), prompt(12)
    whole, part = run(folder, layer, ids, "float64"), run(folder, layer, ids, "float64", phase)
    assert part.captures["q"].array.shape == (12 - phase.cached, 6, 16)
    assert part.captures["k"].array.shape == (12, 3, 16)
    assert np.abs(part.captures["k"].array.float64() - whole.captures["k"].array.float64()).max() < 1e-5
    assert np.abs(part.kernel.output.float64() - whole.kernel.output.float64()[phase.cached :]).max() < 1e-5
    assert part.kernel.arguments["cu_seqlens_q"] == [0, 12 - phase.cached]
    assert part.kernel.arguments["cu_seqlens_k"] == [0, 12]
    assert part.kernel.arguments["block_table"] == [list(phase.pages(12))]
    assert not [check.id for check in look_at(part, 1).checks if check.status is Status.FAIL]


@pytest.mark.parametrize("layer", [0, 2])
def test_decode_goes_through_flash_attn_with_kvcache_and_gives_the_last_row(
    make_checkpoint: Callable[..., Path], layer: int
) -> None:
    folder, ids = make_checkpoint(), prompt(12)
    whole = run(folder, layer, ids, "float64")
    decode = run(folder, layer, ids, "float64", Phase(cached=11, decode=True, page=4, order=(2, 3, 0)))
    assert decode.kernel.function == "flash_attn_with_kvcache"
    assert decode.kernel.site.code.startswith("flash_attn_with_kvcache(q.unsqueeze(1), k_cache, v_cache,")
    assert decode.kernel.arguments["cache_seqlens"] == [12]
    assert decode.scale.hops[-1].site.span.line > decode.kernel.site.span.line
    assert np.abs(decode.kernel.output.float64() - whole.kernel.output.float64()[-1:]).max() < 1e-5
    assert not [check.id for check in look_at(decode, 1).checks if check.status is Status.FAIL]


@pytest.mark.parametrize(
    ("phase", "said"),
    [
        (Phase(cached=12), "at least one must be new"),
        (Phase(cached=3, decode=True), "In decode exactly one token is new"),
        (Phase(cached=5, page=4, order=(0, 0, 1)), "needs 3 different pages"),
        (Phase(cached=5, page=4, order=(0, 1)), "the order given is [0, 1]"),
    ],
    ids=str,
)
def test_a_phase_that_cannot_be_is_refused(make_checkpoint: Callable[..., Path], phase: Phase, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        run(make_checkpoint(), 0, prompt(12), phase=phase)


# ------------------------------------------------------------------------ where it departs from the model, and says so


def test_it_passes_no_sliding_window_and_the_check_fails_on_a_sliding_layer(
    make_checkpoint: Callable[..., Path],
) -> None:
    folder = make_checkpoint(use_sliding_window=True, sliding_window=4, max_window_layers=1)
    trace = run(folder, 1, prompt(12), "bfloat16")
    assert "passes no sliding window" in str(trace.warnings[-1])
    assert "causal.weights" in [check.id for check in look_at(trace, 1).checks if check.status is Status.FAIL]


def test_it_drops_yarn_scaling(make_checkpoint: Callable[..., Path]) -> None:
    yarn = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 128}
    trace = run(make_checkpoint(rope_parameters=yarn), 0, prompt(5), "bfloat16")
    assert "this checkpoint's yarn scaling with factor 4.0 is not applied" in str(trace.warnings[-1])


def test_with_attention_bias_it_skips_the_norms_of_q_and_k(make_checkpoint: Callable[..., Path]) -> None:
    trace = run(make_checkpoint(attention_bias=True), 0, prompt(5), "bfloat16")
    assert "q_norm" not in trace.captures
    page = " ".join(render(head_page(look_at(trace, 1), "en"), Screen(width=200)).split())
    assert "RMSNorm(Q) left out by nano-vllm" in page
    assert "! 1 warning" in page.partition("checkpoint")[0]  # beside the verdict
    assert "it skips q_norm and k_norm" in str(trace.warnings[-1])


def test_theta_comes_from_either_form_of_the_config(make_checkpoint: Callable[..., Path], tmp_path: Path) -> None:
    # Public reports: under transformers 5 upstream reads no rope_theta and falls back to a million in silence.
    new = make_checkpoint(rope_parameters={"rope_type": "default", "rope_theta": 5e5})
    old = tmp_path / "old"
    shutil.copytree(new, old)
    config = json.loads((old / "config.json").read_text())
    del config["rope_parameters"]
    (old / "config.json").write_text(json.dumps({**config, "rope_theta": 5e5, "rope_scaling": None}))
    cosines = [run(folder, 0, prompt(9)).captures["cos"].array for folder in (new, old)]
    assert cosines[0].same_bits(cosines[1])
    frequencies = 5e5 ** -(np.arange(8) / 8)
    assert np.allclose(cosines[0].float64()[:, 0], np.cos(np.arange(9)[:, None] * frequencies), atol=1e-6)


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
def test_a_kernel_that_it_never_calls_is_refused(make_checkpoint: Callable[..., Path], kernel: str) -> None:
    with pytest.raises(Unsupported, match="nano-vllm calls flash_attn and nothing else"):
        run(make_checkpoint(), 0, prompt(5), kernel=kernel)


def test_an_activation_that_it_does_not_have_is_refused(make_checkpoint: Callable[..., Path]) -> None:
    with pytest.raises(Unsupported, match="hidden_act is gelu"):
        run(make_checkpoint(hidden_act="gelu"), 0, prompt(5))


# ------------------------------------------------------------------------------------------ what is lent stays private


def _process() -> tuple[Any, ...]:
    names = {name for name in sys.modules if name.split(".")[0] in ("nanovllm", "flash_attn", "triton")}
    return names, torch.compile, torch.distributed.get_world_size, torch.distributed.is_initialized(), list(sys.path)


def test_a_run_leaves_the_process_as_it_was(make_checkpoint: Callable[..., Path]) -> None:
    before = _process()
    run(make_checkpoint(), 0, prompt(5))
    assert _process() == before


def test_a_run_that_fails_leaves_the_process_as_it_was(
    make_checkpoint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("in the middle of the kernel")

    before = _process()
    with monkeypatch.context() as patched:
        patched.setattr(cpu_flash, "_one_sequence", broken)
        with pytest.raises(RuntimeError, match="in the middle of the kernel"):
            run(make_checkpoint(), 1, prompt(5))
    assert _process() == before
    assert run(make_checkpoint(), 0, prompt(5)).effects.untraced_same  # and the next run works


def test_a_real_flash_attn_or_triton_of_the_process_is_neither_used_nor_replaced(
    make_checkpoint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("flash_attn", "triton", "nanovllm"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    before = {name: sys.modules[name] for name in ("flash_attn", "triton", "nanovllm")}
    assert run(make_checkpoint(), 0, prompt(5)).effects.untraced_same
    assert {name: sys.modules[name] for name in before} == before


def test_without_its_files_the_error_names_the_command_that_brings_them(
    make_checkpoint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(places, "default_folder", lambda: tmp_path)
    with pytest.raises(InputError, match="Bring it with: trace vendor sync nano-vllm"):
        run(make_checkpoint(), 0, prompt(5))


def test_files_that_are_not_the_pinned_ones_are_never_run(
    make_checkpoint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    there = places.default_folder()
    shutil.copytree(there / "nano-vllm", tmp_path / "nano-vllm")
    (changed,) = tmp_path.rglob("layernorm.py")
    changed.write_text(changed.read_text().replace("x = x.float()", "x = x.float().clone()"))
    monkeypatch.setattr(places, "default_folder", lambda: tmp_path)
    with pytest.raises(InputError, match=r"layernorm\.py are not the pinned ones"):
        run(make_checkpoint(), 0, prompt(5))
