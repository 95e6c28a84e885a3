"""The beginning of a traced layer: its first tokens alone. Causal attention of these is what it was in the whole.

Must not know: what it is used for.
"""

from collections.abc import Mapping
from dataclasses import replace

from tracer.arrays import Array
from tracer.records import Capture, Effects, KernelCall, LayerTrace

_ATTENTION = ("q", "k", "v")


def beginning(layer: LayerTrace, tokens: int) -> LayerTrace:
    """Return ``layer`` cut to its first ``tokens`` tokens, ``layer`` itself where it has no more.

    Of the captures only what attention is computed from, and its weights, are cut; the others are left out.
    """
    if len(layer.tokens) <= tokens:
        return layer
    captures = {name: _cut(layer.captures[name], (slice(tokens),)) for name in _ATTENTION}
    if "kernel_weights" in layer.captures:
        part = (slice(None), slice(None), slice(tokens), slice(tokens))
        captures["kernel_weights"] = _cut(layer.captures["kernel_weights"], part)
    effects = layer.effects
    return replace(
        layer,
        request=replace(layer.request, token_ids=layer.request.token_ids[:tokens], query=None),
        tokens=layer.tokens[:tokens],
        captures=captures,
        kernel=_kernel(layer.kernel, tokens),
        effects=Effects(
            effects.untraced_same,
            tuple(change for change in effects.changed if change[0] < tokens) or ((tokens // 2, None, True),),
            effects.eager[:tokens],
            effects.eager_heads,
        ),
    )


def _cut(capture: Capture, part: tuple[slice, ...]) -> Capture:
    return replace(capture, array=_part(capture.array, part))


def _part(array: Array, part: tuple[slice, ...]) -> Array:
    return array[part]


def _kernel(kernel: KernelCall, tokens: int) -> KernelCall:
    arguments: Mapping[str, object] = {
        name: _starts(value, tokens) if name.startswith("cu_seqlens") and isinstance(value, list | tuple) else value
        for name, value in kernel.arguments.items()
    }
    lse = None if kernel.lse is None else kernel.lse[:, :tokens]
    return replace(kernel, arguments=arguments, output=kernel.output[:tokens], lse=lse)


def _starts(starts: list[object] | tuple[object, ...], tokens: int) -> list[int]:
    kept = [start for start in starts if isinstance(start, int) and start < tokens]
    return [*kept, tokens]
