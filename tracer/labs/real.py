"""Real heads for a lab: from a saved trace, or, where a reader asks for it, from a run of a model.

A saved trace needs no torch; a run does. Must not know: what a lab does with heads.
"""

from dataclasses import dataclass
from pathlib import Path

from tracer.bounds import check_head
from tracer.errors import InputError
from tracer.maths.attention import Head, head
from tracer.maths.visibility import Visibility
from tracer.records import LayerTrace
from tracer.texts import Message, message

MOST_TOKENS = 1024  # what comes later in a prompt changes no earlier row
MOST_HEADS = 64


@dataclass(frozen=True, eq=False)
class Heads:
    """Heads of one layer, by their number; ``tokens`` of the prompt's ``of`` are looked at."""

    checkpoint: str
    layer: int
    tokens: int
    of: int
    heads: tuple[tuple[int, Head], ...]
    origin: Message


def from_file(path: Path, number: int | None) -> Heads:
    """Return the heads (or head ``number``) of a saved trace; raises InputError."""
    from tracer.saved.read import load

    return _heads(load(path), number, message("labs.real_saved", file=path.name))


def from_run(checkpoint: str | None, revision: str | None, layer: int, number: int | None, prompt: str | None) -> Heads:
    """Return the heads of a layer of a model, run now; raises what a trace raises."""
    from tracer import pipeline

    traced = pipeline.trace(checkpoint, revision=revision, layer=layer, head=number or 0, prompt=prompt)
    return _heads(traced.layer, number, message("labs.real_run"))


def _heads(layer: LayerTrace, number: int | None, origin: Message) -> Heads:
    if number is not None:
        check_head(number, layer.model.heads)
    numbers = range(min(layer.model.heads, MOST_HEADS)) if number is None else (number,)
    q, k, v = (layer.captures[name].array for name in ("q", "k", "v"))
    tokens = min(q.shape[0], MOST_TOKENS)
    if tokens < 3 or q.shape[0] != k.shape[0]:
        raise InputError("labs.real_short", found=q.shape[0])
    window = layer.model.window
    visibility = Visibility(tq=tokens, tk=tokens, left=None if window is None else window - 1)
    scale = layer.model.head_dim**-0.5 if layer.scale.value is None else float(layer.scale.value)
    heads = tuple(
        (
            each,
            head(
                q[:tokens, each].float64(),
                k[:tokens, layer.model.kv_head(each)].float64(),
                v[:tokens, layer.model.kv_head(each)].float64(),
                scale,
                visibility,
            ),
        )
        for each in numbers
    )
    return Heads(layer.checkpoint.name, layer.request.layer, tokens, q.shape[0], heads, origin)
