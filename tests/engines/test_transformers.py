"""The real Qwen3 code on a checkpoint: the same bits as without tracing, and every number at its expression."""

import dataclasses
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.conftest import random_model
from tracer.checkpoint.open import open_checkpoint
from tracer.checks.reference import reference
from tracer.checks.suite import run_checks
from tracer.engines.arrays import to_array
from tracer.engines.transformers.effects import same_bits
from tracer.engines.transformers.engine import Wanted, trace_layer, trace_layers
from tracer.kernels.choose import choose
from tracer.records import Choice, LayerTrace, Request, Status, Token
from tracer.texts import message

_CACHE = Path(
    tempfile.mkdtemp(prefix="tracer-anchors-")
)  # finding the anchors anew for each run would cost half a second
LONG = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}
CAPTURED = {"hidden", "cos", "sin", "q_proj", "k_proj", "v_proj", "q_norm", "k_norm", "q_rope", "k_rope", "q", "k", "v"}
CAPTURED |= {"merged", "o_proj"}


def run(
    folder: Path, layer: int, ids: tuple[int, ...], *, kernel: str = "cpu-flash", dtype: str = "float32"
) -> LayerTrace:
    checkpoint = open_checkpoint(str(folder))
    chosen = choose(kernel, device="cpu", dtype=dtype, head_dim=checkpoint.model_facts(0).head_dim)
    why = Choice("", message("pipeline.engine_default"))
    request = Request(layer, 1, None, ids, why, why, why, Choice(LONG[dtype], why.reason))
    tokens = tuple(Token(id, b"", None) for id in ids)
    return trace_layer(checkpoint, tokens, Wanted(request, chosen, heads=(0, 1), cache=_CACHE))


def prompt(length: int, seed: int = 3) -> tuple[int, ...]:
    return tuple(torch.randint(0, 97, (length,), generator=torch.Generator().manual_seed(seed)).tolist())


def untraced(model: Any, implementation: str, layer: int, ids: tuple[int, ...]) -> torch.Tensor:
    """Return layer ``layer``'s attention output [1, T, C] in a plain forward pass of the whole model."""
    model.config._attn_implementation = implementation
    kept: list[torch.Tensor] = []
    hook = model.model.layers[layer].self_attn.register_forward_hook(lambda _m, _a, out: kept.append(out[0].clone()))
    with torch.no_grad():
        model(torch.tensor([ids]), use_cache=False)
    hook.remove()
    return kept[0]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("length", [1, 7, 64])
@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
def test_a_traced_layer_gives_the_bits_of_the_whole_untraced_model(
    make_checkpoint: Callable[..., Path], dtype: str, length: int, kernel: str
) -> None:
    ids = prompt(length)
    trace = run(make_checkpoint(dtype), 2, ids, kernel=kernel, dtype=dtype)
    plain = untraced(random_model(dtype), kernel, 2, ids)
    assert trace.captures["o_proj"].array.same_bits(to_array(plain))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("length", [1, 7, 64])
def test_on_the_lent_kernel_an_untraced_run_gives_the_same_bits_and_eager_agrees(
    make_checkpoint: Callable[..., Path], dtype: str, length: int
) -> None:
    ids = prompt(length)
    trace = run(make_checkpoint(dtype), 1, ids, dtype=dtype)
    assert trace.effects.untraced_same
    eager = untraced(random_model(dtype), "eager", 1, ids).double().numpy()
    tolerance = {"float32": 2e-6, "bfloat16": 0.1, "float16": 0.02}[dtype] * max(1.0, np.abs(eager).max())
    assert np.abs(trace.captures["o_proj"].array.float64() - eager).max() <= tolerance


@pytest.fixture(scope="module")
def flash(make_checkpoint: Callable[..., Path]) -> LayerTrace:
    return run(make_checkpoint(), 1, prompt(9))


def test_every_step_is_captured_with_shape_axes_and_its_own_expression(flash: LayerTrace) -> None:
    assert set(flash.captures) == CAPTURED
    for capture in flash.captures.values():
        assert len(capture.axes) == len(capture.array.shape)
    assert flash.captures["q_norm"].array.shape == (1, 9, 6, 16)
    assert flash.captures["k"].array.shape == (9, 3, 16)
    assert flash.captures["q_norm"].site.code == "self.q_norm(self.q_proj(hidden_states).view(hidden_shape))"
    assert flash.captures["q"].site.scope == "_flash_attention_forward"
    assert flash.kernel.output.shape == (9, 6, 16)
    assert flash.kernel.lse is not None
    assert flash.kernel.lse.shape == (6, 9)


def test_what_the_kernel_is_given_is_what_rope_made(flash: LayerTrace) -> None:
    rotated = flash.captures["q_rope"].array[0]
    assert np.array_equal(flash.captures["q"].array.bits, rotated.bits.transpose(1, 0, 2))


def test_the_kernel_call_is_told_by_argument_name(flash: LayerTrace) -> None:
    told = flash.kernel.arguments
    assert flash.kernel.function == "flash_attn_varlen_func"
    assert (told["cu_seqlens_q"], told["max_seqlen_k"], told["causal"]) == ([0, 9], 9, True)
    assert told["softmax_scale"] == 16**-0.5
    called = " ".join(flash.kernel.site.code.split())
    assert "flash_varlen_fn(" in called
    assert "cu_seqlens_q=cu_seq_lens_q, cu_seqlens_k=cu_seq_lens_k, **flash_kwargs" in called


def test_the_scale_is_one_object_from_its_definition_to_the_kernel(flash: LayerTrace) -> None:
    assert (flash.scale.value, flash.scale.expression) == (0.25, "self.head_dim**-0.5")
    assert [hop.same_object for hop in flash.scale.hops] == [True] * 6
    assert all(hop.seen and hop.value == 0.25 for hop in flash.scale.hops)


def test_the_causal_flag_is_followed_by_its_value_because_true_is_a_single_object(flash: LayerTrace) -> None:
    assert flash.causal.value is True
    assert all(hop.seen and hop.value is True and hop.same_object is None for hop in flash.causal.hops)


def test_changing_a_position_moves_no_row_before_it(flash: LayerTrace) -> None:
    assert [t for t, _, _ in flash.effects.changed] == [1, 4, 8]
    assert all(earlier is None and moved for _, earlier, moved in flash.effects.changed)


def test_nan_is_the_same_nan_and_a_zeros_sign_is_a_difference() -> None:
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        x = torch.tensor([torch.nan, torch.inf, 0.0], dtype=dtype)
        assert same_bits(x, x.clone())
        assert not same_bits(x, torch.tensor([torch.nan, torch.inf, -0.0], dtype=dtype))
        assert not same_bits(x, torch.tensor([1.0, torch.inf, 0.0], dtype=dtype))
    assert not same_bits(torch.zeros(2), torch.zeros(2, dtype=torch.float64))
    assert not same_bits(torch.zeros(2), torch.zeros(1))


def test_the_eager_paths_overflow_in_float16_is_no_other_bits_and_no_leak(
    make_checkpoint: Callable[..., Path], tmp_path: Path
) -> None:
    folder = tmp_path / "loud"
    shutil.copytree(make_checkpoint("float32"), folder)
    weights = load_file(folder / "model.safetensors")
    loud = {name: w * 130 if "q_norm" in name or "k_norm" in name else w for name, w in weights.items()}
    save_file(loud, folder / "model.safetensors", metadata={"format": "pt"})
    trace = run(folder, 0, prompt(9), kernel="eager", dtype="float16")
    asked = dataclasses.replace(trace.request, kernel=dataclasses.replace(trace.request.kernel, value="eager"))
    trace = dataclasses.replace(trace, request=asked)
    assert np.isnan(trace.kernel.output.float64()).any()
    assert trace.effects.untraced_same
    for head in (0, 1):
        checks = {check.id: check for check in run_checks(trace, head, reference(trace, head))}
        assert not [check.id for check in checks.values() if check.status is Status.FAIL]
        assert checks["kernel.output"].status is Status.NOT_TESTABLE
        assert "overflow of the eager path in float16" in str(checks["causal.effect"].reason)


def test_a_single_token_has_no_position_to_change(make_checkpoint: Callable[..., Path]) -> None:
    assert run(make_checkpoint(), 0, (5,)).effects.changed == ()


def test_sdpa_and_eager_are_taken_at_the_interface_without_a_logsumexp(make_checkpoint: Callable[..., Path]) -> None:
    # Public reports: at F.scaled_dot_product_attention keys may be repeated, cropped or packed already.
    sdpa, eager = (run(make_checkpoint(), 1, prompt(9), kernel=kernel) for kernel in ("sdpa", "eager"))
    for trace in (sdpa, eager):
        assert trace.kernel.lse is None
        assert trace.captures["k"].array.shape == (9, 3, 16)
        assert trace.scale.value == 0.25
        assert all(hop.same_object for hop in trace.scale.hops)
    assert sdpa.causal.value is True
    assert eager.causal.value is None  # no flag: the mask that is added makes it causal
    assert eager.captures["kernel_weights"].array.shape == (1, 6, 9, 9)


def test_the_lent_kernel_keeps_causality_that_a_bare_custom_function_loses(
    make_checkpoint: Callable[..., Path],
) -> None:
    # Public reports: a custom attention function registered without its mask function is not causal, in silence.
    from transformers import AttentionInterface
    from transformers.models.qwen3.modeling_qwen3 import eager_attention_forward

    AttentionInterface.register("bare_eager", eager_attention_forward)
    try:
        ids = prompt(6)
        eager = untraced(random_model(), "eager", 1, ids).double().numpy()
        bare = untraced(random_model(), "bare_eager", 1, ids).double().numpy()
    finally:
        AttentionInterface._global_mapping.pop("bare_eager")
    ours = run(make_checkpoint(), 1, ids).captures["o_proj"].array.float64()
    assert np.abs(bare - eager).max() > 0.1
    assert np.abs(ours - eager).max() < 1e-5


def test_only_what_the_asked_layer_needs_is_read(make_checkpoint: Callable[..., Path]) -> None:
    checkpoint = open_checkpoint(str(make_checkpoint()))
    why = Choice("", message("pipeline.engine_default"))
    request = Request(0, 0, None, (5, 6, 5), why, why, why, Choice("F32", why.reason))
    chosen = choose("cpu-flash", device="cpu", dtype="float32", head_dim=16)
    trace_layer(checkpoint, tuple(Token(id, b"", None) for id in (5, 6, 5)), Wanted(request, chosen, (0,)))
    attention = 48 * 96 + 2 * 48 * 48 + 96 * 48 + 2 * 16  # q, k and v, o, and both norms over head_dim
    rows = 2 * 48
    assert checkpoint.bytes_read == 4 * (rows + attention + 48)  # and the norm before the attention


def test_the_engine_leaves_the_process_as_it_was(make_checkpoint: Callable[..., Path]) -> None:
    import logging

    from transformers import modeling_flash_attention_utils as utils
    from transformers.models.qwen3 import modeling_qwen3 as model

    def state() -> tuple[Any, ...]:
        lent = (utils._loaded_implementation, utils._flash_varlen_fn, utils._process_flash_kwargs_fn)
        code = model.Qwen3RMSNorm.forward.__code__, model.apply_rotary_pos_emb.__code__
        return (
            *lent,
            *code,
            torch.get_default_dtype(),
            torch.is_grad_enabled(),
            logging.getLogger(utils.__name__).filters[:],
        )

    before = state()
    run(make_checkpoint(), 0, prompt(4))
    assert state() == before
    with pytest.raises(KeyboardInterrupt):
        _interrupted(make_checkpoint())
    assert state() == before


def _interrupted(folder: Path) -> None:
    checkpoint = open_checkpoint(str(folder))
    why = Choice("", message("pipeline.engine_default"))
    request = Request(2, 0, None, (5, 6), why, why, why, Choice("F32", why.reason))
    chosen = choose("cpu-flash", device="cpu", dtype="float32", head_dim=16)

    def interrupt(done: int, _total: int) -> None:
        if done == 1:
            raise KeyboardInterrupt

    trace_layer(checkpoint, (), dataclasses.replace(Wanted(request, chosen, (0,)), progress=interrupt))


def test_several_layers_of_one_pass_equal_a_pass_for_each(make_checkpoint: Callable[..., Path]) -> None:
    checkpoint = open_checkpoint(str(make_checkpoint()))
    why = Choice("", message("pipeline.engine_default"))
    request = Request(0, 1, None, prompt(9), why, why, why, Choice("F32", why.reason))
    chosen = choose("cpu-flash", device="cpu", dtype="float32", head_dim=16)
    tokens = tuple(Token(id, b"", None) for id in prompt(9))
    together = trace_layers(checkpoint, tokens, Wanted(request, chosen, (0, 1), _CACHE), (0, 2))
    for trace in together:
        alone = run(make_checkpoint(), trace.request.layer, prompt(9))
        assert set(trace.captures) == set(alone.captures)
        assert all(trace.captures[name].array.same_bits(alone.captures[name].array) for name in alone.captures)
        assert trace.kernel.output.same_bits(alone.kernel.output)
        assert trace.effects.changed == alone.effects.changed
        assert all(hop.same_object for hop in trace.scale.hops)  # each layer's own float, though all are equal
    assert [trace.request.layer for trace in together] == [0, 2]
