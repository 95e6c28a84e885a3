"""A weights file is checked byte by byte before a number is read from it, and all of them are checked together."""

import json
import os
import struct
from pathlib import Path

import pytest

from tracer.checkpoint.header import LONGEST_HEADER, read_header
from tracer.checkpoint.open import open_checkpoint
from tracer.errors import InputError

Q_PROJ = "model.layers.0.self_attn.q_proj.weight"


def refusal(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        open_checkpoint(str(folder))
    assert caught.value.exit_code == 2
    return str(caught.value)


def written(path: Path, header: object, data: bytes = b"") -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def header_refusal(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_header(path)
    return str(caught.value).replace(str(path), "FILE")


# one file


@pytest.mark.parametrize("kept", [0, 1, 7, 8, 9, 50, "header", "first byte", "half", "all but one"])
def test_a_file_cut_short_anywhere_is_an_error_that_says_both_lengths(maker, kept):
    path = maker.write() / "model.safetensors"
    whole = path.read_bytes()
    header = 8 + struct.unpack("<Q", whole[:8])[0]
    points = {"header": header, "first byte": header + 1, "half": len(whole) // 2, "all but one": len(whole) - 1}
    length = points.get(kept, kept)
    path.write_bytes(whole[:length])
    sentence = refusal(maker.folder)
    assert sentence.startswith(f"{path} is cut short: it has {length} bytes")
    assert sentence.endswith("Download or copy the file again.")
    if length >= header:
        assert f"{length} bytes of {len(whole)}, so these tensors are not whole: " in sentence


def test_a_file_that_goes_on_after_its_tensors(maker):
    path = maker.write() / "model.safetensors"
    path.write_bytes(path.read_bytes() + b"\0")
    assert "the rest belongs to no tensor" in refusal(maker.folder)


@pytest.mark.parametrize("length", [0, 1, LONGEST_HEADER + 1, (1 << 64) - 1])
def test_a_header_length_that_cannot_be(tmp_path, length):
    path = tmp_path / "x.safetensors"
    path.write_bytes(struct.pack("<Q", length) + b"{}")
    assert header_refusal(path).startswith(
        f"FILE is not a safetensors file that can be read: its first 8 bytes give a header of {length} bytes"
    )


@pytest.mark.parametrize(
    ("start", "sentence"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1\n", "FILE is a Git LFS pointer"),
        (b"<!DOCTYPE html>\n<html>", "FILE is a web page"),
        (b"\n <HTML><head>", "FILE is a web page"),
        (b"<?xml version='1.0'?><Error/>", "FILE is a web page"),
        (b"PK\x03\x04" + b"\0" * 60, "FILE is called safetensors but holds a pickle or zip archive"),
        (b"\x80\x02}q\x00.", "FILE is called safetensors but holds a pickle or zip archive"),
        (b"GGUF\x03\x00\x00\x00", "FILE is a GGUF file"),
    ],
)
def test_another_kind_of_file_is_recognised(tmp_path, start, sentence):
    path = tmp_path / "x.safetensors"
    path.write_bytes(start)
    assert header_refusal(path).startswith(sentence)


@pytest.mark.parametrize(
    ("header", "sentence"),
    [
        (b"{" * 5000, "JSON in FILE cannot be read at line 1, column 2"),
        # a bound of our own: how deep Python itself can read is a matter of its version
        (b'{"a":' * 100 + b"1" + b"}" * 100, 'gives tensor "a" the dtype null'),
        (b'{"a":' * 101 + b"1" + b"}" * 101, "JSON in FILE is nested too deeply"),
        (b'{"a":' + b"[" * 100 + b"]" * 100 + b"}", "JSON in FILE is nested too deeply"),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, "JSON in FILE is nested too deeply"),
        (b"[]", "FILE holds [] where a JSON object {…} is expected"),
        (b"\xff\xfe", "FILE is not UTF-8 text"),
        ({"a": 1}, 'header of FILE says 1 about tensor "a"'),
        ({"a": {}}, 'gives tensor "a" the dtype null, which safetensors does not have'),
        ({"a": {"dtype": "F33"}}, 'gives tensor "a" the dtype "F33"'),
        ({"a": {"dtype": ["F32"]}}, 'gives tensor "a" the dtype ["F32"]'),
        ({"a": {"dtype": "F32"}}, 'gives tensor "a" the shape null'),
        ({"a": {"dtype": "F32", "shape": [-1]}}, 'gives tensor "a" the shape [-1]'),
        ({"a": {"dtype": "F32", "shape": [1.0]}}, 'gives tensor "a" the shape [1.0]'),
        ({"a": {"dtype": "F32", "shape": [True]}}, 'gives tensor "a" the shape [true]'),
        ({"a": {"dtype": "F32", "shape": [1] * 9}}, 'gives tensor "a" the shape […]'),
        ({"a": {"dtype": "F32", "shape": [1 << 49]}}, 'gives tensor "a" the shape [562949953421312]'),
        ({"a": {"dtype": "F32", "shape": []}}, 'gives tensor "a" the data_offsets null'),
        ({"a": {"dtype": "F32", "shape": [], "data_offsets": [4]}}, "the data_offsets [4]"),
        ({"a": {"dtype": "F32", "shape": [], "data_offsets": [4, 0]}}, "the data_offsets [4, 0]"),
        ({"a": {"dtype": "F32", "shape": [], "data_offsets": [-4, 0]}}, "the data_offsets [-4, 0]"),
        (
            {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}},
            "dtype F32 takes 8 bytes, but its data_offsets span 4",
        ),
        ({"a": {"dtype": "F4", "shape": [3], "data_offsets": [0, 1]}}, "takes 1 bytes, but its data_offsets span 1"),
    ],
)
def test_a_header_that_describes_no_tensors(tmp_path, header, sentence):
    assert sentence in header_refusal(written(tmp_path / "x.safetensors", header, b"\0" * 64))


def test_a_key_twice_in_a_header(tmp_path):
    entry = b'{"dtype":"F32","shape":[],"data_offsets":[0,4]}'
    path = written(tmp_path / "x.safetensors", b'{"a":' + entry + b',"a":' + entry + b"}", b"\0" * 4)
    assert 'JSON in FILE has the key "a" twice' in header_refusal(path)


def test_overlapping_tensors(tmp_path):
    tensors = {
        "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]},
    }
    path = written(tmp_path / "x.safetensors", tensors, b"\0" * 12)
    assert 'lets tensor "b" overlap with "a"' in header_refusal(path)


def test_a_hole_between_tensors(tmp_path):
    tensors = {
        "a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
        "b": {"dtype": "F32", "shape": [1], "data_offsets": [8, 12]},
    }
    path = written(tmp_path / "x.safetensors", tensors, b"\0" * 12)
    assert 'leaves unused bytes before tensor "b"' in header_refusal(path)


def test_an_empty_tensor_is_well_formed(tmp_path):
    tensors = {
        "a": {"dtype": "F32", "shape": [0, 1 << 40], "data_offsets": [0, 0]},
        "b": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
    }
    header = read_header(written(tmp_path / "x.safetensors", tensors, b"\0" * 4))
    assert (header.tensors["a"].nbytes, header.tensors["b"].nbytes) == (0, 4)


# W5: quantised


@pytest.mark.parametrize("dtype", ["F8_E4M3", "F8_E5M2", "I8", "U8"])
def test_a_tensor_in_a_quantised_dtype_is_named(maker, dtype):
    maker.raw[Q_PROJ] = (dtype, (32, 16), bytes(32 * 16))
    sentence = refusal(maker.write())
    assert sentence.startswith(
        f'Tensor "{Q_PROJ}" in {maker.folder / "model.safetensors"} is stored as {dtype}, quantised'
    )
    assert sentence.endswith("Give the checkpoint in fp32, bf16 or fp16.")


def test_packed_integers_are_named(maker):
    del maker.values[Q_PROJ]
    name = "model.layers.0.self_attn.q_proj.qweight"
    maker.raw[name] = ("I32", (4, 16), bytes(4 * 16 * 4))
    assert f'Tensor "{name}" in' in refusal(maker.write())


def test_a_scale_beside_a_float_weight_is_named(maker):
    name = "model.layers.0.self_attn.q_proj.weight_scale_inv"
    maker.raw[name] = ("F32", (1,), bytes(4))
    assert f'Tensor "{name}" in' in refusal(maker.write())


def test_a_quantised_tensor_in_any_shard_is_named(maker):
    maker.raw["model.layers.3.mlp.up_proj.weight"] = ("F8_E4M3", (24, 16), bytes(24 * 16))
    assert '"model.layers.3.mlp.up_proj.weight"' in refusal(maker.shard())


# W3: index = files = headers


def test_whole_shards_are_opened(maker):
    open_checkpoint(str(maker.shard())).require_layers(3)


def test_a_missing_shard_is_named_with_its_tensors(maker):
    (maker.shard() / "model-00003-of-00003.safetensors").unlink()
    assert refusal(maker.folder) == (
        f'The index of {maker.folder} names the shard "model-00003-of-00003.safetensors", but there is no such '
        'file; it should hold "model.layers.3.input_layernorm.weight", "model.layers.3.mlp.down_proj.weight", '
        '"model.layers.3.mlp.gate_proj.weight", "model.layers.3.mlp.up_proj.weight", '
        '"model.layers.3.post_attention_layernorm.weight" … (+7). Download that shard.'
    )


def test_a_stray_weights_file_is_named(maker):
    (maker.shard() / "old.safetensors").write_bytes((maker.folder / "model-00001-of-00003.safetensors").read_bytes())
    assert 'weights that do not belong to the checkpoint: "old.safetensors" (its own are "model-00001-' in refusal(
        maker.folder
    )


def test_a_stray_file_beside_a_single_one_is_named(maker):
    (maker.write() / "adapter_model.safetensors").write_bytes(b"")
    assert '"adapter_model.safetensors" (its own are "model.safetensors")' in refusal(maker.folder)


def test_a_single_file_beside_an_index(maker):
    maker.shard()
    maker.write()
    assert "has both model.safetensors and model.safetensors.index.json" in refusal(maker.folder)


def test_shards_without_their_index(maker):
    (maker.shard() / "model.safetensors.index.json").unlink()
    assert "but neither model.safetensors nor model.safetensors.index.json" in refusal(maker.folder)


def test_a_tensor_that_the_index_promises_and_the_shard_lacks(maker):
    place = {name: maker.shard_of(name) for name in maker.values}
    maker.shard()
    maker.write_index(place | {"model.layers.9.mlp.up_proj.weight": "model-00002-of-00003.safetensors"})
    assert 'model-00002-of-00003.safetensors holds "model.layers.9.mlp.up_proj.weight", but it does not' in refusal(
        maker.folder
    )


def test_a_tensor_that_the_index_does_not_know(maker):
    place = {name: maker.shard_of(name) for name in maker.values}
    maker.shard()
    del place["model.norm.weight"]
    maker.write_index(place)
    assert 'model-00003-of-00003.safetensors holds "model.norm.weight", which the index does not name' in refusal(
        maker.folder
    )


def test_a_tensor_in_another_shard_than_the_index_says(maker, pack):
    place = {name: maker.shard_of(name) for name in maker.values}
    maker.shard()
    part = {name: entry for name, entry in maker.entries().items() if place[name].startswith("model-00001")}
    part["model.norm.weight"] = maker.entries()["model.norm.weight"]
    (maker.folder / "model-00001-of-00003.safetensors").write_bytes(pack(part))
    assert 'holds "model.norm.weight", which the index places in "model-00003-of-00003.safetensors"' in refusal(
        maker.folder
    )


@pytest.mark.parametrize(
    "name",
    [
        "../other.safetensors",
        "/etc/x.safetensors",
        "a/b.safetensors",
        "a\\b.safetensors",
        "..",
        "",
        "x.bin",
        "x\0.safetensors",
        "x\n.safetensors",
        "y" * 300 + ".safetensors",
        3,
        None,
        ["x.safetensors"],
    ],
)
def test_a_shard_name_that_is_no_plain_name_is_never_opened(maker, name):
    maker.shard()
    maker.write_index({Q_PROJ: name})
    assert "without any path. It was not opened." in refusal(maker.folder)


@pytest.mark.parametrize("weight_map", [None, {}, [], "x", 3])
def test_an_index_without_a_map(maker, weight_map):
    maker.shard()
    maker.write_index(weight_map)
    assert "an object from tensor names to file names is expected" in refusal(maker.folder)


# no safetensors at all


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "consolidated.00.pth"])
def test_pickles_are_never_opened_and_how_to_convert_is_said(maker, name):
    maker.write_config()
    (maker.folder / name).write_bytes(b"\x80\x02cos\nsystem\n")
    sentence = refusal(maker.folder)
    assert f'only as pickle files ("{name}"), which could run code when opened' in sentence
    assert "AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(NEW_FOLDER)" in sentence


def test_a_pickle_beside_safetensors_is_left_alone(maker):
    (maker.write() / "pytorch_model.bin").write_bytes(b"\x80\x02cos\nsystem\n")
    open_checkpoint(str(maker.folder)).require_layers(0)


def test_no_weights_at_all(maker):
    maker.write_config()
    assert "has a config.json but no weights: expected model.safetensors, or" in refusal(maker.folder)


# links


@pytest.mark.parametrize("file", ["config.json", "model.safetensors"])
def test_a_link_out_of_the_folder_is_not_followed(maker, tmp_path, file):
    folder = maker.write()
    outside = tmp_path / "outside"
    (folder / file).rename(outside)
    (folder / file).symlink_to(outside)
    assert f'{folder / file} is a link to "{outside}", outside the checkpoint\'s folder' in refusal(folder)


def test_a_link_within_the_folder_is_followed(maker):
    folder = maker.write()
    (folder / "model.safetensors").rename(folder / "weights")
    (folder / "model.safetensors").symlink_to("weights")
    open_checkpoint(str(folder)).require_layers(0)


@pytest.mark.parametrize("target", ["nothing", "model.safetensors"])
def test_a_link_to_nothing_or_to_itself(maker, target):
    folder = maker.write()
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to(target)
    assert "is a link that leads nowhere" in refusal(folder)


def test_a_folder_in_place_of_a_file(maker):
    maker.write_config()
    (maker.folder / "model.safetensors").mkdir()
    assert "is not a regular file" in refusal(maker.folder)


def test_a_pipe_in_place_of_a_file_does_not_hang(maker):
    maker.write_config()
    os.mkfifo(maker.folder / "model.safetensors")
    assert "is not a regular file" in refusal(maker.folder)


def snapshot(maker, cache: Path) -> Path:
    """Lay the checkpoint out as the hub's cache does: a snapshot of links into blobs."""
    source = maker.write()
    folder = cache / "models--org--small" / "snapshots" / ("a" * 40)
    blobs = cache / "models--org--small" / "blobs"
    folder.mkdir(parents=True)
    blobs.mkdir()
    for number, path in enumerate(sorted(source.iterdir())):
        path.rename(blobs / str(number))
        (folder / path.name).symlink_to(f"../../blobs/{number}")
    return folder


def test_a_hub_snapshot_may_link_to_its_blobs(maker, tmp_path):
    open_checkpoint(str(snapshot(maker, tmp_path / "hub"))).require_layers(0)


def test_a_hub_snapshot_may_not_link_out_of_the_cache(maker, tmp_path):
    folder = snapshot(maker, tmp_path / "hub")
    outside = tmp_path / "outside"
    (folder / "model.safetensors").resolve().rename(outside)
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to(outside)
    assert "outside the checkpoint's folder, and was not followed" in refusal(folder)


@pytest.mark.parametrize(
    "place",
    ["secret", "models--org--small/secret", "models--other--one/blobs/0", "models--org--small/snapshots/secret"],
)
def test_a_hub_snapshot_may_link_to_nothing_but_its_own_blobs(maker, tmp_path, place):
    # Whoever hands over a folder of this shape could otherwise have any file below its parent's parent's parent read.
    folder = snapshot(maker, tmp_path / "hub")
    target = tmp_path / "hub" / place
    target.parent.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").resolve().rename(target)
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to(target)
    assert "outside the checkpoint's folder, and was not followed" in refusal(folder)


def test_blobs_that_are_a_link_themselves_open_no_other_folder(maker, tmp_path):
    folder = snapshot(maker, tmp_path / "hub")
    blobs = folder.parent.parent / "blobs"
    blobs.rename(tmp_path / "elsewhere")
    blobs.symlink_to(tmp_path / "elsewhere")
    assert "outside the checkpoint's folder, and was not followed" in refusal(folder)


@pytest.mark.parametrize("step", ["lstat", "resolve", "open"])
def test_an_unreadable_file_is_named(maker, monkeypatch, step):
    folder = maker.write()

    def refuse(self: Path, *_: object, **__: object) -> Path:
        raise PermissionError(13, "Permission denied")

    if step == "resolve":
        plain = Path.resolve
        monkeypatch.setattr(Path, step, lambda self, strict=False: refuse(self) if strict else plain(self))
    else:
        monkeypatch.setattr(Path, step, refuse)
    assert "config.json cannot be read: Permission denied. Check that it exists" in refusal(folder)
