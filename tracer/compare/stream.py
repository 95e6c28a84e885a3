"""What passes from layer to layer on each engine, up to one layer's attention: inputs, norms, residuals, sums.

One step has one name on both engines, though one adds before a layer and the other inside its norm:

    input     what enters the layer            middle      the sum after the attention
    norm      what the first norm makes of it  second_norm what the second norm makes of it
    residual  what is kept beside the norm     kept        what is kept beside the second norm
    attention what the attention adds          mlp         what the MLP adds

``residual`` and ``kept`` are looked at again just before they are used: what stands in memory then is what counts.
Must not know: distances, wording.
"""

import contextlib
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tracer.capture.instrument import instrument
from tracer.capture.recorder import Recorder
from tracer.checkpoint.checkpoint import Checkpoint
from tracer.compare.records import Value, Written
from tracer.compare.storage import StorageRecorder, storage
from tracer.engines.ambient import plain
from tracer.engines.arrays import to_array, torch_dtype
from tracer.engines.nanovllm import weights
from tracer.engines.nanovllm.code import ready
from tracer.engines.nanovllm.phase import PREFILL, schedule
from tracer.engines.nanovllm.run import Reached, run_part
from tracer.engines.transformers import streaming
from tracer.engines.transformers.engine import Wanted
from tracer.engines.transformers.lending import KernelWatch, lent, quiet_cast
from tracer.records import Site
from tracer.source import anchors, files
from tracer.source.anchors import Table

STEPS = ("input", "norm", "residual", "attention", "middle", "second_norm", "kept", "mlp")
# Rows that are kept: later ones change no earlier one, and what parts does so from the first rows on.
ROWS = 256
_UTILS = "transformers.modeling_flash_attention_utils"


@dataclass
class Stream:
    """What passed, in the order it did; ``written``: writes that were seen into memory that was still in use."""

    values: list[Value] = field(default_factory=list)
    written: list[Written] = field(default_factory=list)

    def add(self, layer: int, name: str, tensor: Any, site: Site) -> None:
        """Keep a copy of the first rows of ``tensor``, [T, C] or [1, T, C]."""
        rows = tensor[0] if tensor.dim() == 3 else tensor
        self.values.append(Value(layer, name, to_array(rows[:ROWS]), site))

    def named(self) -> dict[tuple[int, str], Value]:
        """Return the values by layer and name."""
        return {(value.layer, value.name): value for value in self.values}


@contextlib.contextmanager
def _own_modes(device: str) -> Iterator[None]:
    """Run one ``with`` in no mode of the thread that calls us. What inference mode makes counts no writes, and these
    counts are what proves an in-place write."""
    import torch

    with torch.inference_mode(False), plain(device):
        yield


def transformers_stream(checkpoint: Checkpoint, wanted: Wanted, last: int) -> Stream:
    """Return what passes on transformers' code from the embedding to layer ``last``'s attention."""
    with _own_modes(wanted.kernel.device):
        return _on_transformers(checkpoint, wanted, last)


def _on_transformers(checkpoint: Checkpoint, wanted: Wanted, last: int) -> Stream:
    import torch

    defined = anchors.definitions("transformers-layers")
    sources = {key: files.installed("transformers", member) for key, member in defined.files.items()}
    table = anchors.table(defined, sources, wanted.cache)
    kernel, dtype = wanted.kernel, torch_dtype(wanted.request.dtype.value)
    rows = checkpoint.embedding_rows(wanted.request.token_ids, dtype).to(kernel.device)[None]
    model = streaming.build(checkpoint, last, kernel.attn_implementation, kernel.device)
    streaming.fill_on_demand(model, checkpoint, dtype, kernel.device)
    stream, given = Stream(), {}
    with contextlib.ExitStack() as stack:
        if kernel.varlen is not None and kernel.dense is not None:
            utils = importlib.import_module(_UTILS)
            stack.enter_context(
                lent(utils, KernelWatch(kernel.varlen, Recorder()), kernel.dense, kernel.attn_implementation)
            )
            stack.enter_context(quiet_cast(utils))
            bounds = torch.tensor([0, rows.shape[1]], dtype=torch.int32, device=rows.device)
            longest = rows.shape[1]
            given = {"cu_seq_lens_q": bounds, "cu_seq_lens_k": bounds, "max_length_q": longest, "max_length_k": longest}
        for index, layer in enumerate(model.layers):
            _watch_transformers(stream, table, layer, index, index == last)
        stack.enter_context(contextlib.suppress(streaming.Reached))
        model(inputs_embeds=rows, use_cache=False, **given)
    return stream


def _watch_transformers(stream: Stream, table: Table, layer: Any, index: int, last: bool) -> None:
    held: list[Any] = [None]

    def keep(name: str, anchor: str, tensor: Any) -> None:
        stream.add(index, name, tensor, table.site(anchor))

    def enter(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        held[0] = args[0] if args else kwargs["hidden_states"]
        keep("input", "layer.input", held[0])

    def middle(_: Any, args: tuple[Any, ...]) -> None:
        held[0] = args[0]
        keep("middle", "layer.middle", held[0])

    layer.register_forward_pre_hook(enter, with_kwargs=True)
    layer.input_layernorm.register_forward_hook(lambda _, __, out: keep("norm", "layer.norm", out))
    layer.self_attn.register_forward_pre_hook(lambda *_: keep("residual", "layer.input", held[0]))
    layer.self_attn.register_forward_hook(lambda _, __, out: keep("attention", "layer.attention", out[0]))
    if last:
        layer.self_attn.register_forward_hook(_stop(streaming.Reached))
    layer.post_attention_layernorm.register_forward_pre_hook(middle)
    layer.post_attention_layernorm.register_forward_hook(
        lambda _, __, out: keep("second_norm", "layer.second_norm", out)
    )
    layer.mlp.register_forward_pre_hook(lambda *_: keep("kept", "layer.middle", held[0]))
    layer.mlp.register_forward_hook(lambda _, __, out: keep("mlp", "layer.mlp", out))


def nano_stream(checkpoint: Checkpoint, wanted: Wanted, last: int) -> Stream:
    """Return what passes on nano-vllm's code from the embedding to layer ``last``'s attention.

    With it comes every write that was seen into a residual still in use.
    """
    with _own_modes(wanted.kernel.device):
        return _on_nano_vllm(checkpoint, wanted, last)


def _on_nano_vllm(checkpoint: Checkpoint, wanted: Wanted, last: int) -> Stream:
    recorder = StorageRecorder()
    code = ready(wanted.kernel, recorder, wanted.cache)
    request, device, dtype = wanted.request, wanted.kernel.device, torch_dtype(wanted.request.dtype.value)
    (part,) = schedule(request.token_ids, PREFILL)
    probed = [id for id in code.table.anchors if id.startswith("norm.")]
    stream = Stream()
    with instrument(code.table, probed, code.modules).swapped(recorder):
        built = weights.build(checkpoint, code.modules, last, len(request.token_ids), dtype, device)
        built.fill_on_demand()
        for index, layer in enumerate(built.model.layers):
            _NanoWatch(stream, code.table, recorder, index).on(layer, index == last)
        try:
            with contextlib.suppress(Reached):
                run_part(built, part)
        finally:
            recorder.close()
    return stream


@dataclass
class _NanoWatch:
    """Watches one layer: its norms take the residual and give it back, perhaps as the very memory they work in."""

    stream: Stream
    table: Table
    recorder: StorageRecorder
    index: int
    _residual: Any = None  # live, never a copy
    _before: Any = None  # a copy of it, taken when it was right
    _lived: list[Any] = field(default_factory=list)

    def on(self, layer: Any, last: bool) -> None:
        """Hook into ``layer``; the run ends with the attention of the last one."""
        for norm, step in ((layer.input_layernorm, "norm"), (layer.post_attention_layernorm, "second_norm")):
            norm.register_forward_pre_hook(self._enter)
            norm.register_forward_hook(self._leave(step))
        layer.self_attn.register_forward_pre_hook(lambda *_: self._look("residual", "norm"))
        layer.self_attn.register_forward_hook(lambda _, __, out: self._keep("attention", "layer.attention", out))
        if last:
            layer.self_attn.register_forward_hook(_stop(Reached))
        layer.mlp.register_forward_pre_hook(lambda *_: self._look("kept", "second_norm"))
        layer.mlp.register_forward_hook(lambda _, __, out: self._keep("mlp", "layer.mlp", out))

    def _keep(self, name: str, anchor: str, tensor: Any) -> None:
        self.stream.add(self.index, name, tensor, self.table.site(anchor))

    def _enter(self, _norm: Any, args: tuple[Any, ...]) -> None:
        if len(args) == 1:  # the first layer's first norm: what it is given is kept as the residual, too
            self._residual, self._before = args[0], args[0].detach().clone()
            self._keep("input", "layer.first_norm", self._before)
        self.recorder.drain()
        self.recorder.open("norm")

    def _leave(self, step: str) -> Callable[..., None]:
        def leave(_norm: Any, args: tuple[Any, ...], output: Any) -> None:
            self.recorder.close()
            self._lived = self.recorder.release()
            first = step == "norm"
            if len(args) == 2:
                (made, self._residual) = output
                (self._before,) = self.recorder.values("norm.added.residual", "norm")
                self._keep("input" if first else "middle", "norm.added.residual", self._before)
            else:
                made = output
            alone = "layer.norm_alone" if len(args) == 1 else "layer.norm"
            self._keep(step, alone if first else "layer.second_norm", made)

        return leave

    def _look(self, name: str, step: str) -> None:
        """Look at the residual again, now that it is about to be used."""
        self._keep(name, "norm.added.residual" if self._by_sum else "layer.first_norm", self._residual)
        if not self._before.equal(self._residual):
            self.stream.written.append(self._how(name))
        self._lived = []

    @property
    def _by_sum(self) -> bool:
        return any(one.anchor.startswith("norm.added") for one in self._lived)

    def _how(self, name: str) -> Written:
        """Return which expressions wrote into the residual's memory, and which one should have made a copy."""
        own = storage(self._residual)
        inside = [one for one in self._lived if one.storage == own]
        alias = "norm.added.residual" if self._by_sum else "norm.alone.float"
        writes = [one for one in inside if one.anchor.endswith((".scaled", ".weighted"))]
        start = next((one.version for one in inside if one.anchor == alias), inside[0].version if inside else 0)
        return Written(
            layer=self.index,
            step=name,
            alias=self.table.site(alias),
            writes=tuple(self.table.site(one.anchor) for one in writes),
            victim=self.table.site("norm.added.residual" if self._by_sum else "layer.first_norm"),
            versions=(start, int(self._residual._version)),
            changed=float((self._before.double() - self._residual.double()).abs().max()),
        )


def _stop(reached: type[Exception]) -> Callable[..., None]:
    def stop(*_: Any) -> None:
        raise reached

    return stop
