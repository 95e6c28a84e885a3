"""Lineage and lint follow values with code of their own; on the same program they name the same origin, or one of them
says that it does not know. Neither may be sure of what the other rules out."""

from pathlib import Path
from textwrap import dedent

import pytest
from small_programs import reader

from tracer.lineage.result import ValuePath
from tracer.lint.records import ScaleStatus
from tracer.lint.run import lint

Origin = tuple[int, str]
CLASS = """
class Layer:
    def __init__(self, head_dim):
        self.s = head_dim ** -0.5
{more}
    def run(self, q, k, v):
        return flash_attn_func(q, k, v, softmax_scale=self.s)
"""


def layer(more: str = "", after: str = "") -> str:
    inside = "\n".join(f"    {each}" for each in more.splitlines())
    return CLASS.format(more=inside) + after + "\n"


# program, scope of the kernel, the origin that both name
SURE: dict[str, tuple[str, str, str]] = {
    "literal": ("def run(q, k, v): flash_attn_func(q, k, v, softmax_scale=0.5)", "run", "0.5"),
    "name": (
        "def run(q, k, v, head_dim):\n    s = head_dim ** -0.5\n    flash_attn_func(q, k, v, softmax_scale=s)",
        "run",
        "head_dim ** -0.5",
    ),
    "later binding": (
        "def run(q, k, v, head_dim):\n    s = 1.0\n    s = head_dim ** -0.5\n"
        "    flash_attn_func(q, k, v, softmax_scale=s)",
        "run",
        "head_dim ** -0.5",
    ),
    "attribute": (layer(), "Layer.run", "head_dim ** -0.5"),
    "global": ("S = 0.5\ndef run(q, k, v): flash_attn_func(q, k, v, softmax_scale=S)", "run", "0.5"),
    "default": ("def run(q, k, v, s=0.5): flash_attn_func(q, k, v, softmax_scale=s)\nrun(1, 2, 3)", "run", "0.5"),
    "argument": ("def run(q, k, v, s): flash_attn_func(q, k, v, softmax_scale=s)\nrun(1, 2, 3, 0.5)", "run", "0.5"),
    "keyword": ("def run(q, k, v, s): flash_attn_func(q, k, v, softmax_scale=s)\nrun(1, 2, 3, s=0.5)", "run", "0.5"),
    "kwargs": ("def run(q, k, v, **kw): flash_attn_func(q, k, v, **kw)\nrun(1, 2, 3, softmax_scale=0.5)", "run", "0.5"),
    "dictionary": (
        "def run(q, k, v):\n    kw = {'softmax_scale': 0.5}\n    flash_attn_func(q, k, v, **kw)",
        "run",
        "0.5",
    ),
    "return": (
        "def made(): return 0.5\ndef run(q, k, v): flash_attn_func(q, k, v, softmax_scale=made())",
        "run",
        "0.5",
    ),
    "constructor": (
        "class Layer:\n    def __init__(self, s):\n        self.s = s\n"
        "    def run(self, q, k, v): flash_attn_func(q, k, v, softmax_scale=self.s)\nlayer = Layer(0.5)",
        "Layer.run",
        "0.5",
    ),
}
NOT_SURE: dict[str, tuple[str, str]] = {
    "written from outside": (layer(after="def patch(model):\n    model.layer.s = 1.0"), "Layer.run"),
    "written through setattr": (layer(after="def patch(model):\n    setattr(model.layer, 's', 1.0)"), "Layer.run"),
    "set on the class": (layer(after="Layer.s = 1.0"), "Layer.run"),
    "set below": (layer(after="class Below(Layer):\n    def more(self):\n        self.s = 1.0"), "Layer.run"),
    "property below": (layer(after="class Below(Layer):\n    @property\n    def s(self): return 1.0"), "Layer.run"),
    "a second method": (layer(more="def more(self):\n    self.s = 1.0"), "Layer.run"),
    "two callers": (
        "def run(q, k, v, s): flash_attn_func(q, k, v, softmax_scale=s)\nrun(1, 2, 3, 0.5)\nrun(1, 2, 3, 1.0)",
        "run",
    ),
    "no caller": ("def run(q, k, v, s): flash_attn_func(q, k, v, softmax_scale=s)", "run"),
    "unknown call": ("def run(q, k, v): flash_attn_func(q, k, v, softmax_scale=unseen())", "run"),
    "unknown dictionary": ("def run(q, k, v): flash_attn_func(q, k, v, **unseen())", "run"),
    "changed through another name": (
        "def run(q, k, v):\n    kw = {'softmax_scale': 0.5}\n    other = kw\n    other['softmax_scale'] = 2\n"
        "    flash_attn_func(q, k, v, **kw)",
        "run",
    ),
    "changed by a function": (
        "def run(q, k, v):\n    kw = {'softmax_scale': 0.5}\n    change(kw)\n    flash_attn_func(q, k, v, **kw)",
        "run",
    ),
    "decorated": (
        "@double\ndef made(): return 0.5\ndef run(q, k, v): flash_attn_func(q, k, v, softmax_scale=made())",
        "run",
    ),
    "condition": (
        "def run(q, k, v, c, head_dim):\n    s = head_dim ** -0.5\n    if c:\n        s = 1.0\n"
        "    flash_attn_func(q, k, v, softmax_scale=s)",
        "run",
    ),
    "loop": (
        "def run(q, k, v, head_dim):\n    s = head_dim ** -0.5\n    for s in head_dim: pass\n"
        "    flash_attn_func(q, k, v, softmax_scale=s)",
        "run",
    ),
}


def lineage(source: str, scope: str) -> Origin | None:
    """The origin that the lineage proves to be the only one."""
    made = reader({"one": source}, scope, pattern="flash_attn_func(...)", argument="softmax_scale")
    path: ValuePath = made.path("scale")
    if path.open_end is not None or any(step.why or step.others for step in path.steps):
        return None
    first = path.steps[0].place
    return first.span.line, first.code


def linted(source: str, folder: Path) -> Origin | None:
    """The origin that the lint proves to be the only one."""
    (folder / "one.py").write_text(source, encoding="utf-8")
    (kernel,) = lint([folder]).kernels
    if len(kernel.scales) != 1 or kernel.scales[0].status is ScaleStatus.UNKNOWN:
        return None
    first = kernel.scales[0].hops[0].place
    return first.span.line, first.code


@pytest.mark.parametrize("name", SURE)
def test_both_name_the_same_origin(name: str, tmp_path: Path) -> None:
    source, scope, origin = SURE[name]
    source = dedent(source).lstrip("\n")
    found = {"lineage": lineage(source, scope), "lint": linted(source, tmp_path)}
    assert found["lineage"] == found["lint"]
    assert found["lint"] is not None
    assert found["lint"][1] == origin


@pytest.mark.parametrize("name", NOT_SURE)
def test_neither_is_sure_of_what_may_be_otherwise(name: str, tmp_path: Path) -> None:
    source, scope = NOT_SURE[name]
    source = dedent(source).lstrip("\n")
    assert {"lineage": lineage(source, scope), "lint": linted(source, tmp_path)} == {"lineage": None, "lint": None}
