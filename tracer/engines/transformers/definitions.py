"""transformers' Qwen3 code for the flash path without what it does not need: the definitions that run, taken unchanged
out of the installed file, at their own lines.

Importing the model file also imports generation, masking, every kernel integration and with them torch.distributed and
sympy: two thirds of a short trace. Here modeling_qwen3.py's own definitions are compiled from its text and given what
they read: transformers' real modules where these are light, else definitions taken out of their files in the same way.
The model file must be a pinned one, and every function equal, code object for code object, what the whole file compiles
to; else everything is imported, and the reason is handed on. Must not know: probes, checkpoints.
"""

import ast
import builtins
import dis
import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import sys
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from types import CodeType, FunctionType, ModuleType
from typing import Any, Unpack

from tracer.source import files, pins
from tracer.source.files import SourceFile
from tracer.texts import Message, message

MODEL = "transformers.models.qwen3.modeling_qwen3"
FLASH = "transformers.integrations.flash_attention"
UTILS = "transformers.modeling_flash_attention_utils"
CONFIG = "transformers.models.qwen3.configuration_qwen3"
ACTIVATION = "silu"
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_PACKAGES = ("transformers", "transformers.models", "transformers.models.qwen3", "transformers.integrations")
_NEEDED = (
    "Qwen3RMSNorm",
    "Qwen3MLP",
    "Qwen3RotaryEmbedding",
    "rotate_half",
    "apply_rotary_pos_emb",
    "repeat_kv",
    "eager_attention_forward",
    "Qwen3Attention",
    "Qwen3DecoderLayer",
)


@dataclass(frozen=True)
class Code:
    """transformers' code as it runs: its modules by dotted name. ``light``: only what the flash path needs is there.
    ``why`` says why it is not though it was asked for."""

    modules: Mapping[str, ModuleType]
    light: bool = False
    why: Message | None = None

    def model(self, config: Any) -> Any:
        """Return a model of ``config``: a Qwen3Model, or in light code its layers and rotary embedding, run in the
        order that Qwen3Model.forward has."""
        model: Callable[[Any], Any] = getattr(self.modules[MODEL], "Qwen3Model", None) or partial(_layers, self)
        return model(config)


def whole(why: Message | None = None) -> Code:
    """Return the code as an ordinary import gives it."""
    return Code({name: importlib.import_module(name) for name in (MODEL, FLASH, UTILS, CONFIG)}, why=why)


def light(activation: str = ACTIVATION) -> Code:
    """Return only what the flash path needs; all of it where that cannot be had, or is there already.

    ``activation``: the hidden_act of the config; only the one that Qwen3 was made with is taken alone.
    """
    if "transformers" in sys.modules:
        return whole()
    if activation != ACTIVATION:
        return whole(message("engine.not_light_activation", activation=activation))
    try:
        return Code(_light(), light=True)
    except _Unfit as unfit:
        return whole(unfit.why)
    except (ImportError, AttributeError, SyntaxError) as fault:  # another layout than the one this was written for
        return whole(message("engine.not_light", fault=f"{type(fault).__name__}: {fault}"))


class _Unfit(Exception):
    """The installed files cannot be used in part."""

    def __init__(self, text: str, **values: object) -> None:
        super().__init__(text)
        self.why = message(text, **values)


def _light() -> dict[str, ModuleType]:
    if importlib.util.find_spec("kernels") is not None:
        raise _Unfit("engine.not_light_kernels")  # its decorators would replace functions
    source = _pinned("models/qwen3/modeling_qwen3.py")
    with _bare_packages():
        modules = {name: importlib.import_module(name) for name in (FLASH, UTILS, CONFIG)}
        supply = _supply(modules)
    module = ModuleType(MODEL)
    module.__dict__.update(_equal(source, _NEEDED, supply, MODEL))
    return {**modules, MODEL: module}


def _equal(source: SourceFile, names: Collection[str], supply: Mapping[str, Any], module: str) -> dict[str, Any]:
    """Return the definitions ``names`` of ``source``, every function equal to what the whole file compiles to."""
    namespace = take(source, names, supply, module)
    taken = {name: namespace[name] for name in names}
    unequal = differing(source, taken.values())
    if unequal:
        raise _Unfit("engine.not_light_code", functions=", ".join(unequal))
    return taken


def _supply(modules: Mapping[str, ModuleType]) -> dict[str, Any]:
    """Return every name that the needed definitions read and do not define, under bare packages."""
    import torch
    from torch import nn

    rope, utils, generic, deprecation = (
        importlib.import_module(f"transformers.{name}")
        for name in ("modeling_rope_utils", "utils", "utils.generic", "utils.deprecation")
    )
    logger = utils.logging.get_logger("transformers")
    annotation = type("Annotation", (), {})  # stands where a name is only written in an annotation
    interface = _equal(
        _pinned("modeling_utils.py"),
        ["AttentionInterface"],
        {
            "GeneralInterface": generic.GeneralInterface,
            "Callable": Callable,
            "logger": logger,
            "flash_attention_forward": modules[FLASH].flash_attention_forward,
            **dict.fromkeys(("flex_attention_forward", "sdpa_attention_forward", "eager_paged_attention_forward")),
        },
        "transformers.modeling_utils",
    )["AttentionInterface"]
    checkpointing = _equal(
        _pinned("modeling_layers.py"),
        ["GradientCheckpointingLayer"],
        {"nn": nn, "torch": torch, "wraps": wraps, "partial": partial, "logger": logger},
        "transformers.modeling_layers",
    )["GradientCheckpointingLayer"]
    activations = _equal(
        _pinned("activations.py"),
        ["SiLUActivation", "ClassInstantier"],
        {"nn": nn, "Tensor": torch.Tensor, "OrderedDict": OrderedDict, "use_kernel_forward_from_hub": _undecorated},
        "transformers.activations",
    )
    return {
        "torch": torch,
        "nn": nn,
        "Callable": Callable,
        "Unpack": Unpack,
        "Cache": annotation,
        "Qwen3Config": modules[CONFIG].Qwen3Config,
        "FlashAttentionKwargs": modules[UTILS].FlashAttentionKwargs,
        "TransformersKwargs": utils.TransformersKwargs,
        "use_kernel_forward_from_hub": _undecorated,
        "use_kernelized_func": _undecorated,
        "deprecate_kwarg": deprecation.deprecate_kwarg,
        "dynamic_rope_update": rope.dynamic_rope_update,
        "ROPE_INIT_FUNCTIONS": rope.ROPE_INIT_FUNCTIONS,
        "ALL_ATTENTION_FUNCTIONS": interface(),
        "GradientCheckpointingLayer": checkpointing,
        "ACT2FN": activations["ClassInstantier"]({ACTIVATION: activations["SiLUActivation"]}),
    }


def _undecorated(*_names: Any) -> Callable[[Any], Any]:
    """What transformers' two kernel decorators are where the package ``kernels`` is not installed."""
    return lambda decorated: decorated


def _pinned(member: str) -> SourceFile:
    source = files.installed("transformers", f"transformers/{member}")
    if member.endswith("modeling_qwen3.py") and pins.lookup(source.sha256) is None:
        raise _Unfit("engine.not_light_file", file=member)
    return source


@contextmanager
def _bare_packages() -> Iterator[None]:
    """Let transformers' modules be imported without their packages' own ``__init__``; nothing of it stays behind."""
    spec = importlib.machinery.PathFinder.find_spec("transformers")
    if spec is None or not spec.submodule_search_locations:
        raise _Unfit("engine.not_light", fault="transformers")
    root = spec.submodule_search_locations[0]
    try:
        for name in _PACKAGES:
            package = ModuleType(name)
            package.__path__ = [os.path.join(root, *name.split(".")[1:])]
            package.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
            package.__spec__.submodule_search_locations = package.__path__
            sys.modules[name] = package
        sys.modules["transformers"].__dict__["__version__"] = importlib.metadata.version("transformers")
        yield
    finally:
        for name in [name for name in sys.modules if name == "transformers" or name.startswith("transformers.")]:
            del sys.modules[name]


# ------------------------------------------------------------------------------------- definitions out of a file


def take(source: SourceFile, names: Collection[str], supply: Mapping[str, Any], module: str) -> dict[str, Any]:
    """Return the namespace in which the top-level definitions ``names`` of ``source`` were executed, and nothing else.

    Lines, columns and file name are the file's own. Raises _Unfit where one is missing or reads a name that is neither
    defined nor supplied.
    """
    tree = ast.parse(source.source, str(source.file))
    kept = [node for node in tree.body if getattr(node, "name", None) in names]
    missing = set(names) - {getattr(node, "name", None) for node in kept}
    imports = [node for node in _at_module_scope(tree.body) if getattr(node, "module", None) != "__future__"]
    # The imports stay, unreached: CPython compiles ``torch.f(x)`` otherwise where ``torch`` was not imported.
    unreached = ast.fix_missing_locations(ast.If(ast.Constant(False), imports or [ast.Pass()], []))
    future = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    whole_tree = ast.Module([*future, unreached, *kept], [])
    code = compile(whole_tree, str(source.file), "exec", dont_inherit=True)
    defined = {*names, *(alias.name for node in future for alias in node.names), "__name__"}
    missing |= _read_globals(code) - defined - set(supply) - set(dir(builtins))
    if missing:
        raise _Unfit("engine.not_light_names", file=source.member, names=", ".join(sorted(missing)))
    namespace = {**supply, "__name__": module, "__file__": str(source.file)}
    exec(code, namespace)
    return namespace


def _at_module_scope(body: Iterable[ast.AST]) -> Iterator[ast.stmt]:
    """Yield the imports that name globals: under ``if`` and ``try`` too, but not in functions and classes."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.stmt | ast.excepthandler) and not isinstance(node, _SCOPES):
            yield from _at_module_scope(ast.iter_child_nodes(node))


def _read_globals(code: CodeType, top: bool = True) -> set[str]:
    """Return the global names that compiled code reads, nested code included."""
    stored = {one.argval for one in dis.get_instructions(code) if one.opname == "STORE_NAME"}
    found = set()
    for one in dis.get_instructions(code):
        if one.opname == "LOAD_GLOBAL" or (one.opname == "LOAD_NAME" and (top or one.argval not in stored)):
            found.add(one.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _read_globals(constant, top=False)
    return found - {"__qualname__", "__module__"}


def differing(source: SourceFile, objects: Collection[Any]) -> list[str]:
    """Return the functions of ``objects`` (functions and classes) whose code is not what the whole file compiles to."""
    compiled = compile(source.source, str(source.file), "exec", dont_inherit=True)
    every = {code.co_qualname: code for code in _codes(compiled)}
    found = [function.__code__ for each in objects for function in functions(each)]
    return sorted(code.co_qualname for code in found if every.get(code.co_qualname) != code)


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def functions(defined: Any) -> list[FunctionType]:
    """Return a function, or a class's own functions, decorators that keep what they wrap taken off."""
    members = [defined] if isinstance(defined, FunctionType) else list(vars(defined).values())
    found = []
    for member in members:
        function = getattr(member, "__func__", member)
        while hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        if isinstance(function, FunctionType) and "<locals>" not in function.__code__.co_qualname:
            found.append(function)
    return found


# --------------------------------------------------------------------------------------------------- the model


def _layers(code: Code, config: Any) -> Any:
    """Return the model's layers, called in the order of Qwen3Model.forward: on the flash path, without a cache or
    padding, that makes no mask (transformers' own gives None there). ``rotary_emb`` is for the caller to put in: made
    on the meta device, its frequencies alone would make torch import its compiler."""
    import torch
    from torch import nn

    model = code.modules[MODEL]

    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.config = config
            self.rotary_emb: Any = None
            self.layers = nn.ModuleList([model.Qwen3DecoderLayer(config, n) for n in range(config.num_hidden_layers)])

        def forward(self, inputs_embeds: Any, use_cache: bool, **sequence: Any) -> Any:
            position_ids = torch.arange(inputs_embeds.shape[1], device=inputs_embeds.device).unsqueeze(0)
            embeddings = self.rotary_emb(inputs_embeds, position_ids)
            hidden = inputs_embeds
            for layer in self.layers:
                hidden = layer(
                    hidden,
                    attention_mask=None,
                    position_embeddings=embeddings,
                    position_ids=position_ids,
                    use_cache=use_cache,
                    **sequence,
                )
            return hidden

    return Layers()
