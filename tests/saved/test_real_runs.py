"""Traces of transformers' own code, on every kernel that runs here: saved, opened again, as JSON the schema takes."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from tests.saved.test_round_trip import differences
from tracer import data, pipeline
from tracer.portable import portable
from tracer.render.json import dumps
from tracer.result import look_at
from tracer.saved.diff import diff
from tracer.saved.read import load
from tracer.saved.write import save

IDS = (5, 6, 7, 8, 5, 6, 7, 8, 9)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kernel", ["cpu-flash", "sdpa", "eager"])
def test_a_real_trace_comes_back_whole(
    kernel: str, dtype: str, make_checkpoint: Callable[..., Path], tmp_path: Path
) -> None:
    folder = make_checkpoint()
    trace = pipeline.trace(
        str(folder), layer=1, head=2, tokens=IDS, kernel=kernel, dtype=dtype, device="cpu", all_heads=True
    )
    save(trace, tmp_path / "trace.safetensors")
    back = load(tmp_path / "trace.safetensors")
    # A warning may name the checkpoint's folder; a saved one does not.
    expected = replace(trace.layer, warnings=tuple(map(portable, trace.layer.warnings)))
    assert differences(expected, back) == []
    assert diff(trace.layer, back).same
    validator = jsonschema.Draft202012Validator(json.loads(data.schema("trace-1").read_text(encoding="utf-8")))
    for head in range(trace.layer.model.heads):
        text = dumps(look_at(back, head))
        assert text == dumps(look_at(trace.layer, head))
        validator.validate(json.loads(text))
    content = (tmp_path / "trace.safetensors").read_bytes()
    assert str(folder.parent).encode() not in content
    assert b"site-packages" not in content


def test_two_kernels_part_where_attention_is_computed(make_checkpoint: Callable[..., Path]) -> None:
    folder = str(make_checkpoint())
    flash, eager = (
        pipeline.trace(folder, layer=0, tokens=IDS, kernel=kernel, device="cpu").layer
        for kernel in ("cpu-flash", "eager")
    )
    found = diff(flash, eager)
    assert found.first in ("lse", "output")
    output = next(tensor for tensor in found.tensors if tensor.name == "output")
    assert output.max_abs is not None
    assert output.max_abs < 1e-5
    assert [change.name for change in found.request] == ["kernel"]
