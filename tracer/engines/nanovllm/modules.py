"""nano-vllm's files as live modules, with what a CPU lacks lent to them alone.

They are executed as they are, by an ``import`` of their own: what they import from each other, flash_attn, triton and
two names of torch are answered from here, everything else by the ordinary import. So nothing of this process changes,
neither sys.modules nor torch, whatever happens, and other threads see nothing. Must not know: models, kernels, probes.
"""

import builtins
import importlib
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from tracer.source.files import SourceFile

PACKAGE = "nanovllm"


def load(files: Mapping[str, SourceFile], flash_attn: Mapping[str, Callable[..., Any]]) -> dict[str, ModuleType]:
    """Return nano-vllm's modules by dotted name, each freshly executed from the text of ``files`` (by member).

    ``flash_attn`` are the functions they find in the module of that name. The package's own ``__init__`` is left out:
    it imports the serving engine.
    """
    lent = {
        "flash_attn": _module("flash_attn", flash_attn),
        "torch": _torch(),
        **_triton(),
    }
    imports = _Imports(files, lent)
    for member in files:
        imports.module(_dotted(member))
    return imports.modules


class _Imports:
    """An import that knows nano-vllm's files and the lent modules, and hands on everything else."""

    def __init__(self, files: Mapping[str, SourceFile], lent: Mapping[str, ModuleType]) -> None:
        self._files = {_dotted(member): file for member, file in files.items()}
        self._lent = lent
        self._builtins = {**vars(builtins), "__import__": self}
        self.modules: dict[str, ModuleType] = {}

    def __call__(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """Return what an import statement binds: the named module with ``fromlist``, else its topmost package."""
        top = name.partition(".")[0]
        if level == 0 and top == PACKAGE:
            module = self.module(name)
            return module if fromlist else self.modules[top]
        if level == 0 and top in self._lent and (not fromlist or name in self._lent):
            return self._lent[name if fromlist else top]
        return builtins.__import__(name, globals, locals, fromlist or (), level)

    def module(self, name: str) -> ModuleType:
        """Return nano-vllm's module or package ``name``, executed at its first mention."""
        if name in self.modules:
            return self.modules[name]
        parent, _, last = name.rpartition(".")
        if parent:
            self.module(parent)
        module = ModuleType(name)
        self.modules[name] = module
        file = self._files.get(name)
        if file is not None:
            vars(module).update(__file__=str(file.file), __builtins__=self._builtins)
            exec(compile(file.source, str(file.file), "exec", dont_inherit=True), vars(module))
        elif not any(known.startswith(f"{name}.") for known in self._files):
            raise ModuleNotFoundError(f"No module named {name!r} among the pinned files", name=name)
        if parent:
            setattr(self.modules[parent], last, module)
        return module


def _dotted(member: str) -> str:
    return member.removesuffix(".py").replace("/", ".")


def _module(name: str, content: Mapping[str, Any]) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(content)
    return module


def _torch() -> ModuleType:
    """Return torch as nano-vllm sees it: functions are not compiled, and this process is the only one."""
    import torch

    def compile(function: Callable[..., Any] | None = None, **_: Any) -> Any:
        return function if function is not None else lambda function: function

    alone = {"get_rank": lambda *_: 0, "get_world_size": lambda *_: 1}
    lent = {"compile": compile, "distributed": _module("torch.distributed", alone)}
    # torch loads some of its parts on first mention, through its own __getattr__, which comes along
    return _module("torch", {**vars(torch), **lent})


def _triton() -> dict[str, ModuleType]:
    standin = importlib.import_module("tracer.engines.nanovllm.triton")
    language = _module("triton.language", {name: getattr(standin, name) for name in standin.LANGUAGE})
    return {"triton": _module("triton", {"jit": standin.jit, "language": language}), "triton.language": language}
