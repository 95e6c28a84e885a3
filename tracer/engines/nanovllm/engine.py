"""Run layers of a checkpoint on nano-vllm's own code and return everything that was captured, as every engine does.

Must not know: pages.
"""

import importlib.metadata
import platform
from collections.abc import Sequence
from dataclasses import replace

from tracer.capture.recorder import Recorder
from tracer.checkpoint.checkpoint import Checkpoint
from tracer.engines.ambient import plain
from tracer.engines.arrays import to_array
from tracer.engines.nanovllm import sources, steps
from tracer.engines.nanovllm.attention import from_kernel
from tracer.engines.nanovllm.code import Code, ready
from tracer.engines.nanovllm.departures import Run, departures
from tracer.engines.nanovllm.phase import PREFILL, Phase
from tracer.engines.nanovllm.run import Caught, run
from tracer.engines.transformers.effects import observe
from tracer.engines.transformers.engine import Wanted
from tracer.engines.transformers.steps import lineage as followed
from tracer.lineage.hops import path
from tracer.records import Capture, LayerTrace, Token

_PACKAGES = ("tracer", "torch", "transformers", "numpy", "safetensors", "tokenizers")


def trace_layer(
    checkpoint: Checkpoint, tokens: tuple[Token, ...], wanted: Wanted, phase: Phase = PREFILL
) -> LayerTrace:
    """Return the trace of the requested layer, all heads (see trace_layers)."""
    return trace_layers(checkpoint, tokens, wanted, (wanted.request.layer,), phase)[0]


def trace_layers(
    checkpoint: Checkpoint, tokens: tuple[Token, ...], wanted: Wanted, layers: Sequence[int], phase: Phase = PREFILL
) -> tuple[LayerTrace, ...]:
    """Return the trace of each of ``layers`` (ascending), all heads, from one pass that stops after the last.

    ``phase`` says how the prompt comes in: whole, behind a cached prefix, or its last token alone (decode). The rows of
    the trace are then the new tokens' only, its keys and values everyone's. Raises InputError where nano-vllm's files
    are not here, Unsupported where they cannot run what is asked for.
    """
    recorder = Recorder()
    with plain(wanted.kernel.device):
        code = ready(wanted.kernel, recorder, wanted.cache)
        way = "decode" if phase.decode else "prefill"

        def made(caught: Caught) -> LayerTrace:
            return _trace(checkpoint, tokens, wanted, code, way, caught)

        ran = run(checkpoint, wanted, recorder, code, phase, layers, made)
        found = departures(checkpoint, Run(ran.unread, ran.damaged, len(tokens)))
        warnings = (*checkpoint.warnings, *found)
        return tuple(replace(trace, warnings=warnings) for trace in ran.made)


def _trace(
    checkpoint: Checkpoint, tokens: tuple[Token, ...], wanted: Wanted, code: Code, way: str, caught: Caught
) -> LayerTrace:
    table, facts = code.table, checkpoint.model_facts(caught.layer)
    attention = from_kernel(table, caught.kernel)
    effects = observe(
        caught.call, attention.q, attention.k, attention.v, facts.head_dim**-0.5, facts.window, wanted.heads
    )
    hidden = Capture("hidden", "x", ("T", "C"), to_array(caught.call.hidden[0]), table.site("attention.hidden"), "x")
    received = {"scale": attention.scale, "causal": attention.causal}
    hops = {value: path(table, code.defined.paths[value][way]) for value in received}
    paths = {value: followed(table, hops[value], caught.seen, received[value]) for value in received}
    return LayerTrace(
        request=replace(wanted.request, layer=caught.layer),
        versions=_versions(code.version),
        checkpoint=checkpoint.facts(),
        model=facts,
        tokens=tokens,
        scale=paths["scale"],
        causal=paths["causal"],
        kernel=attention.record(wanted.kernel.provider),
        captures={"hidden": hidden, **steps.captures(table, caught.seen), **attention.inputs()},
        effects=effects,
    )


def _versions(version: str) -> dict[str, str]:
    installed = {package: importlib.metadata.version(package) for package in _PACKAGES}
    return {"python": platform.python_version(), sources.PROJECT: version, **installed}
