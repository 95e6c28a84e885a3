"""``--device-map auto``: the whole model spread over the devices of this machine as transformers spreads it, and where
each layer lies.

Must not know: probes, pages.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from tracer.checkpoint.checkpoint import Checkpoint
from tracer.engines.transformers import engine, loading
from tracer.engines.transformers.definitions import Code
from tracer.engines.transformers.engine import Wanted
from tracer.errors import Unsupported
from tracer.records import Choice, LayerTrace, Token
from tracer.texts import Message, message

_CPU = "cpu"


def trace_layers(
    checkpoint: Checkpoint, tokens: tuple[Token, ...], wanted: Wanted, layers: Sequence[int], device_map: Any = None
) -> tuple[LayerTrace, ...]:
    """Return the trace of each of ``layers``, each told with the device it ran on and where all others lie.

    Where torch finds nothing but the CPU, all layers lie there: they are brought one at a time, as ever. ``device_map``
    may be given as from_pretrained takes it. Raises Unsupported where the kernel cannot follow the layers, where
    accelerate is missing, and where transformers would put part of the model on the disk.
    """
    if device_map is None and loading.accelerator() is None:
        where = _told([_CPU] * checkpoint.settings.layers, alone=True)
        return tuple(_placed(trace, _CPU, where) for trace in engine.trace_layers(checkpoint, tokens, wanted, layers))
    loading.require_accelerate("parallel.no_accelerate_map")
    lying: list[str] = []
    running: list[str] = []

    def load(checkpoint: Checkpoint, _last: int, code: Code) -> Any:
        checkpoint.require_layers(checkpoint.settings.layers - 1, attention_only_for_last=False)
        dtype, attention = wanted.request.dtype.value, wanted.kernel.attn_implementation
        try:
            model = loading.load(checkpoint, dtype, attention, code, device_map=device_map or "auto")
        except ValueError as fault:  # transformers asks for an offload folder
            raise Unsupported("parallel.not_placed", fault=str(fault).splitlines()[0]) from fault
        lying.extend(loading.layer_devices(model))
        running.extend(loading.running_devices(model))
        return model

    traced = engine.trace_layers(checkpoint, tokens, replace(wanted, load=load, light=False), layers)
    where = _told(lying)
    return tuple(_placed(trace, running[trace.request.layer], where) for trace in traced)


def _placed(trace: LayerTrace, device: str, where: Message) -> LayerTrace:
    request = replace(trace.request, device=Choice(device, where))
    return replace(trace, request=request, warnings=(where, *trace.warnings))


def _told(devices: Sequence[str], alone: bool = False) -> Message:
    """Return the sentence that says where each layer lies: neighbours on one device drawn together."""
    runs = []
    for device, run in groupby(enumerate(devices), key=lambda placed: placed[1]):
        numbers = [number for number, _ in run]
        span = str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}–{numbers[-1]}"
        runs.append(f"{span} → {device}")
    return message("parallel.map_cpu" if alone else "parallel.map", where=", ".join(runs))
