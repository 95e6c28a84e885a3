"""Run one layer of a checkpoint on transformers' own Qwen3 code and return everything that was captured.

Top to bottom: find the anchors, build the model under instrumented code, run it to the asked layer's attention on a
lent kernel, look at what moves when that attention is run again, and hand on plain records. Must not know: pages.
"""

import importlib
import importlib.metadata
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracer.capture.instrument import Instrumentation, instrument
from tracer.capture.recorder import Recorder
from tracer.checkpoint.checkpoint import Checkpoint
from tracer.engines.arrays import to_array, torch_dtype
from tracer.engines.transformers import steps, streaming
from tracer.engines.transformers.attention import from_interface, from_kernel
from tracer.engines.transformers.effects import Call, observe
from tracer.engines.transformers.lending import KernelWatch, lent, quiet_cast
from tracer.errors import Unsupported
from tracer.kernels.choose import ChosenKernel
from tracer.records import Capture, LayerTrace, Request, Token
from tracer.source import anchors, files, lineage

_UTILS = "transformers.modeling_flash_attention_utils"
_WAYS = {"flash-attn": "flash", "cpu-flash": "flash", "sdpa": "sdpa", "eager": "eager"}
_PACKAGES = ("tracer", "torch", "transformers", "numpy", "safetensors", "tokenizers")
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Wanted:
    """What to run: the request, the kernel that was chosen, the heads whose eager comparison is kept, a folder for
    finished anchor tables (None: keep none), and who is told of each layer that has run."""

    request: Request
    kernel: ChosenKernel
    heads: tuple[int, ...]
    cache: Path | None = None
    progress: Progress | None = None


def trace_layer(checkpoint: Checkpoint, tokens: tuple[Token, ...], wanted: Wanted) -> LayerTrace:
    """Return the trace of one layer, all heads. Raises Unsupported where the source is not laid out as known."""
    way = _WAYS[wanted.kernel.kind]
    defined = anchors.definitions("transformers")
    sources = {key: files.installed("transformers", member) for key, member in defined.files.items()}
    table = anchors.table(defined, sources, wanted.cache)
    model = checkpoint.model_facts(wanted.request.layer)
    run = _Run(checkpoint, wanted, Recorder(), instrument(table, steps.probed(table, way)))
    with run.kernel():
        call = run.forward()
        attention = from_kernel(table, run.watch) if run.watch else from_interface(table, way, run.recorder)
        effects = observe(call, attention.q, attention.k, attention.v, attention.scale, model.window, wanted.heads)
    captured = steps.captures(table, way, run.recorder)
    hidden = Capture("hidden", "x", ("B", "T", "C"), to_array(call.hidden), table.site("attention.hidden"), "x")
    received = {"scale": attention.scale, "causal": attention.causal}
    paths = {
        value: steps.lineage(table, lineage.path(table, defined.paths[value][way]), run.recorder, received[value])
        for value in received
    }
    return LayerTrace(
        request=wanted.request,
        versions=_versions(),
        checkpoint=checkpoint.facts(),
        model=model,
        tokens=tokens,
        scale=paths["scale"],
        causal=paths["causal"],
        kernel=attention.record(wanted.kernel.provider),
        captures={"hidden": hidden, **captured, **attention.inputs()},
        effects=effects,
        warnings=checkpoint.warnings,
    )


class _Run:
    """One run: the recorder, the kernel's watch and the forward pass up to the asked layer's attention."""

    def __init__(self, checkpoint: Checkpoint, wanted: Wanted, recorder: Recorder, code: Instrumentation) -> None:
        self._checkpoint = checkpoint
        self._wanted = wanted
        self._code = code
        self.recorder = recorder
        varlen = wanted.kernel.varlen
        self.watch = KernelWatch(varlen, recorder) if varlen is not None else None

    @contextmanager
    def kernel(self) -> Iterator[None]:
        """Lend transformers the chosen kernel, where it is one of ours to lend, for one ``with``."""
        dense = self._wanted.kernel.dense
        if self.watch is None or dense is None:
            yield
            return
        utils = importlib.import_module(_UTILS)
        with lent(utils, self.watch, dense), quiet_cast(utils):
            yield

    def forward(self) -> Call:
        """Return the asked layer's attention call, after running the model to its end under instrumented code."""
        import torch

        request, kernel = self._wanted.request, self._wanted.kernel
        dtype = torch_dtype(request.dtype.value)
        self._checkpoint.require_layers(request.layer)
        rows = self._checkpoint.embedding_rows(request.token_ids, dtype).to(kernel.device)[None]
        with self._code.swapped(self.recorder), torch.no_grad():
            with self.recorder.during("construct"):
                model = streaming.build(self._checkpoint, request.layer, kernel.attn_implementation, kernel.device)
            streaming.fill_on_demand(model, self._checkpoint, dtype, kernel.device)
            caught = self._watch_modules(model)
            try:
                model(inputs_embeds=rows, use_cache=False, **self._sequence(rows))
            except streaming.Reached:
                pass
            finally:
                self.recorder.close()
        if not caught:
            raise Unsupported("engine.not_reached", layer=request.layer)
        return caught[0]

    def _sequence(self, rows: Any) -> dict[str, Any]:
        """Return what makes transformers' flash path call the varlen kernel: one sequence, its bounds given."""
        if self.watch is None:
            return {}
        import torch

        length = rows.shape[1]
        bounds = torch.tensor([0, length], dtype=torch.int32, device=rows.device)
        return {"cu_seq_lens_q": bounds, "cu_seq_lens_k": bounds, "max_length_q": length, "max_length_k": length}

    def _watch_modules(self, model: Any) -> list[Call]:
        """Open a window around the rotary embedding and the asked attention; the latter's end stops the model."""
        caught: list[Call] = []
        attention = model.layers[-1].self_attn
        entered: dict[str, Any] = {}

        def enter(_module: Any, _args: Any, kwargs: dict[str, Any]) -> None:
            entered.update(kwargs, hidden_states=kwargs["hidden_states"].detach().clone())
            self.recorder.open("attention")

        def leave(module: Any, _args: Any, output: Any) -> None:
            self.recorder.close()
            for hook in hooks:
                hook.remove()
            hidden = entered.pop("hidden_states")
            caught.append(Call(module, hidden, dict(entered), output[0].detach().clone()))
            raise streaming.Reached

        # Both go once the attention has ended: running it again must be an ordinary call.
        hooks = [attention.register_forward_pre_hook(enter, with_kwargs=True), attention.register_forward_hook(leave)]
        model.rotary_emb.register_forward_pre_hook(lambda *_: self.recorder.open("rope"))
        model.rotary_emb.register_forward_hook(lambda *_: self.recorder.close())
        if self._wanted.progress is not None:
            report, total = self._wanted.progress, len(model.layers)
            for index, layer in enumerate(model.layers):
                layer.register_forward_pre_hook(lambda *_, done=index: report(done, total))
        return caught


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        versions[package] = importlib.metadata.version(package)
    return versions
