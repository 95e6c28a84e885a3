"""The one call that computed attention: what it was given and what it gave, for a watched kernel or for transformers'
own sdpa and eager paths, in one layout ([T, heads, D]).

Must not know: how the model is run, what is shown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracer.arrays import Array
from tracer.capture.recorder import Sightings
from tracer.engines.arrays import dtype_name, to_array
from tracer.engines.transformers.lending import KernelSeen
from tracer.errors import Unsupported
from tracer.records import Capture, KernelCall, Site
from tracer.source.anchors import Table

_LETTERS = {"q": ("Q", "H"), "k": ("K", "K"), "v": ("V", "K")}
# An integer tensor of a call is shown by its values up to this many, a longer one by its shape.
_SHOWN = 64


@dataclass(frozen=True)
class Attention:
    """q [T, H, D], k, v [T, K, D], output [T, H, D], lse [H, T] or None, all torch; scale and causal as received.

    ``owned``: nothing else will write into these tensors, so records may share their memory.
    """

    function: str
    q: Any
    k: Any
    v: Any
    output: Any
    lse: Any
    scale: float
    causal: bool | None
    arguments: Mapping[str, object]
    site: Site
    sites: Mapping[str, Site]
    owned: bool = False

    def record(self, provider: str) -> KernelCall:
        """Return the call as a record without torch."""
        lse = None if self.lse is None else to_array(self.lse, owned=self.owned)
        output = to_array(self.output, owned=self.owned)
        return KernelCall(self.function, provider, self.arguments, self.site, output, lse)

    def inputs(self) -> dict[str, Capture]:
        """Return q, k and v as captures."""
        return {
            name: Capture(name, letter, ("T", heads, "D"), self._array(name), self.sites[name], letter)
            for name, (letter, heads) in _LETTERS.items()
        }

    def _array(self, name: str) -> Array:
        return to_array(getattr(self, name), owned=self.owned)


def from_kernel(table: Table, calls: Sequence[KernelSeen]) -> Attention:
    """Return the call that a watched kernel saw; raises Unsupported unless it was called exactly once."""
    if len(calls) != 1:
        raise Unsupported("engine.kernel_calls", count=len(calls))
    (seen,) = calls
    given = dict(seen.arguments)
    return Attention(
        function="flash_attn_varlen_func",
        q=given.pop("q"),
        k=given.pop("k"),
        v=given.pop("v"),
        output=seen.output,
        lse=seen.lse,
        scale=given["softmax_scale"],
        causal=given["causal"],
        arguments={name: plain(value) for name, value in given.items()},
        site=table.site("kernel.call"),
        sites={name: table.site(f"kernel.{name}") for name in _LETTERS},
        owned=True,  # a watch copies
    )


def from_interface(table: Table, way: str, seen: Sightings) -> Attention:
    """Return the call of transformers' attention interface on its sdpa or eager path.

    Queries, keys and values are taken at the interface's arguments: the sdpa path may repeat, crop or pack them after.
    """
    q, k, v = (_tokens_first(_only(seen, f"attention.interface.{name}")) for name in _LETTERS)
    output, _ = _only(seen, "attention.interface")
    mask = _only(seen, "attention.interface.mask")
    scale = _only(seen, f"scale.{way}")
    arguments = {"attention_mask": plain(mask), "scaling": scale}
    causal = None
    if way == "sdpa":
        causal = _only(seen, "causal.sdpa")
        arguments["is_causal"] = causal
    function = "torch.nn.functional.scaled_dot_product_attention" if way == "sdpa" else "eager_attention_forward"
    return Attention(
        function=function,
        q=q,
        k=k,
        v=v,
        output=output[0],
        lse=None,
        scale=scale,
        causal=causal,
        arguments=arguments,
        site=table.site("sdpa.call" if way == "sdpa" else "attention.interface"),
        sites={name: table.site(f"attention.interface.{name}") for name in _LETTERS},
        owned=True,  # probes copy
    )


def _only(seen: Sightings, anchor: str) -> Any:
    values = seen.values(anchor, "attention")
    if len(values) != 1:
        raise Unsupported("engine.seen_times", anchor=anchor, count=len(values))
    return values[0]


def _tokens_first(tensor: Any) -> Any:
    """[1, heads, T, D] → [T, heads, D]."""
    return tensor[0].transpose(0, 1).contiguous()


def plain(value: Any) -> object:
    """Return an argument as JSON can hold it: small integer tensors by value, others by shape and dtype."""
    if not hasattr(value, "detach"):
        return list(value) if isinstance(value, tuple) else value
    if not value.is_floating_point() and value.numel() <= _SHOWN:
        return value.tolist()
    return {"shape": list(value.shape), "dtype": dtype_name(value.dtype)}
