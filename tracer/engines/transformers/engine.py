"""Run one layer of a checkpoint on transformers' own Qwen3 code and return everything that was captured.

Top to bottom: find the anchors, build the model under instrumented code, run it to the asked layer's attention on a
lent kernel, look at what moves when that attention is run again, and hand on plain records. Must not know: pages.
"""

import importlib.metadata
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tracer.capture.instrument import Instrumentation, instrument
from tracer.capture.recorder import Recorder, Seen, Sightings
from tracer.capture.turn import turn
from tracer.checkpoint.checkpoint import Checkpoint
from tracer.engines.ambient import plain
from tracer.engines.arrays import dtype_name, to_array, torch_dtype
from tracer.engines.transformers import definitions, loading, steps, streaming
from tracer.engines.transformers.attention import from_interface, from_kernel
from tracer.engines.transformers.definitions import Code
from tracer.engines.transformers.effects import Alone, Call, observe
from tracer.engines.transformers.lending import KernelSeen, KernelWatch, lent, quiet_cast
from tracer.errors import Unsupported
from tracer.kernels.choose import ChosenKernel
from tracer.kernels.interfaces import FLASH
from tracer.lineage import hops
from tracer.records import Capture, LayerTrace, ModelFacts, Request, Token
from tracer.source import anchors, files
from tracer.texts import Message, message

_WAYS = {**dict.fromkeys(FLASH, "flash"), "sdpa": "sdpa", "eager": "eager"}
_PACKAGES = ("tracer", "torch", "transformers", "numpy", "safetensors", "tokenizers")
Progress = Callable[[int, int], None]
# Makes the model to run of a checkpoint, up to a layer at least, from transformers' code.
Load = Callable[[Checkpoint, int, Code], Any]
# A prompt of more tokens than this is long: of the steps before the kernel only the asked head's part is kept.
LONG = 8192


@dataclass(frozen=True)
class Wanted:
    """What to run: the request, the kernel that was chosen, the heads whose eager comparison is kept, a folder for
    finished anchor tables (None: keep none), and who is told of each layer that has run. ``light`` allows a process
    that runs nothing else to import only what the flash path needs of transformers. ``load`` makes the model that is
    run; None: it is streamed, one layer in memory at a time."""

    request: Request
    kernel: ChosenKernel
    heads: tuple[int, ...]
    cache: Path | None = None
    progress: Progress | None = None
    light: bool = False
    load: Load | None = None


def trace_layer(checkpoint: Checkpoint, tokens: tuple[Token, ...], wanted: Wanted) -> LayerTrace:
    """Return the trace of the requested layer, all heads (see trace_layers)."""
    return trace_layers(checkpoint, tokens, wanted, (wanted.request.layer,))[0]


def trace_layers(
    checkpoint: Checkpoint, tokens: tuple[Token, ...], wanted: Wanted, layers: Sequence[int]
) -> tuple[LayerTrace, ...]:
    """Return the trace of each of ``layers`` (ascending), all heads, from one pass that stops after the last.

    Raises Unsupported where the source is not laid out as known, and where another thread is tracing.
    """
    with turn(), plain(wanted.kernel.device):
        return _traced(checkpoint, tokens, wanted, layers)


def _traced(
    checkpoint: Checkpoint, tokens: tuple[Token, ...], wanted: Wanted, layers: Sequence[int]
) -> tuple[LayerTrace, ...]:
    way = _WAYS[wanted.kernel.kind]
    defined = anchors.definitions("transformers")
    sources = {key: files.installed("transformers", member) for key, member in defined.files.items()}
    table = anchors.table(defined, sources, wanted.cache)
    paths = {value: hops.path(table, defined.paths[value][way]) for value in ("scale", "causal")}
    one = _one_head(checkpoint, wanted, layers[0])
    activation = str(checkpoint.config["hidden_act"])
    code = definitions.light(activation) if wanted.light and way == "flash" else definitions.whole()
    probes = instrument(table, steps.probed(table, way), code.modules if code.light else None)
    run = _Run(checkpoint, wanted, Recorder(steps.keeping(way, one)), probes, code)
    warnings = (*([code.why] if code.why else []), *_told(one, checkpoint.model_facts(layers[0]), len(tokens)))
    reading = _Reading(checkpoint, tokens, wanted, table, way, paths, one, warnings)
    with run.kernel():
        return tuple(run.forward(layers, lambda caught: reading.trace(caught, run.watch)))


def alone(wanted: Wanted) -> bool:
    """Return whether one head alone is looked at: a prompt is so long that every head's steps would fill the memory and
    running every head again would take minutes."""
    one = len(wanted.heads) == 1 and wanted.kernel.kind == "cpu-flash" and wanted.load is None
    return one and len(wanted.request.token_ids) > LONG


def _one_head(checkpoint: Checkpoint, wanted: Wanted, layer: int) -> steps.OneHead | None:
    """Return the head that alone is looked at; None where all are kept."""
    if not alone(wanted):
        return None
    facts, head = checkpoint.model_facts(layer), wanted.heads[0]
    return steps.OneHead(head, facts.kv_head(head), facts.head_dim)


def _told(one: steps.OneHead | None, facts: ModelFacts, tokens: int) -> tuple[Message, ...]:
    """Return the sentence that says which head alone was looked at, and why; nothing where all were."""
    if one is None:
        return ()
    which = {"head": one.head, "kv_head": one.kv_head, "heads": facts.heads}
    return (message("engine.one_head", tokens=tokens, long=LONG, **which),)


@dataclass(frozen=True)
class _Caught:
    """What the windows of one layer caught; ``seen`` begins with what was seen before any layer ran."""

    layer: int
    call: Call
    seen: Sightings
    kernel: list[KernelSeen]


@dataclass(frozen=True)
class _Reading:
    """What makes one layer's trace of what was caught of it, running its attention again."""

    checkpoint: Checkpoint
    tokens: tuple[Token, ...]
    wanted: Wanted
    table: anchors.Table
    way: str
    paths: Mapping[str, tuple[hops.StaticHop, ...]]
    one: steps.OneHead | None
    warnings: tuple[Message, ...]

    def trace(self, caught: _Caught, watch: KernelWatch | None) -> LayerTrace:
        """Return the layer's trace; its weights must still be there, and its code be its own."""
        table, one, wanted = self.table, self.one, self.wanted
        facts = self.checkpoint.model_facts(caught.layer)
        attention = from_kernel(table, caught.kernel) if watch else from_interface(table, self.way, caught.seen)
        if dtype_name(attention.q.dtype) != wanted.request.dtype.value:
            raise Unsupported("engine.dtype", ran=dtype_name(attention.q.dtype), asked=wanted.request.dtype.value)
        effects = observe(
            caught.call,
            attention.q,
            attention.k,
            attention.v,
            facts.head_dim**-0.5,
            facts.window,
            wanted.heads,
            output=attention.output,
            alone=Alone(watch, one) if watch and one else None,
        )
        hidden = to_array(caught.call.hidden, owned=True)
        received = {"scale": attention.scale, "causal": attention.causal}
        followed = {
            value: steps.lineage(table, self.paths[value], caught.seen, given) for value, given in received.items()
        }
        return LayerTrace(
            request=replace(wanted.request, layer=caught.layer),
            versions=_versions(),
            checkpoint=self.checkpoint.facts(),
            model=facts,
            tokens=self.tokens,
            scale=followed["scale"],
            causal=followed["causal"],
            kernel=attention.record(wanted.kernel.provider),
            captures={
                "hidden": Capture("hidden", "x", ("B", "T", "C"), hidden, table.site("attention.hidden"), "x"),
                **steps.captures(table, self.way, caught.seen, one),
                **attention.inputs(),
            },
            effects=effects,
            warnings=(*self.checkpoint.warnings, *self.warnings),
        )


class _Run:
    """One run: the recorder, the kernel's watch and the forward pass up to the last asked layer's attention."""

    def __init__(
        self, checkpoint: Checkpoint, wanted: Wanted, recorder: Recorder, probes: Instrumentation, code: Code
    ) -> None:
        self._checkpoint = checkpoint
        self._wanted = wanted
        self._probes = probes
        self._code = code
        self._recorder = recorder
        varlen = wanted.kernel.varlen
        self.watch = KernelWatch(varlen, recorder) if varlen is not None else None

    @contextmanager
    def kernel(self) -> Iterator[None]:
        """Lend transformers the chosen kernel, where it is one of ours to lend, for one ``with``."""
        dense = self._wanted.kernel.dense
        if self.watch is None or dense is None:
            yield
            return
        utils = self._code.modules[definitions.UTILS]
        path = self._wanted.kernel.attn_implementation
        with lent(utils, self.watch, dense, path), quiet_cast(utils):
            yield

    def forward(self, layers: Sequence[int], trace: Callable[[_Caught], LayerTrace]) -> list[LayerTrace]:
        """Return what ``trace`` makes of each asked layer's attention call, after running the model to the last under
        instrumented code.

        It is called as soon as that attention has ended, on the code's own, before the layer's weights go.
        """
        request, kernel = self._wanted.request, self._wanted.kernel
        dtype, last = torch_dtype(request.dtype.value), layers[-1]
        self._checkpoint.require_layers(last)
        with self._probes.swapped(self._recorder):
            with self._recorder.during("construct"):
                model = self._model(last)
            if self._wanted.load is None:
                streaming.fill_on_demand(model, self._checkpoint, dtype, kernel.device)
            traced = self._watch_modules(loading.base_of(model), layers, trace)
            rows = self._checkpoint.embedding_rows(request.token_ids, dtype).to(kernel.device)[None]
            try:
                model(inputs_embeds=rows, use_cache=False, **self._sequence(rows))
            except streaming.Reached:
                pass
            finally:
                self._recorder.close()
        if len(traced) != len(layers):
            raise Unsupported("engine.not_reached", layer=last)
        return traced

    def _model(self, last: int) -> Any:
        """Return the model to run, at least up to layer ``last``."""
        if self._wanted.load is not None:
            return self._wanted.load(self._checkpoint, last, self._code)
        kernel = self._wanted.kernel
        return streaming.build(self._checkpoint, last, kernel.attn_implementation, kernel.device, self._code)

    def _sequence(self, rows: Any) -> dict[str, Any]:
        """Return what makes transformers' flash path call the varlen kernel: one sequence, its bounds given."""
        if self.watch is None:
            return {}
        import torch

        length = rows.shape[1]
        bounds = torch.tensor([0, length], dtype=torch.int32, device=rows.device)
        return {"cu_seq_lens_q": bounds, "cu_seq_lens_k": bounds, "max_length_q": length, "max_length_k": length}

    def _watch_modules(
        self, model: Any, layers: Sequence[int], trace: Callable[[_Caught], LayerTrace]
    ) -> list[LayerTrace]:
        """Open a window around the rotary embedding and each asked attention; the last one's end stops the model."""
        model.rotary_emb.register_forward_pre_hook(lambda *_: self._recorder.open("rope"))
        model.rotary_emb.register_forward_hook(lambda *_: self._recorder.close())
        traced: list[LayerTrace] = []
        before: list[Seen] = []

        def caught(one: _Caught) -> None:
            with self._probes.paused():
                traced.append(trace(one))
            if one.layer == layers[-1]:
                raise streaming.Reached

        for index in layers:
            self._watch_attention(model.layers[index].self_attn, index, before, caught)
        if self._wanted.progress is not None:
            report, total = self._wanted.progress, len(model.layers)
            for index, layer in enumerate(model.layers):
                layer.register_forward_pre_hook(lambda *_, done=index: report(done, total))
        return traced

    def _watch_attention(
        self, attention: Any, layer: int, before: list[Seen], caught: Callable[[_Caught], None]
    ) -> None:
        entered: dict[str, Any] = {}

        def enter(_module: Any, _args: Any, kwargs: dict[str, Any]) -> None:
            entered.update(kwargs, hidden_states=kwargs["hidden_states"].detach().clone())
            before.extend(self._recorder.drain())  # the constructors and the rotary embedding, once
            self._recorder.open("attention")

        def leave(module: Any, _args: Any, output: Any) -> None:
            self._recorder.close()
            for hook in hooks:
                hook.remove()
            hidden = entered.pop("hidden_states")
            call = Call(module, hidden, dict(entered), output[0].detach().clone())
            seen = Sightings([*before, *self._recorder.drain()])
            caught(_Caught(layer, call, seen, self.watch.drain() if self.watch else []))

        # Both go once the attention has ended: running it again must be an ordinary call.
        hooks = [attention.register_forward_pre_hook(enter, with_kwargs=True), attention.register_forward_hook(leave)]


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        versions[package] = importlib.metadata.version(package)
    return versions
