"""Watch the attention of a live model from outside: hooks on modules, a wrapper around attention functions, a function
mode for torch's own kernel. Works on any model whose layers have a ``self_attn``, whatever its code.

Nothing of the model or of torch is different once the ``with`` has ended. Calls on other threads pass unseen. Must not
know: what the numbers should be.
"""

import copy
import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from transformers.modeling_utils import AttentionInterface

from tracer.capture.recorder import Recorder
from tracer.engines.transformers.calls import EVERYTHING, INTERFACE, PARTS, Call, Collected, How
from tracer.engines.transformers.compiled import original
from tracer.engines.transformers.frames import caller
from tracer.engines.transformers.lending import KernelWatch
from tracer.engines.transformers.observed import Place
from tracer.engines.transformers.passing import through
from tracer.engines.transformers.streaming import Reached
from tracer.errors import Unsupported

CACHE_NAMES = ("cache", "past_key_values", "past_key_value")  # the newest first
_SDPA = torch.nn.functional.scaled_dot_product_attention
_DROPOUT = torch.nn.functional.dropout


class PlacedKernel(KernelWatch):
    """A watched kernel that also keeps where each call came from."""

    def __init__(self, function: Callable[..., Any], recorder: Recorder) -> None:
        super().__init__(function, recorder)
        self.places: list[Place | None] = []

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        if self._recorder.window is not None:
            self.places.append(caller())
        return super()._call(*args, **kwargs)

    def clear(self) -> None:
        """Forget all calls so far."""
        self.seen.clear()
        self.places.clear()


class Watch:
    """Watches the attention modules ``layers`` (by layer number) and hands each call to ``consumer`` once it ended."""

    def __init__(
        self,
        layers: Mapping[int, Any],
        rotary: Any,
        consumer: Callable[[Call], None],
        recorder: Recorder,
        kernels: tuple[PlacedKernel, ...] = (),
        stop_after: int | None = None,
        keep: frozenset[str] = EVERYTHING,
    ) -> None:
        self._layers = layers
        self._rotary = rotary
        self._consumer = consumer
        self._recorder = recorder
        self._kernels = kernels
        self._stop_after = stop_after
        self._owner = threading.get_ident()
        self._collected: Collected | None = None
        self._how = How(keep=keep)
        self._again_now = False
        self._functions = _Functions(self)
        self._entered_mode = False
        self._passed: Mapping[str, Any] | None = None  # the arguments as the caller passed them
        self._entered: tuple[Mapping[str, Any], Mapping[str, Any] | None, Any, Any] | None = None
        self._positions: Any = None

    @contextmanager
    def on(self) -> Iterator[None]:
        """Watch for one ``with``; everything is put back after it, also after an error."""
        with ExitStack() as stack:
            for layer, module in self._layers.items():
                self._hook(stack, layer, module)
            if self._rotary is not None:
                stack.callback(self._rotary.register_forward_pre_hook(self._see_positions, with_kwargs=True).remove)
            stack.enter_context(self._interfaces())
            stack.callback(self._close)  # where an error left an attention half way
            yield

    @property
    def collected(self) -> Collected | None:
        """What is being collected as seen from the calling thread; None outside the watched attention."""
        return self._collected if threading.get_ident() == self._owner else None

    def _hook(self, stack: ExitStack, layer: int, module: Any) -> None:
        if module._forward_pre_hooks:  # what the user's own hooks change, they change again in each repetition
            first = module.register_forward_pre_hook(self._pass, with_kwargs=True, prepend=True)
            stack.callback(first.remove)
        stack.callback(module.register_forward_pre_hook(self._enter, with_kwargs=True).remove)
        stack.callback(module.register_forward_hook(functools.partial(self._leave, layer), with_kwargs=True).remove)
        for name in PARTS:
            part = original(getattr(module, name, None))
            if isinstance(part, torch.nn.Module):
                hook = functools.partial(self._part, name)
                stack.callback(part.register_forward_hook(hook).remove)

    def _see_positions(self, _module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if threading.get_ident() != self._owner:
            return
        positions = kwargs.get("position_ids", args[1] if len(args) > 1 else None)
        self._positions = None if positions is None else positions.detach().clone()

    def _pass(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._again_now or threading.get_ident() != self._owner:
            return
        arguments = _named(module, args, kwargs)
        name = hidden_name(module, arguments)
        self._passed = {**arguments, name: arguments[name].detach().clone()}

    def _enter(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._again_now or threading.get_ident() != self._owner:
            return
        self._close()  # an attention that raised, and is called once more
        arguments = _named(module, args, kwargs)
        cache = _cache_layer(module, arguments)
        passed, self._passed = self._passed, None
        hidden = arguments[hidden_name(module, arguments)].detach().clone()
        self._entered = (arguments, passed, hidden, copy.deepcopy(cache))
        self._collected = Collected()
        for kernel in self._kernels:
            kernel.clear()
        self._recorder.open("attention")
        self._functions.__enter__()  # type: ignore[no-untyped-call]
        self._entered_mode = True

    def _close(self) -> None:
        self._recorder.close()
        if self._entered_mode:
            self._entered_mode = False
            self._functions.__exit__(None, None, None)  # type: ignore[no-untyped-call]

    def _leave(self, layer: int, module: Any, _args: Any, _kwargs: Any, output: Any) -> None:
        if self._again_now or self._entered is None or threading.get_ident() != self._owner:
            return
        self._close()
        collected, self._collected = self._collected, None
        arguments, passed, hidden, cache = self._entered
        self._entered = None
        if collected is None:
            return
        collected.settle(*hidden.shape[:2])
        kernels = tuple(pair for kernel in self._kernels for pair in zip(kernel.seen, kernel.places, strict=True))
        result = output[0] if isinstance(output, tuple) else output
        self._consumer(
            Call(
                layer,
                module,
                hidden,
                result.detach().clone(),
                arguments,
                passed,
                collected,
                kernels,
                self._positions,
                cache,
                self._run_again,
            )
        )
        if layer == self._stop_after:
            raise Reached

    def _part(self, name: str, _module: Any, args: tuple[Any, ...], output: Any) -> Any:
        collected = self.collected
        if collected is None or not args:
            return None
        changed = self._how.replace[name](output) if name in self._how.replace else None
        if name in self._how.keep:
            kept = (output if changed is None else changed).detach().clone()
            collected.modules.append((name, args[0].detach().clone(), kept, caller()))
        return changed

    def _run_again(self, call: Call, how: How) -> tuple[Any, Collected]:
        hidden, given = how.hidden, call.arguments
        if call.passed is not None:  # a hook may change what it is given in place: the next one needs it too
            hidden, given = hidden.clone(), call.passed
        arguments = {**given, hidden_name(call.module, given): hidden}
        _give_cache(call.module, arguments, call.cache, how.values)
        collected, usual = Collected(), self._how
        self._again_now, self._collected, self._how = True, collected, how
        try:
            with self._functions:
                output = call.module(**arguments)
        finally:
            self._again_now, self._collected, self._how = False, None, usual
        collected.settle(*how.hidden.shape[:2])
        return (output[0] if isinstance(output, tuple) else output), collected

    @property
    def wants_interface(self) -> bool:
        """Whether the arguments and the output of attention functions are to be kept."""
        return INTERFACE in self._how.keep

    @contextmanager
    def _interfaces(self) -> Iterator[None]:
        """Wrap every attention function that transformers' table hands out, for one ``with``."""
        get_interface = AttentionInterface.get_interface
        get_item = AttentionInterface.__getitem__
        own = {name: name in vars(AttentionInterface) for name in ("get_interface", "__getitem__")}

        def watched_interface(table: Any, *args: Any, **kwargs: Any) -> Any:
            return self._wrapped(get_interface(table, *args, **kwargs))

        def watched_item(table: Any, key: str) -> Any:
            return self._wrapped(get_item(table, key))

        # ``with`` swaps class attributes: set and, where they were inherited, deleted again
        setattr(AttentionInterface, "get_interface", watched_interface)  # noqa: B010
        setattr(AttentionInterface, "__getitem__", watched_item)  # noqa: B010
        try:
            yield
        finally:
            for name, function in (("get_interface", get_interface), ("__getitem__", get_item)):
                if own[name]:
                    setattr(AttentionInterface, name, function)
                else:
                    delattr(AttentionInterface, name)

    def _wrapped(self, function: Any) -> Any:
        if self.collected is None or getattr(function, "_watched", False):
            return function

        @functools.wraps(function)
        def attention(*args: Any, **kwargs: Any) -> Any:
            collected = self.collected
            if collected is not None and self._how.attended is not None:
                collected.interfaces.append(_arguments(function, args, kwargs))
                return self._how.attended
            result = through(function, args, kwargs)
            collected = self.collected
            if collected is not None and self.wants_interface:
                collected.interfaces.append(_interface(function, args, kwargs, result))
            return result

        setattr(attention, "_watched", True)  # noqa: B010
        return attention


class _Functions(TorchFunctionMode):
    """Sees torch's own attention kernel and dropout while an attention module runs."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = through(func, args, kwargs)
        collected = self._watch.collected
        if collected is None:
            return result
        if func is _SDPA and self._watch.wants_interface:
            names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
            given = {**dict(zip(names, args, strict=False)), **kwargs}
            kept = {**given, "output": result.detach().clone(), "place": caller(), "attend": _attend_sdpa(given)}
            collected.sdpa.append(kept)
        elif func is _DROPOUT:
            given = {**dict(zip(("input", "p", "training"), args, strict=False)), **kwargs}
            if given.get("training", True):
                collected.dropout = max(collected.dropout, float(given.get("p", 0.5)))
        return result


def cache_name(arguments: Mapping[str, Any]) -> str | None:
    """Return the keyword under which an attention module was given its cache, or None."""
    return next((name for name in CACHE_NAMES if arguments.get(name) is not None), None)


def hidden_name(module: Any, arguments: Mapping[str, Any]) -> str:
    """Return the name of the argument that an attention module was given its hidden states in: transformers' own name,
    else that of the first [B, T, C]; raises Unsupported where there is none."""
    if "hidden_states" in arguments:
        return "hidden_states"
    for name, value in arguments.items():
        if isinstance(value, torch.Tensor) and value.ndim == 3 and value.is_floating_point():
            return name
    raise Unsupported("verify.no_hidden_states", found=type(module).__name__, given=", ".join(arguments) or "—")


def _named(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by name."""
    if not args:
        return dict(kwargs)
    parameters = [name for name in inspect.signature(inspect.unwrap(type(module).forward)).parameters if name != "self"]
    return {**dict(zip(parameters, args, strict=False)), **kwargs}


def _cache_layer(module: Any, arguments: Mapping[str, Any]) -> Any:
    name = cache_name(arguments)
    layers = getattr(arguments[name], "layers", None) if name is not None else None
    index = getattr(module, "layer_idx", None)
    if layers is None or index is None or index >= len(layers):
        return None
    return layers[index]


def _give_cache(module: Any, arguments: dict[str, Any], layer: Any, values: Any) -> None:
    """Put a copy of the cache, with this layer as it was before the call, into ``arguments``."""
    name = cache_name(arguments)
    if name is None:
        return
    cache = copy.copy(arguments[name])
    if layer is not None:
        fresh = copy.deepcopy(layer)
        if values is not None:
            fresh.values = values
        cache.layers = [fresh if i == module.layer_idx else old for i, old in enumerate(cache.layers)]
    arguments[name] = cache


def _arguments(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of an attention function by name, its tensors copied."""
    given = _bound(function, args, kwargs)
    copied = {
        name: None if given.get(name) is None else given[name].detach().clone() for name in ("query", "key", "value")
    }
    return {**given, **copied}


def _interface(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> dict[str, Any]:
    given = _arguments(function, args, kwargs)
    output = result[0] if isinstance(result, tuple) else result
    weights = result[1] if isinstance(result, tuple) and len(result) > 1 else None
    copied = {name: given[name] for name in ("query", "key", "value")}
    return {
        **given,
        "function": function,
        "output": output.detach().clone(),
        "results": len(result) if isinstance(result, tuple) else 1,
        "weights": None if weights is None else weights.detach().clone(),
        "place": caller(),
        "attend": _attend(function, args, kwargs, copied),
    }


def _attend(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], given: Mapping[str, Any]
) -> Callable[[Any, Any], Any]:
    """Return the attention function as one of query [B, H, Tq, D] and value [B, K, Tk, D] (None: as it was given) that
    gives [B, Tq, H, D]; all else is as it was."""
    place = {"query": 1, "key": 2, "value": 3}

    def attend(query: Any, value: Any) -> Any:
        new = {**given, **{name: x for name, x in (("query", query), ("value", value)) if x is not None}}
        changed, named = list(args), dict(kwargs)
        for name, x in new.items():
            if place[name] < len(changed):
                changed[place[name]] = x
            else:
                named[name] = x
        result = function(*changed, **named)
        return result[0] if isinstance(result, tuple) else result

    return attend


def _attend_sdpa(given: Mapping[str, Any]) -> Callable[[Any, Any], Any]:
    """Return torch's kernel as such a function; keys and values may be repeated already."""
    kept = {**given, **{name: given[name].detach().clone() for name in ("query", "key", "value")}}

    def attend(query: Any, value: Any) -> Any:
        q, v = kept["query"] if query is None else query, kept["value"]
        if value is not None:
            v = value.expand(*v.shape[:2], *value.shape[2:]) if value.shape[1] == 1 else value
        return _SDPA(**{**kept, "query": q, "value": v}).transpose(1, 2)

    return attend


def _bound(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of an attention function by name; the first five are the same in all of transformers."""
    first = ("module", "query", "key", "value", "attention_mask")
    try:
        bound = inspect.signature(function).bind_partial(*args, **kwargs)
    except (TypeError, ValueError):  # no signature to be had (compiled code)
        return {**dict(zip(first, args, strict=False)), **kwargs}
    given: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        given.update(value if kind is inspect.Parameter.VAR_KEYWORD else {name: value})
    return {**given, **dict(zip(first, args, strict=False)), **kwargs}
