"""Whether a decorator leaves alone what goes into its function and what comes out of it.

Decorators among the files read are read: one that returns the function itself, or a wrapper that passes on
``*args, **kwargs`` and the result as they are, changes nothing. Of others only those below are known to. Must not
know: what is decorated.
"""

from typing import TYPE_CHECKING

import libcst as cst

from tracer.lineage import operations
from tracer.lineage.demand import Demand, EndKind, say
from tracer.lineage.flow import Way
from tracer.lineage.parts import Function
from tracer.texts import Message

if TYPE_CHECKING:
    from tracer.lineage.slicer import Slicer

# Each hands arguments and result on: it marks, compiles, caches, counts gradients or none, or warns.
_HARMLESS = frozenset({
    "staticmethod", "classmethod", "property",
    "functools.cached_property", "functools.cache", "functools.lru_cache", "functools.wraps",
    "abc.abstractmethod", "typing.overload", "typing.override", "typing.final", "typing_extensions.override",
    "typing_extensions.deprecated", "warnings.deprecated",
    "torch.no_grad", "torch.inference_mode", "torch.enable_grad", "torch.compile", "torch.jit.script",
    "torch.jit.ignore", "torch.jit.export", "torch.jit.unused", "torch.compiler.disable", "torch._dynamo.disable",
    "torch.library.custom_op", "torch.library.register_fake", "triton.jit",
    # transformers: a keyword that was renamed is given its new name; documentation; a kernel that computes the same
    "transformers.utils.deprecation.deprecate_kwarg", "transformers.utils.auto_docstring",
    "transformers.utils.generic.can_return_tuple", "transformers.utils.can_return_tuple",
    "transformers.integrations.use_kernel_forward_from_hub", "transformers.integrations.use_kernelized_func",
    "transformers.integrations.use_kernel_func_from_hub",
})  # fmt: skip
_DEEPEST = 4


class Decorators:
    """Decorators of one program."""

    def __init__(self, slicer: "Slicer") -> None:
        self._slicer = slicer
        self._doubts: dict[Function, Message | None] = {}

    def doubt(self, function: Function) -> Message | None:
        """Return why a decorator of ``function`` may change what goes in or comes out, None where none does."""
        if function not in self._doubts:
            self._doubts[function] = None  # a decorator that is decorated by itself
            self._doubts[function] = self._doubt(function)
        return self._doubts[function]

    def _doubt(self, function: Function) -> Message | None:
        for each in function.node.decorators:
            node = each.decorator
            called = isinstance(node, cst.Call)
            if not self._harmless(Demand(function.module, node.func if isinstance(node, cst.Call) else node), called):
                code = operations.short(function.module.code(node))
                return say("decorated", function=function.scope, decorator=code)
        return None

    def _harmless(self, asked: Demand, called: bool) -> bool:
        if operations.dotted(asked.node).rpartition(".")[2] in ("setter", "getter", "deleter"):
            return True  # of a property
        ends = [end for end, _ in self._slicer.ends(asked, callers=False)]
        names = [
            str(end.why.values["name"])
            for end in ends
            if end.kind is EndKind.EXTERNAL and end.why is not None and "name" in end.why.values
        ]
        names += [operations.dotted(end.at.node) for end in ends if end.kind is EndKind.EXTERNAL and end.why is None]
        functions = [end.function for end in ends if end.kind is EndKind.FUNCTION and end.function is not None]
        if not ends or len(names) + len(functions) < len(ends):
            return False
        return all(name in _HARMLESS for name in names) and all(
            self._hands_on(each, called, _DEEPEST) for each in functions
        )

    def _hands_on(self, function: Function, called: bool, depth: int) -> bool:
        """Whether ``function`` is a decorator (``called``: or makes one) that changes nothing."""
        own = {param.name.value for param in function.parameters}
        inner = {each.name: each for each in function.module.functions.values() if each.parent is function}
        returned = [operations.dotted(value) for value, _ in function.flow.returns]
        if not returned or depth == 0 or not all(returned):
            return False
        for name in returned:
            if name in own and len(function.flow.bound.get(name, ())) == 1:
                continue  # the function as it is
            made = inner.get(name)
            if made is None:
                return False
            if not (self._passes_on(made, own) or (called and self._hands_on(made, False, depth - 1))):
                return False
        return True

    def _passes_on(self, wrapper: Function, functions: set[str]) -> bool:
        """Whether ``wrapper`` calls one of ``functions`` with its own parameters as they are and returns the result."""
        params = wrapper.parameters
        if any(len(wrapper.flow.bound.get(param.name.value, ())) != 1 for param in params):
            return False  # one is set anew, or has an entry put in
        calls = [call for call in wrapper.flow.calls if operations.dotted(call.func) in functions]
        wanted = [(param.star if isinstance(param.star, str) else "", param.name.value) for param in params]
        same = all(
            [(arg.star, operations.dotted(arg.value)) for arg in call.args if arg.keyword is None] == wanted
            and not any(arg.keyword is not None for arg in call.args)
            for call in calls
        )
        results = [value for value, _ in wrapper.flow.returns]
        return bool(calls) and same and all(self._is_result(wrapper, value, calls) for value in results)

    @staticmethod
    def _is_result(wrapper: Function, value: cst.BaseExpression, calls: list[cst.Call]) -> bool:
        if value in calls:
            return True
        made = wrapper.flow.reaching.get(value, ()) if isinstance(value, cst.Name) else ()
        return bool(made) and all(each.way is Way.ASSIGNED and each.value in calls and not each.path for each in made)
