"""Whether the tensors of a saved trace have the shapes that its own model, tokens and axes give them.

Must not know: how they were read.
"""

import math
from collections.abc import Mapping

from tracer.arrays import SPACING, Array
from tracer.checkpoint.wording import listed, shape_text, shown
from tracer.errors import InputError
from tracer.records import LayerTrace
from tracer.saved.names import EAGER, KERNEL_LSE, KERNEL_OUTPUT
from tracer.saved.nodes import Node

# Without these, no head can be looked at.
_NEEDED = {"q": ("T", "H", "D"), "k": ("T", "K", "D"), "v": ("T", "K", "D")}
_OF_ALL = ("k", "v")  # of cached tokens, too
_CACHING = ("nano-vllm",)


def rows(tensors: Mapping[str, Array], engine: str, length: int) -> int:
    """Return how many of ``length`` tokens have a query: the last ones, where an engine that can had others cached."""
    q = tensors.get("q")
    if engine not in _CACHING or q is None or not q.shape:
        return length
    return min(max(q.shape[0], 1), length)


def check_bounds(node: Node, queries: int, keys: int) -> None:
    """Raise InputError where a kernel's arguments bound its sequences otherwise than from 0 to the number of queries
    and of keys, upwards."""
    for side, length in (("cu_seqlens_q", queries), ("cu_seqlens_k", keys)):
        bounds = node.value.get(side)
        if not isinstance(bounds, list):
            continue
        whole = all(type(bound) is int for bound in bounds)
        if not whole or not bounds or (bounds[0], bounds[-1]) != (0, length) or bounds != sorted(bounds):
            raise node.wrong("saved.expected_bounds", name=side, length=length)


def check_shapes(trace: LayerTrace, tensors: Mapping[str, Array], node: Node, queries: int) -> None:
    """Raise InputError where a tensor is missing, stray, no float, or of another shape than its axes say; T is the
    number of ``queries``, of k and v that of all tokens."""
    axes = {name: capture.axes for name, capture in trace.captures.items()}
    for name, needed in _NEEDED.items():
        if axes.get(name) != needed:
            raise node.wrong("saved.expected_axes", name=name, axes=", ".join(needed))
    axes[KERNEL_OUTPUT] = ("T", "H", "D")
    axes[EAGER] = ("T", "kept", "D")
    if KERNEL_LSE in tensors:
        axes[KERNEL_LSE] = ("H", "T")
    stray = sorted(tensors.keys() - axes.keys())
    if stray:
        raise node.wrong("saved.expected_no_tensor", names=listed(stray))
    sizes = _sizes(trace, queries)
    for name, letters in axes.items():
        tokens = {"T": sizes["Tk"]} if name in _OF_ALL else {}
        expected = tuple(_size(letter, {**sizes, **tokens}, node) for letter in letters)
        found = tensors[name]
        if found.shape != expected or found.dtype not in SPACING:
            raise InputError(
                "saved.shape",
                file=node.file,
                tensor=name,
                found=f"{found.dtype} {shape_text(found.shape)}",
                expected=f"{'/'.join(SPACING)} {shape_text(expected)}",
            )


def _sizes(trace: LayerTrace, queries: int) -> dict[str, int]:
    model = trace.model
    heads = {"H": model.heads, "K": model.kv_heads, "kept": len(trace.effects.eager_heads)}
    return {
        "B": 1,
        "T": queries,
        "Tq": queries,
        "Tk": len(trace.tokens),
        "D": model.head_dim,
        "D/2": model.head_dim // 2,
        "C": model.hidden_size,
        "(H+2K)": model.heads + 2 * model.kv_heads,
        **heads,
    }


def _size(letter: str, sizes: Mapping[str, int], node: Node) -> int:
    """Return the length of an axis: a letter's, or a product's such as ``H·D``."""
    factors = letter.split("·")
    if not all(factor in sizes for factor in factors):
        raise node.wrong("saved.expected_axis", axis=shown(letter), known=", ".join(sizes))
    return math.prod(sizes[factor] for factor in factors)
