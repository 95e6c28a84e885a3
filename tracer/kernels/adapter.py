"""Call any version of flash-attn in the words of flash-attn 2, every argument by its name.

The versions order their parameters differently and name some otherwise: FlashAttention 3 has no ``dropout_p`` and says
``page_table``, FlashAttention 4 also says ``return_lse``, writes an open window as None and always returns a pair. What
a version has no word for is refused unless it asks for nothing. Must not know: devices, which version is chosen.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from itertools import pairwise, takewhile
from typing import Any

from tracer.errors import Unsupported

Function = Callable[..., Any]

_WITH_KVCACHE = "flash_attn_with_kvcache"
# Our word → what versions say instead.
_OTHER_WORDS = {"block_table": "page_table"}
# What asks for the logsumexp: in our words, for the function over a cache and for the others; and as versions have it.
_ASK_CACHE, _ASK = "return_softmax_lse", "return_attn_probs"
_ASKS = (_ASK, _ASK_CACHE, "return_lse")
# The words of flash-attn 2.8 that some version lacks, and the value of each that asks for nothing.
_NOTHING: Mapping[str, Any] = {
    "dropout_p": 0.0,
    "window_size": (-1, -1),
    "softcap": 0.0,
    "alibi_slopes": None,
    "deterministic": False,
    "block_table": None,
    "cache_batch_idx": None,
    "cache_leftpad": None,
    "num_splits": 0,
}
# flash-attn 2.8's own order, up to where its versions part.
_LENGTHS = "cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k"
_ORDERS = {
    "flash_attn_varlen_func": f"q k v {_LENGTHS} dropout_p softmax_scale causal",
    "flash_attn_func": "q k v dropout_p softmax_scale causal",
    _WITH_KVCACHE: "q k_cache v_cache k v rotary_cos rotary_sin cache_seqlens",
}


class Adapted:
    """A function of some version of flash-attn, to be called like flash-attn 2's of the same name.

    Its signature has the version's own parameters in flash-attn 2's words. By position it takes them in flash-attn 2's
    order, up to the first that this version lacks; the rest by name. The logsumexp comes only on request, as (out, lse,
    None), from the function over a cache as (out, lse): lse fp32 [H, total_q] for packed sequences, [B, H, Tq] for a
    batch.
    """

    def __init__(self, function: Function, kind: str, name: str) -> None:
        """``name``: which of flash-attn's functions it is. Raises Unsupported where the signature tells no names."""
        functools.update_wrapper(self, function)
        self.kind, self.name = kind, name
        own = _parameters(function)
        if not own or any(each.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD) for each in own.values()):
            raise Unsupported("kernels.no_names", kernel=kind, function=name)
        self._function = function
        self._ask = _ASK_CACHE if name == _WITH_KVCACHE else _ASK
        self._own_ask = next((each for each in _ASKS if each in own), None)
        self._theirs = {ours: theirs for ours, theirs in _OTHER_WORDS.items() if theirs in own and ours not in own}
        self._open_is_none = "window_size" in own and own["window_size"].default == (None, None)
        self.__signature__ = self._in_our_words(own)

    @property
    def gives_lse(self) -> bool:
        """Whether it hands out the logsumexp on request."""
        return self._own_ask is not None

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
        """Return the arguments of a call by name, leaving out what asks for nothing and this version has no word for.

        Raises Unsupported for any other argument that this version does not have.
        """
        known = self.__signature__.parameters
        given = {}
        for name, value in kwargs.items():
            if name in known:
                given[name] = value
            elif not (name in _NOTHING and _same(value, _NOTHING[name])):
                raise Unsupported(
                    "kernels.unknown_argument",
                    kernel=self.kind,
                    function=self.name,
                    argument=name,
                    given=_told(value),
                    known=", ".join(known),
                )
        try:
            bound = self.__signature__.bind(*args, **given)
            if "window_size" in bound.arguments:
                bound.arguments["window_size"] = _window(bound.arguments["window_size"])
            return bound
        except TypeError as fault:
            raise Unsupported("kernels.call", kernel=self.kind, function=self.name, fault=str(fault)) from fault

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the function gives. Raises Unsupported for what this version does not have."""
        given = dict(self.bind(args, kwargs).arguments)
        asked = bool(given.pop(self._ask, False))
        inner = {self._theirs.get(name, name): value for name, value in given.items()}
        if self._open_is_none and "window_size" in inner:
            inner["window_size"] = tuple(None if side is None or side < 0 else side for side in inner["window_size"])
        if asked and self._own_ask is None:
            raise Unsupported("kernels.no_lse", kernel=self.kind, function=self.name)
        if asked and self._own_ask is not None:
            inner[self._own_ask] = True
        result = self._function(**inner)
        if not asked:
            return result[0] if isinstance(result, tuple) else result
        output, lse, *_ = result
        rows = self._by_row(lse, given)
        return (output, rows) if self.name == _WITH_KVCACHE else (output, rows, None)

    def _in_our_words(self, own: Mapping[str, Parameter]) -> Signature:
        ours = {theirs: word for word, theirs in self._theirs.items()}
        asks = {*_ASKS, self._ask}
        named = {ours.get(name, name): each for name, each in own.items() if name not in asks}
        if self._open_is_none:
            named["window_size"] = named["window_size"].replace(default=(-1, -1))
        first = list(takewhile(named.__contains__, _ORDERS[self.name].split()))
        by_position = [named.pop(name).replace(name=name) for name in first]
        by_name = [each.replace(name=name, kind=Parameter.KEYWORD_ONLY) for name, each in named.items()]
        ask = Parameter(self._ask, Parameter.KEYWORD_ONLY, default=False)
        return Signature([*by_position, *by_name, ask])

    def _by_row(self, lse: Any, given: Mapping[str, Any]) -> Any:
        """Return the logsumexp [H, total_q] or [B, H, Tq]; flash-attn before 2.6 has packed sequences padded, [B, H,
        max_seqlen_q]."""
        q, starts = given["q"], given.get("cu_seqlens_q")
        if starts is not None and lse.dim() == 3:
            import torch

            lengths = [b - a for a, b in pairwise(starts.tolist())]
            lse = torch.cat([lse[n, :, :length] for n, length in enumerate(lengths)], dim=1)
        wanted = (q.shape[0], q.shape[2], q.shape[1]) if starts is None else (q.shape[1], q.shape[0])
        if tuple(lse.shape) != wanted:
            raise Unsupported(
                "kernels.lse_shape", kernel=self.kind, function=self.name, found=tuple(lse.shape), wanted=wanted
            )
        return lse


def bind(function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
    """Return the arguments of a call of ``function`` by name, whatever version it is of."""
    if isinstance(function, Adapted):
        return function.bind(args, kwargs)
    return _signature(function).bind(*args, **kwargs)


@functools.lru_cache(maxsize=16)
def _signature(function: Function) -> Signature:
    return inspect.signature(function)  # a verification asks for the same few thousands of times


def _parameters(function: Function) -> Mapping[str, Parameter]:
    """Return the function's parameters; none where a compiled function does not tell them."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


def _window(sides: Any) -> tuple[int, int]:
    """Return how far a query sees to the left and to the right, −1 where that is open."""
    left, right = (None, None) if sides is None else sides
    return (-1 if left is None else left, -1 if right is None else right)


def _same(value: Any, nothing: Any) -> bool:
    """Return whether ``value`` asks for nothing, without comparing tensors."""
    if nothing is None or isinstance(nothing, bool):
        return value is nothing
    return isinstance(value, int | float | tuple) and value == nothing


def _told(value: Any) -> str:
    return f"{type(value).__name__}{list(value.shape)}" if hasattr(value, "shape") else repr(value)
