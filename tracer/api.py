"""The functions a Python user calls. Heavy imports happen inside them.

Must not know: anything the pipeline knows.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracer.result import Trace


def trace(
    checkpoint: str | None = None,
    *,
    revision: str | None = None,
    layer: int = 0,
    head: int = 0,
    query: int | None = None,
    prompt: str | None = None,
    tokens: Sequence[int] | None = None,
    chat: bool = False,
    engine: str = "transformers",
    kernel: str = "auto",
    device: str = "auto",
    dtype: str = "auto",
) -> "Trace":
    """Return the trace of one attention head: captures, places, scale and causal lineage, reference, checks.

    ``checkpoint`` is a folder, a hub id, or None for the shipped qwen3-tiny. Every captured tensor is under
    ``trace.layer.captures``: its name, axes, exact bits (``.array.numbers()``) and the source expression that made it.
    Raises InputError for what cannot be done as asked, Unsupported for what cannot be done here.
    """
    from tracer import pipeline

    return pipeline.trace(
        checkpoint,
        revision=revision,
        layer=layer,
        head=head,
        query=query,
        prompt=prompt,
        tokens=tokens,
        chat=chat,
        engine=engine,
        kernel=kernel,
        device=device,
        dtype=dtype,
        all_heads=True,
    )
