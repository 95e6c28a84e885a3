"""A saved trace may come from anyone: whatever is not as this tool writes it is refused with a sentence, no crash."""

import contextlib
import json
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.invented_trace import array, invented
from tracer.arrays import Array
from tracer.errors import InputError, TracerError, Unsupported
from tracer.files import write_whole
from tracer.result import look_at
from tracer.saved import container, encode
from tracer.saved.read import load
from tracer.texts import LANGUAGES

Change = Callable[[Any], object]


def write(folder: Path, change: Change = lambda description: None, tensors: Change = lambda held: None) -> Path:
    """Write a saved trace whose description and tensors went through ``change`` and ``tensors`` first."""
    layer = invented()
    metadata, held = encode.metadata(layer, "0.1.0"), encode.tensors(layer)
    description = json.loads(metadata["trace"])
    change(description)
    tensors(held)
    path = folder / "trace.safetensors"
    write_whole(path, *container.pieces(held, {**metadata, "trace": json.dumps(description)}))
    return path


def refused(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        load(path)
    for language in LANGUAGES:
        assert path.name in caught.value.text(language)
    return caught.value


def test_an_unchanged_description_is_taken(tmp_path: Path) -> None:
    assert load(write(tmp_path)).request == invented().request


# ------------------------------------------------------------------------------------------------- which file


def test_no_file_and_no_regular_file(tmp_path: Path) -> None:
    assert refused(tmp_path / "none.safetensors").id == "saved.no_file"
    (tmp_path / "folder.safetensors").mkdir()
    assert refused(tmp_path / "folder.safetensors").id == "saved.not_a_file"


@pytest.mark.parametrize("content", [b"", b"\x08", b"{}", b"hello, this is no safetensors file"])
def test_another_kind_of_file(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "trace.safetensors"
    path.write_bytes(content)
    refused(path)


def test_a_file_of_weights_is_not_a_saved_trace(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    for metadata in ({"format": "pt"}, {}):
        write_whole(path, *container.pieces({"weight": array([1.0])}, metadata))
        assert refused(path).id == "saved.not_a_trace"
    assert "--save" in refused(path).text()


def test_an_unknown_format_names_the_version_that_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "trace.safetensors"
    metadata = {"format": "trace-file/2", "written_by": "tracer 3.1.0\x1b[2J"}
    write_whole(path, *container.pieces({}, metadata))
    with pytest.raises(Unsupported) as caught:
        load(path)
    assert "trace-file/2" in caught.value.text()
    assert "tracer 3.1.0" in caught.value.text()
    assert "\x1b" not in caught.value.text()


def test_every_cut_of_the_file_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path)
    whole = path.read_bytes()
    for length in range(0, len(whole), max(1, len(whole) // 97)):
        path.write_bytes(whole[:length])
        refused(path)


def test_no_flipped_byte_crashes(tmp_path: Path) -> None:
    path = write(tmp_path)
    whole = path.read_bytes()
    header = 8 + struct.unpack("<Q", whole[:8])[0]
    random = np.random.default_rng(0)
    for place in random.integers(0, header, 300):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ int(random.integers(1, 256))]) + whole[place + 1 :])
        with contextlib.suppress(TracerError):  # a flip inside a text may go unseen
            look_at(load(path), 0)


# ------------------------------------------------------------------------------------------- the description


@pytest.mark.parametrize(
    "text", [None, "", "[]", "null", "{", '{"a": NaN}', '{"a": 1, "a": 2}', '"\ud800"', "[" * 9999]
)
def test_a_description_that_is_no_json_object(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "trace.safetensors"
    metadata = {"format": "trace-file/1", "written_by": "tracer 0.1.0"}
    header = json.dumps({"__metadata__": metadata if text is None else {**metadata, "trace": text}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    refused(path)


def put(*steps: str | int, value: Any) -> Change:
    """Return a change that puts ``value`` at the end of ``steps``."""

    def change(description: Any) -> None:
        for step in steps[:-1]:
            description = description[step]
        description[steps[-1]] = value

    return change


def drop(*steps: str | int) -> Change:
    """Return a change that takes away what is at the end of ``steps``."""

    def change(description: Any) -> None:
        for step in steps[:-1]:
            description = description[step]
        del description[steps[-1]]

    return change


WRONG = {
    "an entry is missing": (drop("effects"), "trace"),
    "an entry is too many": (put("more", value=1), "trace"),
    "layer beyond the model": (put("request", "layer", value=3), "request.layer"),
    "head beyond the model": (put("request", "head", value=4), "request.head"),
    "head that is true": (put("request", "head", value=True), "request.head"),
    "head that is 1.0": (put("request", "head", value=1.0), "request.head"),
    "query beyond the prompt": (put("request", "query", value=5), "request.query"),
    "heads that kv_heads do not divide": (put("model", "kv_heads", value=3), "model.kv_heads"),
    "no heads": (put("model", "heads", value=0), "model.heads"),
    "a window of no keys": (put("model", "window", value=0), "model.window"),
    "no tokens": (put("tokens", value=[]), "request"),
    "a token without bytes": (put("tokens", 0, value=[1, None, "a"]), "tokens[0]"),
    "a token with half a byte": (put("tokens", 0, value=[1, "abc", "a"]), "tokens[0]"),
    "a place before the first line": (put("sites", 0, "span", value=[0, 0, 1, 1]), "sites[0].span"),
    "an empty place": (put("sites", 0, "span", value=[3, 7, 3, 7]), "sites[0].span"),
    "a sha256 that is none": (put("sites", 0, "sha256", value="AB" * 32), "sites[0].sha256"),
    "a path out of the project": (put("sites", 0, "path", value="../../etc/passwd"), "sites[0].path"),
    "an absolute path": (put("sites", 0, "path", value="/etc/passwd"), "sites[0].path"),
    "a link that runs a script": (put("sites", 0, "permalink", value="javascript:alert(1)"), "sites[0].permalink"),
    "a link elsewhere": (put("sites", 0, "permalink", value="https://github.com.evil/x"), "sites[0].permalink"),
    "a link without a pin": (put("sites", 0, "link_kind", value="none"), "sites[0].permalink"),
    "a link where upstream differs": (put("sites", 0, "link_kind", value="differs"), "sites[0].permalink"),
    "no code": (put("sites", 0, "code", value=""), "sites[0].code"),
    "code longer than its place": (put("sites", 0, "code", value="hidden_states_"), "sites[0].code"),
    "code of more lines than its place": (put("sites", 0, "code", value="hidden\nstates"), "sites[0].code"),
    "code that steers a terminal": (put("sites", 0, "code", value="x\x1b[2J"), "sites[0].code"),
    "a version that steers a terminal": (put("versions", "torch", value="2\x1b[2J"), "versions.torch"),
    "a site that is not there": (put("kernel", "site", value=99), "kernel.site"),
    "a site counted from the end": (put("kernel", "site", value=-1), "kernel.site"),
    "a scale that is text": (put("scale", "value", value="0.1"), "scale.value"),
    "an argument that says nothing": (
        put("kernel", "arguments", "causal", value={"set": [1]}),
        "kernel.arguments.causal",
    ),
    "bounds that are no numbers": (put("kernel", "arguments", "cu_seqlens_q", value=[0, "5"]), "kernel.arguments"),
    "bounds of another prompt": (put("kernel", "arguments", "cu_seqlens_k", value=[0, 6]), "kernel.arguments"),
    "one tensor described twice": (lambda d: d["captures"].append(d["captures"][0]), "captures[5]"),
    "a tensor that is not there": (put("captures", 0, "name", value="q_norm"), "captures[0]"),
    "axes that the model has not": (put("captures", 0, "axes", value=["B", "T", "X"]), "captures"),
    "queries in another layout": (put("captures", 2, "axes", value=["H", "T", "D"]), "captures"),
    "heads that are kept twice": (put("effects", "heads", value=[0, 0, 1, 2]), "effects.heads"),
    "an earlier row that is not earlier": (put("effects", "changed", 0, value=[1, 1, True]), "effects.changed[0]"),
    "a sentence without an id": (drop("warnings", 0, "id"), "warnings[0]"),
    "a sentence with a blank that is its id": (put("warnings", 0, "values", "id", value=1), "warnings[0].values"),
    "a sentence inside itself": (lambda d: put("warnings", 0, "values", "x", value=nested(40))(d), "warnings[0]"),
}


def nested(depth: int) -> Any:
    return {"tuple": [nested(depth - 1)]} if depth else 0


def test_a_sentence_of_another_version_is_shown_as_it_was_saved(tmp_path: Path) -> None:
    for change in (put("warnings", 0, "id", value="of.later"), put("warnings", 0, "en", value="Said otherwise.")):
        path = write(tmp_path, change)
        (found,) = load(path).warnings
        saved = json.loads(container.read(path)[0]["trace"])["warnings"][0]  # type: ignore[index]
        assert (found.text("en"), found.text("zh")) == (saved["en"], saved["zh"])


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_description_is_refused_and_says_where(name: str, tmp_path: Path) -> None:
    change, where = WRONG[name]
    error = refused(write(tmp_path, change))
    assert error.id == "saved.damaged"
    assert str(error.message.values["where"]).removeprefix("trace.").startswith(where)
    assert "anew with --save" in error.text()


def test_the_error_reads_well(tmp_path: Path) -> None:
    error = refused(write(tmp_path, put("request", "head", value=4)))
    said = error.text().replace(str(tmp_path), "")
    assert said == (
        "/trace.safetensors is not a saved trace as tracer writes it: trace.request.head is 4, where a whole number "
        "from 0 to 3 is expected. Copy the file again, or make it anew with --save."
    )
    assert re.search("trace.request.head 处是 4，而这里应当是0 到 3 之间的整数", error.text("zh"))


# ----------------------------------------------------------------------------------------------- the tensors


def test_a_stray_tensor(tmp_path: Path) -> None:
    error = refused(write(tmp_path, tensors=lambda held: held.update(more=array([1.0]))))
    assert "more" in error.text()


def test_a_missing_tensor(tmp_path: Path) -> None:
    for name in ("q", "kernel.output", "effects.eager"):
        assert name in refused(write(tmp_path, tensors=lambda held, name=name: held.pop(name))).text()


def test_a_tensor_of_another_shape(tmp_path: Path) -> None:
    error = refused(write(tmp_path, tensors=lambda held: held.update(q=array(np.zeros((4, 5, 8))))))
    assert (error.message.values["found"], error.message.values["expected"]) == (
        "F32 [4, 5, 8]",
        "F64/F32/F16/BF16 [5, 4, 8]",
    )


def test_a_tensor_of_whole_numbers(tmp_path: Path) -> None:
    whole = Array("I64", np.zeros((5, 4, 8), dtype="<i8"))
    assert "I64" in refused(write(tmp_path, tensors=lambda held: held.update(q=whole))).text()


def test_a_dtype_no_trace_holds(tmp_path: Path) -> None:
    path = tmp_path / "trace.safetensors"
    header = json.dumps({"x": {"dtype": "F8_E4M3", "shape": [1], "data_offsets": [0, 1]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"\0")
    assert refused(path).id == "saved.dtype"


def test_a_description_too_long_to_be_read_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "LONGEST_HEADER", 100)
    with pytest.raises(InputError) as caught:
        list(container.pieces({}, {"trace": "x" * 200}))
    assert caught.value.id == "saved.too_long"
