"""Run nano-vllm's model over a prompt, up to the last asked layer's attention, and catch the asked layers' calls.

Must not know: records, what captures are called.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tracer.capture.instrument import instrument
from tracer.capture.recorder import Recorder, Seen, Sightings
from tracer.checkpoint.checkpoint import Checkpoint
from tracer.engines.arrays import torch_dtype
from tracer.engines.nanovllm import steps, weights
from tracer.engines.nanovllm.code import Code
from tracer.engines.nanovllm.phase import CONTEXT, Phase, Scheduled, schedule
from tracer.engines.nanovllm.weights import Built
from tracer.engines.transformers.effects import Call
from tracer.engines.transformers.engine import Wanted
from tracer.engines.transformers.lending import KernelSeen
from tracer.errors import Unsupported

Made = TypeVar("Made")


class Reached(Exception):
    """The last asked layer's attention has ended: nothing after it is wanted. Never leaves the engine."""


class Attention(Call):
    """One call of nano-vllm's attention module, whose tensors have no batch axis."""

    def again(self, hidden: Any) -> Any:
        """Return the module's output [1, T, C] for ``hidden`` [1, T, C] in place of what it was given."""
        return self.module(self.arguments["positions"], hidden[0])[None]


@dataclass(frozen=True)
class Caught:
    """What the window of one layer caught; ``kernel`` are the calls of flash-attn's functions, by name."""

    layer: int
    call: Attention
    seen: Sightings
    kernel: list[tuple[str, KernelSeen]]


@dataclass(frozen=True)
class Ran(Generic[Made]):
    """What was made of each layer that a run caught, and where nano-vllm departs from the checkpoint's model: tensors
    that it has no place for, and whether its first norm wrote into the residual."""

    made: list[Made]
    unread: tuple[str, ...]
    damaged: bool


def run(
    checkpoint: Checkpoint,
    wanted: Wanted,
    recorder: Recorder,
    code: Code,
    phase: Phase,
    layers: Sequence[int],
    make: Callable[[Caught], Made],
) -> Ran[Made]:
    """Return what ``make`` makes of the asked layers' attention calls (``layers`` ascending) on the last part of the
    prompt.

    It is called as soon as that attention has ended, on the code's own, before the layer's weights go.
    """
    import torch

    request, device, last = wanted.request, wanted.kernel.device, layers[-1]
    parts = schedule(request.token_ids, phase)
    checkpoint.require_layers(last)
    dtype, length = torch_dtype(request.dtype.value), len(request.token_ids)
    instrumented = instrument(code.table, steps.probed(code.table), code.modules)
    with instrumented.swapped(recorder), torch.no_grad():
        with recorder.during("construct"):
            built = weights.build(checkpoint, code.modules, last, length, dtype, device)
        built.fill_on_demand()
        if phase.cached:
            built.give_caches(phase.page, phase.pages(length))
        damaged = watch_residual(built.model)
        constructed, made = recorder.drain(), list[Made]()

        def caught(one: Caught) -> None:
            with instrumented.paused():
                made.append(make(one))
            if one.layer == last:
                raise Reached

        for part in parts:
            if part is parts[-1]:
                hooks = _Watch(code, recorder, constructed, caught).on(built.model, layers)
                hooks += _progress(built.model, wanted)
            else:
                hooks = [built.model.layers[last].self_attn.register_forward_hook(_stop)]
            try:
                with contextlib.suppress(Reached):
                    run_part(built, part)
            finally:
                recorder.close()
                for hook in hooks:
                    hook.remove()
    if len(made) != len(layers):
        raise Unsupported("engine.not_reached", layer=last)
    return Ran(made, tuple(built.unread), bool(damaged))


def run_part(built: Built, part: Scheduled) -> None:
    """Run the model over one part of the prompt, told to nano-vllm as its own scheduler tells it."""
    built.modules[CONTEXT].set_context(**part.context(built.device))
    built.model(built.embed(part.ids), part.positions(built.device))


def watch_residual(model: Any) -> list[bool]:
    """Return a list that is no longer empty once the first norm has changed the tensor that it was given.

    That tensor is also the residual, which every later layer builds on.
    """
    found: list[bool] = []
    kept: list[Any] = []
    norm = model.layers[0].input_layernorm

    def leave(_module: Any, args: tuple[Any, ...], _output: Any) -> None:
        if not kept.pop().equal(args[0]):
            found.append(True)

    norm.register_forward_pre_hook(lambda _, args: kept.append(args[0].detach().clone()))
    norm.register_forward_hook(leave)
    return found


def _stop(*_: Any) -> None:
    raise Reached


def _progress(model: Any, wanted: Wanted) -> list[Any]:
    if wanted.progress is None:
        return []
    report, total = wanted.progress, len(model.layers)
    return [
        layer.register_forward_pre_hook(lambda *_, done=index: report(done, total))
        for index, layer in enumerate(model.layers)
    ]


@dataclass(frozen=True)
class _Watch:
    """Opens a window around each asked attention and hands on what it caught."""

    code: Code
    recorder: Recorder
    before: list[Seen]  # what was seen while the model was constructed
    caught: Callable[[Caught], None]

    def on(self, model: Any, layers: Sequence[int]) -> list[Any]:
        """Return the hooks, to be removed after the run."""
        return [hook for layer in layers for hook in self._attention(model.layers[layer].self_attn, layer)]

    def _attention(self, attention: Any, layer: int) -> list[Any]:
        entered: dict[str, Any] = {}

        def enter(_module: Any, args: tuple[Any, ...]) -> None:
            positions, hidden = args
            entered.update(positions=positions, hidden=hidden.detach().clone()[None])
            self.recorder.open("attention")

        def leave(module: Any, _args: Any, output: Any) -> None:
            self.recorder.close()
            for hook in hooks:
                hook.remove()
            call = Attention(
                module, entered["hidden"], {"positions": entered["positions"]}, output.detach().clone()[None]
            )
            seen = Sightings([*self.before, *self.recorder.drain()])
            kernel = [(function.name, seen) for function in self.code.watched for seen in function.drain()]
            self.caught(Caught(layer, call, seen, kernel))

        # Both go once the attention has ended: running it again must be an ordinary call.
        hooks = [attention.register_forward_pre_hook(enter), attention.register_forward_hook(leave)]
        return hooks
