"""What running the attention again can show: that a future token leaks, that a second run differs, that a hop of the
scale is another object, and that what is kept is a copy."""

import importlib
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.engines.test_transformers import prompt, run
from tracer.capture.recorder import Recorder, Seen, Sightings
from tracer.engines.arrays import to_array
from tracer.engines.transformers import steps
from tracer.engines.transformers.effects import Call, observe
from tracer.engines.transformers.lending import KernelWatch, lent, quiet_cast
from tracer.errors import Unsupported
from tracer.kernels import cpu_flash
from tracer.lineage import hops
from tracer.records import Effects
from tracer.source import anchors, files


class Mixing(torch.nn.Module):
    """Row t is the mean of the rows that ``seen`` [T, T] lets it see; with ``noise`` each run differs."""

    def __init__(self, seen: torch.Tensor, noise: float = 0.0) -> None:
        super().__init__()
        self.weights = seen / seen.sum(-1, keepdim=True)
        self.noise = noise
        self.runs = 0

    def forward(self, hidden_states: torch.Tensor) -> tuple[torch.Tensor, None]:
        self.runs += 1
        return self.weights @ hidden_states + self.noise * self.runs, None


def effects(module: torch.nn.Module) -> Effects:
    hidden = torch.randn(1, 6, 8, generator=torch.Generator().manual_seed(0))
    q = torch.randn(6, 2, 8)
    return observe(Call(module, hidden, {}, module(hidden)[0]), q, q, q, 0.3, None, (0,))


def test_a_causal_module_moves_no_earlier_row_and_runs_the_same_again() -> None:
    found = effects(Mixing(torch.ones(6, 6).tril()))
    assert found.untraced_same
    assert found.changed == ((1, None, True), (3, None, True), (5, None, True))


def test_a_leak_names_the_first_row_that_moved() -> None:
    seen = torch.ones(6, 6).tril()
    seen[2, 5] = 1  # row 2 sees the last token
    assert effects(Mixing(seen)).changed == ((1, None, True), (3, None, True), (5, 2, True))


def test_a_row_that_does_not_move_itself_says_that_the_test_saw_nothing() -> None:
    seen = torch.ones(6, 6).tril(-1)
    seen[0, 0] = 1
    assert [moved for _, _, moved in effects(Mixing(seen)).changed] == [False, False, False]


class Heads(torch.nn.Module):
    """Two heads of 4 that mix tokens as ``seen`` says, then a projection; head 0 is NaN in every row."""

    def __init__(self, seen: torch.Tensor) -> None:
        super().__init__()
        self.seen = seen
        self.o_proj = torch.nn.Linear(8, 8, bias=False)

    def forward(self, hidden_states: torch.Tensor) -> tuple[torch.Tensor, None]:
        heads = self.seen @ hidden_states
        heads[..., :4] = torch.nan
        return self.o_proj(heads), None


def test_a_head_that_is_nan_hides_neither_what_another_shows_nor_a_leak_in_it() -> None:
    seen = torch.ones(6, 6).tril()
    with torch.no_grad():
        assert effects(Heads(seen)).changed == ((1, None, True), (3, None, True), (5, None, True))
        seen[2, 5] = 1
        assert effects(Heads(seen)).changed == ((1, None, True), (3, None, True), (5, 2, True))


def test_another_nan_in_place_of_a_nan_is_no_move() -> None:
    class Negating(Mixing):
        def forward(self, hidden_states: torch.Tensor) -> tuple[torch.Tensor, None]:
            rows = super().forward(hidden_states)[0]
            nan = torch.full((), torch.nan).copysign(hidden_states[0, -1, 0])
            return torch.cat([rows[:, :3] * 0 + nan, rows[:, 3:]], 1), None

    found = effects(Negating(torch.ones(6, 6).tril()))
    assert found.changed == ((1, None, False), (3, None, True), (5, None, True))


def test_another_result_the_second_time_is_not_the_same_bits() -> None:
    assert not effects(Mixing(torch.ones(6, 6).tril(), noise=1e-6)).untraced_same


def test_an_equal_float_that_is_another_object_does_not_prove_a_hop() -> None:
    defined = anchors.definitions("transformers")
    sources = {key: files.installed("transformers", member) for key, member in defined.files.items()}
    table = anchors.table(defined, sources, cache=None)
    path = hops.path(table, defined.paths["scale"]["flash"])
    given, other = float("0.25"), float("0.25")
    seen = [Seen(hop.anchor.id, "attention", given) for hop in path[:-1]]
    seen[2] = Seen(path[2].anchor.id, "attention", other)
    followed = steps.lineage(table, path, Sightings(seen), given)
    assert [hop.same_object for hop in followed.hops[:4]] == [True, True, False, True]
    assert followed.hops[2].value == given


@pytest.mark.parametrize("keep", [None, lambda _anchor, value: value], ids=["all of it", "what keep says"])
def test_what_a_probe_saw_is_a_copy_whatever_is_kept_of_it(keep: Callable[[str, Any], Any] | None) -> None:
    recorder = Recorder(keep)
    tensor = torch.ones(3)
    with recorder.during("run"):
        recorder.note(("x",), tensor)
    tensor.zero_()
    assert recorder.values("x", "run")[0].tolist() == [1, 1, 1]


def in_place(q: Any, k: Any, v: Any, *_: Any, return_attn_probs: bool = False, **__: Any) -> Any:
    """A kernel that gives back its own buffer every time."""
    BUFFER.add_(1)
    return (BUFFER, BUFFER[..., 0].T, None) if return_attn_probs else BUFFER


BUFFER = torch.zeros(4, 1, 8)


def test_what_the_kernel_gave_is_a_copy() -> None:
    recorder = Recorder()
    watch = KernelWatch(in_place, recorder)
    q = torch.zeros(4, 1, 8)
    with recorder.during("attention"):
        watch.lent(None)(q, q, q)
    kept = watch.drain()[0]
    was = kept.output.clone()
    in_place(q, q, q)
    assert torch.equal(kept.output, was)
    assert torch.equal(kept.lse, was[..., 0].T)


def test_another_thread_keeps_the_functions_it_had() -> None:
    utils = importlib.import_module("transformers.modeling_flash_attention_utils")
    said: list[Any] = []

    def before(*_: Any, **__: Any) -> str:
        return "what was there before"

    utils._flash_varlen_fn = utils._flash_fn = utils._process_flash_kwargs_fn = before
    try:
        with lent(utils, KernelWatch(cpu_flash.flash_attn_varlen_func, Recorder()), cpu_flash.flash_attn_func):
            functions = [utils._flash_varlen_fn, utils._flash_fn, utils._process_flash_kwargs_fn]
            other = threading.Thread(target=lambda: said.extend(function() for function in functions))
            other.start()
            other.join()
    finally:
        utils._flash_varlen_fn = utils._flash_fn = utils._process_flash_kwargs_fn = None
    assert said == ["what was there before"] * 3


def test_only_the_line_about_casting_fp32_is_kept_quiet() -> None:
    utils = importlib.import_module("transformers.modeling_flash_attention_utils")
    logger = logging.getLogger(utils.__name__)
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    try:
        with quiet_cast(utils):
            logger.error("Casting fp32 inputs back to torch.float32 for flash-attn compatibility.")
            logger.error("Something else.")
    finally:
        logger.removeHandler(handler)
    assert said == ["Something else."]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_flash_path_gives_the_bits_of_a_plain_whole_model_on_the_same_kernel(
    make_checkpoint: Callable[..., Path], dtype: str
) -> None:
    from transformers import Qwen3ForCausalLM

    ids = prompt(33)
    traced = run(make_checkpoint(dtype), 1, ids, dtype=dtype)
    model = Qwen3ForCausalLM.from_pretrained(make_checkpoint(dtype), dtype=getattr(torch, dtype)).eval()
    model.config._attn_implementation = "flash_attention_2"
    kept: list[torch.Tensor] = []
    model.model.layers[1].self_attn.register_forward_hook(lambda _m, _a, out: kept.append(out[0].clone()))
    utils = importlib.import_module("transformers.modeling_flash_attention_utils")
    bounds = torch.tensor([0, 33], dtype=torch.int32)
    plain = KernelWatch(cpu_flash.flash_attn_varlen_func, Recorder())
    with lent(utils, plain, cpu_flash.flash_attn_func), quiet_cast(utils), torch.no_grad():
        model(
            torch.tensor([ids]),
            use_cache=False,
            cu_seq_lens_q=bounds,
            cu_seq_lens_k=bounds,
            max_length_q=33,
            max_length_k=33,
        )
    assert traced.captures["o_proj"].array.same_bits(to_array(kept[0]))


def test_a_second_thread_is_refused_while_the_first_looks_at_its_effects(
    make_checkpoint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tracer.engines.transformers import engine

    utils = importlib.import_module("transformers.modeling_flash_attention_utils")
    before = (utils._loaded_implementation, utils._flash_fn, utils._flash_varlen_fn)
    folder, refused = make_checkpoint(), []

    def second() -> None:
        try:
            run(folder, 0, prompt(4))
        except Unsupported as error:
            refused.append(error.text())

    def observed(*args: Any, **kwargs: Any) -> Effects:
        other = threading.Thread(target=second)
        other.start()
        other.join()
        return observe(*args, **kwargs)

    monkeypatch.setattr(engine, "observe", observed)
    assert run(folder, 0, prompt(5)).effects.untraced_same
    assert len(refused) == 1
    assert "Another trace is running in this process" in refused[0]
    assert (utils._loaded_implementation, utils._flash_fn, utils._flash_varlen_fn) == before


@pytest.mark.parametrize("mode", ["autocast", "meta device", "inference mode", "float64 by default"])
def test_the_callers_modes_change_no_number(make_checkpoint: Callable[..., Path], mode: str) -> None:
    folder, ids = make_checkpoint(), prompt(6)
    plain = run(folder, 1, ids)
    default = torch.get_default_dtype()
    modes = {
        "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
        "meta device": lambda: torch.device("meta"),
        "inference mode": torch.inference_mode,
        "float64 by default": torch.no_grad,
    }
    try:
        if mode == "float64 by default":
            torch.set_default_dtype(torch.float64)
        with modes[mode]():
            found = run(folder, 1, ids)
    finally:
        torch.set_default_dtype(default)
    assert all(found.captures[name].array.same_bits(plain.captures[name].array) for name in plain.captures)
    assert found.effects.untraced_same


def test_a_patched_norm_is_refused_because_its_lines_do_not_run(
    make_checkpoint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = importlib.import_module("transformers.models.qwen3.modeling_qwen3")

    def louder(self: Any, hidden_states: torch.Tensor) -> torch.Tensor:
        return 1.0001 * hidden_states

    # So do kernels from the Hub (use_kernels=True): they put a forward of their own in the class.
    monkeypatch.setattr(model.Qwen3RMSNorm, "forward", louder)
    with pytest.raises(Unsupported) as caught:
        run(make_checkpoint(), 0, prompt(4))
    assert "Qwen3RMSNorm.forward does not run the code that stands in" in caught.value.text()
    assert "A kernel from the Hub, a patch or an edited file has replaced it" in caught.value.text()
