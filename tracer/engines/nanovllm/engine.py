"""Run one layer of a checkpoint on nano-vllm's own code and return everything that was captured.

Top to bottom: find the anchors in the pinned files, load these as modules, build the model under instrumented code, run
it to the asked layer's attention, look at what moves when that attention is run again, and hand on plain records, the
same as for every engine. Must not know: pages.
"""

import contextlib
import importlib.metadata
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tracer.capture.instrument import instrument
from tracer.capture.recorder import Recorder
from tracer.checkpoint.checkpoint import Checkpoint
from tracer.engines.arrays import to_array, torch_dtype
from tracer.engines.nanovllm import sources, steps, weights
from tracer.engines.nanovllm.attention import from_kernel
from tracer.engines.nanovllm.kernels import Watched
from tracer.engines.nanovllm.modules import load
from tracer.engines.nanovllm.phase import CONTEXT, PREFILL, Phase, Scheduled, schedule
from tracer.engines.nanovllm.weights import Built
from tracer.engines.transformers.effects import Call, observe
from tracer.engines.transformers.engine import Wanted
from tracer.engines.transformers.steps import lineage as seen_path
from tracer.errors import Unsupported
from tracer.kernels.choose import ChosenKernel
from tracer.records import Capture, LayerTrace, Token
from tracer.source import anchors, lineage
from tracer.source.anchors import Definitions, Table
from tracer.texts import Message, message

_PACKAGES = ("tracer", "torch", "transformers", "numpy", "safetensors", "tokenizers")


@dataclass(frozen=True)
class Code:
    """nano-vllm's code, ready to run: its version, its places, its live modules and the watched kernel functions."""

    version: str
    defined: Definitions
    table: Table
    modules: Mapping[str, Any]
    watched: tuple[Watched, ...]


class _Reached(Exception):
    """The asked layer's attention has ended: nothing after it is wanted. Never leaves the engine."""


class _Attention(Call):
    """One call of nano-vllm's attention module, whose tensors have no batch axis."""

    def again(self, hidden: Any) -> Any:
        """Return the module's output [1, T, C] for ``hidden`` [1, T, C] in place of what it was given."""
        return self.module(self.arguments["positions"], hidden[0])[None]


def trace_layer(
    checkpoint: Checkpoint, tokens: tuple[Token, ...], wanted: Wanted, phase: Phase = PREFILL
) -> LayerTrace:
    """Return the trace of one layer, all heads.

    ``phase`` says how the prompt comes in: whole, behind a cached prefix, or its last token alone (decode). The rows of
    the trace are then the new tokens' only, its keys and values everyone's. Raises InputError where nano-vllm's files
    are not here, Unsupported where they cannot run what is asked for.
    """
    recorder = Recorder()
    code = read_code(wanted, recorder)
    model = checkpoint.model_facts(wanted.request.layer)
    call, built, damaged = _forward(checkpoint, wanted, recorder, code, phase)
    attention = from_kernel(code.table, code.watched)
    effects = observe(call, attention.q, attention.k, attention.v, attention.scale, model.window, wanted.heads)
    hidden = Capture("hidden", "x", ("T", "C"), to_array(call.hidden[0]), code.table.site("attention.hidden"), "x")
    received = {"scale": attention.scale, "causal": attention.causal}
    way = "decode" if phase.decode else "prefill"
    paths = {
        value: seen_path(
            code.table, lineage.path(code.table, code.defined.paths[value][way]), recorder, received[value]
        )
        for value in received
    }
    return LayerTrace(
        request=wanted.request,
        versions=_versions(code.version),
        checkpoint=checkpoint.facts(),
        model=model,
        tokens=tokens,
        scale=paths["scale"],
        causal=paths["causal"],
        kernel=attention.record(wanted.kernel.provider),
        captures={"hidden": hidden, **steps.captures(code.table, recorder), **attention.inputs()},
        effects=effects,
        warnings=(*checkpoint.warnings, *_left_out(checkpoint, built, damaged)),
    )


def read_code(wanted: Wanted, recorder: Recorder) -> Code:
    """Return nano-vllm's code with the chosen kernel lent to it.

    Raises InputError where its files are not here, Unsupported for a kernel that it never calls.
    """
    found = sources.read()
    defined = anchors.definitions(sources.PROJECT)
    table = anchors.table(defined, {key: found.files[member] for key, member in defined.files.items()}, wanted.cache)
    watched = _watched(wanted.kernel, recorder)
    modules = load(found.files, {kernel.name: kernel for kernel in watched})
    return Code(found.version, defined, table, modules, watched)


def _watched(kernel: ChosenKernel, recorder: Recorder) -> tuple[Watched, ...]:
    if kernel.varlen is None or kernel.with_kvcache is None:
        raise Unsupported("nanovllm.kernel", kernel=kernel.kind)
    functions = {"flash_attn_varlen_func": kernel.varlen, "flash_attn_with_kvcache": kernel.with_kvcache}
    return tuple(Watched(name, function, recorder) for name, function in functions.items())


def _forward(
    checkpoint: Checkpoint, wanted: Wanted, recorder: Recorder, code: Code, phase: Phase
) -> tuple[Call, Built, bool]:
    """Return the asked layer's attention call on the last part of the prompt, after running all parts, the model, and
    whether its first norm wrote into the residual."""
    import torch

    request, kernel = wanted.request, wanted.kernel
    parts = schedule(request.token_ids, phase)
    checkpoint.require_layers(request.layer)
    dtype, length = torch_dtype(request.dtype.value), len(request.token_ids)
    code_swapped = instrument(code.table, steps.probed(code.table), code.modules)
    with code_swapped.swapped(recorder), torch.no_grad():
        with recorder.during("construct"):
            built = weights.build(checkpoint, code.modules, request.layer, length, dtype, kernel.device)
        built.fill_on_demand()
        damaged = _watch_residual(built.model)
        if phase.cached:
            built.give_caches(phase.page, phase.pages(length))
        caught: list[Call] = []
        for part in parts:
            hooks = _watch(built.model, recorder if part is parts[-1] else None, caught, wanted)
            try:
                with contextlib.suppress(_Reached):
                    _run(built, part)
            finally:
                recorder.close()
                for hook in hooks:
                    hook.remove()
    if not caught:
        raise Unsupported("engine.not_reached", layer=request.layer)
    return caught[-1], built, bool(damaged)


def _run(built: Built, part: Scheduled) -> None:
    """Run the model over one part of the prompt, told to nano-vllm as its own scheduler tells it."""
    built.modules[CONTEXT].set_context(**part.context(built.device))
    built.model(built.embed(part.ids), part.positions(built.device))


def _watch(model: Any, recorder: Recorder | None, caught: list[Call], wanted: Wanted) -> list[Any]:
    """Stop the model at the end of the asked attention, which is recorded where there is a recorder."""
    attention = model.layers[-1].self_attn
    entered: dict[str, Any] = {}

    def enter(_module: Any, args: tuple[Any, ...]) -> None:
        positions, hidden = args
        entered.update(positions=positions, hidden=hidden.detach().clone()[None])
        if recorder is not None:
            recorder.open("attention")

    def leave(module: Any, _args: Any, output: Any) -> None:
        if recorder is not None:
            recorder.close()
            arguments = {"positions": entered["positions"]}
            caught.append(_Attention(module, entered["hidden"], arguments, output.detach().clone()[None]))
        raise _Reached

    hooks = [attention.register_forward_pre_hook(enter), attention.register_forward_hook(leave)]
    if wanted.progress is not None:
        report, total = wanted.progress, len(model.layers)
        for index, layer in enumerate(model.layers):
            hooks.append(layer.register_forward_pre_hook(lambda *_, done=index: report(done, total)))
    return hooks


def _left_out(checkpoint: Checkpoint, built: Built, damaged: bool) -> tuple[Message, ...]:
    """Return where nano-vllm departs from the model that this checkpoint describes."""
    settings = checkpoint.settings
    said = []
    if settings.rope["rope_type"] != "default":
        said.append(
            message("nanovllm.rope_scaling", type=settings.rope["rope_type"], factor=settings.rope.get("factor"))
        )
    if settings.window is not None and "sliding_attention" in settings.layer_types:
        count = settings.layer_types.count("sliding_attention")
        said.append(message("nanovllm.window", window=settings.window, layers=count))
    if built.unread:
        said.append(message("nanovllm.unread", tensors=", ".join(built.unread[:4]), count=len(built.unread)))
    if damaged:
        said.append(message("nanovllm.residual"))
    return tuple(said)


def _watch_residual(model: Any) -> list[bool]:
    """Return a list that is no longer empty once the first norm has changed what it was given.

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


def _versions(version: str) -> dict[str, str]:
    installed = {package: importlib.metadata.version(package) for package in _PACKAGES}
    return {"python": platform.python_version(), sources.PROJECT: version, **installed}
