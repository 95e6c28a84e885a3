"""What is saved opens with the safetensors library, and with nothing but its documented layout."""

import json
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.invented_trace import invented
from tracer.result import look_at
from tracer.saved.write import save


@pytest.mark.parametrize("dtype", ["F32", "BF16", "F16"])
def test_safetensors_reads_every_tensor_in_its_own_dtype(dtype: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file

    layer = invented(dtype=dtype)
    save(look_at(layer, 0), tmp_path / "trace.safetensors")
    found = load_file(tmp_path / "trace.safetensors")
    assert set(found) == {*layer.captures, "kernel.output", "kernel.lse", "effects.eager"}
    names = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
    assert found["q"].dtype == names[dtype]
    assert np.array_equal(found["q"].double().numpy(), layer.captures["q"].array.float64())


def test_safetensors_reads_it_into_numpy_and_hands_out_the_description(tmp_path: Path) -> None:
    from safetensors import safe_open

    layer = invented()
    save(look_at(layer, 0), tmp_path / "trace.safetensors")
    with safe_open(tmp_path / "trace.safetensors", framework="np") as file:
        assert np.array_equal(file.get_tensor("kernel.output"), layer.kernel.output.bits)
        metadata = file.metadata()
    assert metadata["format"] == "trace-file/1"
    description = json.loads(metadata["trace"])
    assert description["request"]["kernel"]["reason"]["en"] == layer.request.kernel.reason.text("en")
    assert description["sites"][description["kernel"]["site"]]["code"] == layer.kernel.site.code


def test_the_layout_is_the_documented_one(tmp_path: Path) -> None:
    layer = invented()
    save(look_at(layer, 0), tmp_path / "trace.safetensors")
    whole = (tmp_path / "trace.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", whole[:8])
    entry = json.loads(whole[8 : 8 + length])["q"]
    begin, end = entry["data_offsets"]
    assert whole[8 + length + begin : 8 + length + end] == layer.captures["q"].array.bits.tobytes()
    assert (8 + length) % 8 == 0


def test_opening_and_looking_imports_no_model_code(tmp_path: Path) -> None:
    save(look_at(invented(), 0), tmp_path / "trace.safetensors")
    code = (
        "import sys; from pathlib import Path\n"
        "from tracer.render.json import dumps\n"
        "from tracer.result import look_at\n"
        "from tracer.saved.read import load\n"
        "dumps(look_at(load(Path(sys.argv[1])), 1))\n"
        "heavy = {'torch', 'transformers', 'tokenizers', 'safetensors', 'libcst', 'jsonschema', 'rich'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "trace.safetensors"], capture_output=True, text=True, check=False
    )
    assert (ran.stdout, ran.stderr) == ("[]\n", "")
