"""The light way to transformers' code: the same code, the same bits, nothing left behind, and aloud where it fails.

It fits transformers 5.24.0, and the whole import stands in for it in 5.16.1; what is tested of the light way alone is
skipped, with the reason, where it is not to be had.
"""

import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tracer.engines.transformers import definitions
from tracer.source import files
from tracer.texts import message

CORE = Path(__file__).resolve().parents[2]
VERSION = importlib.metadata.version("transformers")
FITS = {"5.24.0": True, "5.16.1": False}


def fresh(program: str, *arguments: str) -> Any:
    """Return the JSON that ``program`` prints in a process of its own, where transformers is not imported yet."""
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *arguments],
        capture_output=True,
        text=True,
        cwd=CORE,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


IS_LIGHT = """
import json
from tracer.engines.transformers import definitions as d
code = d.light()
print(json.dumps([code.light, code.why and code.why.text("en")]))
"""


@pytest.fixture(scope="module")
def light_here() -> tuple[bool, str | None]:
    """Whether the installed transformers has the light way, and why not."""
    found, why = fresh(IS_LIGHT)
    return found, why


@pytest.fixture
def needs_light(light_here: tuple[bool, str | None]) -> None:
    if not light_here[0]:
        pytest.skip(f"transformers {VERSION} has no light way: {light_here[1]}")


def test_it_is_there_in_the_newest_version_and_elsewhere_it_is_said_why_not(
    light_here: tuple[bool, str | None],
) -> None:
    found, why = light_here
    assert found is FITS.get(VERSION, found)
    assert found is (why is None)
    assert found or "All of transformers' model code was imported, which takes longer: " in str(why)


SAME_CODE = """
import importlib, json, sys
from tracer.engines.transformers import definitions as d
from tracer.engines.transformers.definitions import functions, CONFIG, FLASH, MODEL, UTILS
code = d.light()
left = [name for name in sys.modules if name.split(".")[0] == "transformers"]
heavy = [name for name in ("torch._dynamo", "torch.distributed.tensor", "sympy") if name in sys.modules]
model = code.modules[MODEL]
taken = {name: getattr(model, name) for name in d._NEEDED}
taken["GradientCheckpointingLayer"] = model.Qwen3DecoderLayer.__mro__[1]
supplied = model.Qwen3Attention.forward.__wrapped__.__globals__
taken["AttentionInterface"] = type(supplied["ALL_ATTENTION_FUNCTIONS"])
act = model.Qwen3MLP.forward.__globals__["ACT2FN"]
taken |= {"ClassInstantier": type(act), "SiLUActivation": type(act["silu"])}
homes = dict.fromkeys(d._NEEDED, MODEL) | {"GradientCheckpointingLayer": "transformers.modeling_layers",
    "AttentionInterface": "transformers.modeling_utils", "ClassInstantier": "transformers.activations",
    "SiLUActivation": "transformers.activations"}
unequal, compared = [], []
for name, mine in taken.items():
    real = getattr(importlib.import_module(homes[name]), name)
    pairs = {f.__code__.co_qualname: f for f in functions(mine)}
    others = {f.__code__.co_qualname: f for f in functions(real)}
    compared += pairs
    unequal += [key for key in pairs.keys() | others.keys() if key not in pairs or key not in others
        or pairs[key].__code__ != others[key].__code__ or pairs[key].__defaults__ != others[key].__defaults__
        or list(pairs[key].__code__.co_positions()) != list(others[key].__code__.co_positions())]
real = importlib.import_module("transformers.activations").ACT2FN
print(json.dumps({"light": code.light, "left": left, "heavy": heavy, "unequal": unequal, "compared": compared,
    "silu": type(real["silu"]) is getattr(importlib.import_module("transformers.activations"), "SiLUActivation"),
    "config": code.modules[CONFIG].Qwen3Config.__name__}))
"""


@pytest.mark.usefixtures("needs_light")
def test_every_definition_is_code_object_for_code_object_the_imported_one_and_nothing_stays_behind() -> None:
    found = fresh(SAME_CODE)
    assert found["light"]
    assert found["left"] == []
    assert found["heavy"] == []
    assert found["unequal"] == []
    assert {
        "Qwen3Attention.__init__",
        "Qwen3Attention.forward",
        "Qwen3DecoderLayer.forward",
        "Qwen3RotaryEmbedding.forward",
        "apply_rotary_pos_emb",
        "AttentionInterface.get_interface",
    } <= set(found["compared"])
    assert found["silu"]


RUN = """
import hashlib
from tracer import pipeline
from tracer.result import look_at


def run(folder, layer, dtype, tokens, light):
    asked = {"layers": [layer], "head": 2, "heads": [2], "tokens": [n % 13 for n in range(tokens)]}
    (trace,) = pipeline.trace_layers(folder, kernel="cpu-flash", dtype=dtype, light=light, **asked)
    digest = lambda array: hashlib.sha256(array.bits.tobytes()).hexdigest()
    hops = (*trace.scale.hops, *trace.causal.hops)
    return {
        "captures": {n: [list(c.array.shape), c.array.dtype, digest(c.array)] for n, c in trace.captures.items()},
        "places": {name: [c.site.place, c.site.code, c.site.sha256] for name, c in trace.captures.items()},
        "output": [digest(trace.kernel.output), digest(trace.kernel.lse)],
        "arguments": dict(trace.kernel.arguments),
        "hops": [[hop.site.place, hop.seen, hop.value, hop.same_object] for hop in hops],
        "effects": [trace.effects.untraced_same, [list(row) for row in trace.effects.changed]],
        "checks": {check.id: str(check.status) for check in look_at(trace, 2).checks},
        "warnings": [warning.text("en") for warning in trace.warnings],
    }
"""
ALL_LIGHT = (
    f"{RUN}\n"
    + """
import json, sys
found = [run(*case, light=True) for case in json.loads(sys.argv[1])]
print(json.dumps({"found": found, "imported": "transformers" in sys.modules}))
"""
)
ROPES: dict[str, dict[str, Any]] = {
    "default": {"rope_type": "default", "rope_theta": 10000.0},
    "yarn": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 128},
    "linear": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0},
    "llama3": {
        "rope_type": "llama3",
        "rope_theta": 10000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 128,
    },
}
SLIDING = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}


CASES = (
    ("default", 0, "float32", 1, {}),
    ("default", 2, "bfloat16", 40, {}),
    ("yarn", 1, "float32", 9, {}),
    ("linear", 1, "float16", 9, {"attention_bias": True}),
    ("llama3", 0, "bfloat16", 9, {}),
    ("default", 2, "float32", 12, SLIDING),
)


@pytest.mark.usefixtures("needs_light")
def test_both_ways_give_the_same_bits_places_and_hops(make_checkpoint: Callable[..., Path]) -> None:
    """Layers, dtypes, rotary embeddings, biases and a sliding window; the light way in a process of its own."""
    asked = [
        (str(make_checkpoint("float32", rope_parameters=ROPES[rope], **more)), layer, dtype, tokens)
        for rope, layer, dtype, tokens, more in CASES
    ]
    light = fresh(ALL_LIGHT, json.dumps(asked))
    assert not light["imported"]
    namespace: dict[str, Any] = {}
    exec(RUN, namespace)
    for case, found in zip(asked, light["found"], strict=True):
        assert found == json.loads(json.dumps(namespace["run"](*case, light=False))), case
        assert "fail" not in found["checks"].values()
        assert found["effects"][0] is True


def test_where_transformers_is_imported_already_that_is_taken() -> None:
    import transformers  # noqa: F401

    code = definitions.light()
    assert (code.light, code.why) == (False, None)


ALOUD = """
import json
from dataclasses import replace
from unittest import mock
from tracer.engines.transformers import definitions as d

find, take = d.importlib.util.find_spec, d.take


def other_code(old, new):  # a take() that compiles another text than the file's
    return lambda source, *rest: take(replace(source, source=source.source.replace(old, new)), *rest)


faults = {
    "kernels": mock.patch.object(d.importlib.util, "find_spec", lambda n, *a: n == "kernels" or find(n, *a)),
    "file": mock.patch.object(d.pins, "lookup", lambda sha256: None),
    "names": mock.patch.object(d, "_NEEDED", (*d._NEEDED, "Qwen3Model")),
    "missing": mock.patch.object(d, "_NEEDED", (*d._NEEDED, "Qwen4Attention")),
    "code": mock.patch.object(d, "take", other_code("rotate_half(q) * sin", "rotate_half(q) * cos")),
    "interface": mock.patch.object(d, "take", other_code("super().get(attn_imp", "super().pop(attn_imp")),
    "checkpointing": mock.patch.object(d, "take", other_code("super().__init_subclass__(", "super().__init__(")),
    "instances": mock.patch.object(d, "take", other_code("return cls(**kwargs)", "return cls()")),
    "silu": mock.patch.object(d, "take", other_code("functional.silu(input)", "functional.relu(input)")),
    "layout": mock.patch.object(d, "CONFIG", "transformers.models.qwen3.configuration_of_tomorrow"),
    "activation": mock.patch.object(d, "find", None, create=True),  # nothing: what is asked for does it
}
found = {}
with mock.patch.object(d, "whole", lambda why=None: d.Code({}, why=why)):
    for name, fault in faults.items():
        with fault:
            code = d.light("gelu" if name == "activation" else "silu")
        found[name] = [code.light, code.why.text("en"), code.why.text("zh")]
    found["none"] = [d.light().light, "", ""]
print(json.dumps(found))
"""


@pytest.mark.usefixtures("needs_light")
def test_whatever_does_not_fit_falls_back_to_the_whole_import_and_says_so() -> None:
    said = {
        "kernels": "the package kernels is installed",
        "file": "models/qwen3/modeling_qwen3.py is none of the pinned files",
        "names": "modeling_qwen3.py alone lacks",
        "missing": "modeling_qwen3.py alone lacks Qwen4Attention",
        "code": "the code of apply_rotary_pos_emb is not the same",
        "interface": "the code of AttentionInterface.get_interface is not the same",
        "checkpointing": "the code of GradientCheckpointingLayer.__init_subclass__ is not the same",
        "instances": "the code of ClassInstantier.__getitem__ is not the same",
        "silu": "the code of SiLUActivation.forward is not the same",
        "activation": "the config has hidden_act gelu",
        "layout": "its files are laid out otherwise than expected (ModuleNotFoundError: No module named",
    }
    found = fresh(ALOUD)
    assert found.pop("none")[0] is True
    for name, (light, english, chinese) in found.items():
        assert not light
        assert said[name] in english
        assert "完整导入" in chinese
    assert found.keys() == said.keys()


def test_the_reason_stands_among_the_warnings(
    make_checkpoint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tracer import pipeline

    why = message("engine.not_light_kernels")
    monkeypatch.setattr(definitions, "light", lambda activation: definitions.whole(why))
    (trace,) = pipeline.trace_layers(
        str(make_checkpoint()), layers=[0], head=0, heads=[0], tokens=[1, 2], kernel="cpu-flash", light=True
    )
    assert why in trace.warnings


def test_a_definition_that_reads_a_name_nobody_supplies_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text("import os\n\n\ndef f():\n    return os.sep + g()\n\n\ndef g():\n    return 'x'\n")
    source = files.read("project", "1", "module.py", file)
    with pytest.raises(definitions._Unfit) as refused:
        definitions.take(source, ["f"], {"os": __import__("os")}, "module")
    assert "module.py alone lacks g" in refused.value.why.text("en")
    namespace = definitions.take(source, ["f", "g"], {"os": ModuleType("os", "not the real one")}, "module")
    assert namespace["f"].__code__.co_firstlineno == 4
    assert namespace["f"].__code__.co_filename == str(file)
    assert definitions.differing(source, [namespace["f"], namespace["g"]]) == []
