"""The parsers of this project, each as one function of bytes, and what must be true whatever the bytes are.

A subject writes the bytes where a hostile file would lie and reads that as the tool would; it returns what a reader
would be told. Must not know: where bytes come from.
"""

import json
import re
import struct
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.checkpoint.conftest import Maker
from tests.fuzz.watch import harmless
from tests.invented_trace import invented
from tracer.checkpoint.checkpoint import Checkpoint
from tracer.checkpoint.open import open_checkpoint
from tracer.checkpoint.places import Folder
from tracer.checkpoint.tokenizer import read_tokenizer
from tracer.cli.prompt import read_prompt
from tracer.errors import TracerError
from tracer.lint.jsonable import to_json as lint_json
from tracer.lint.page import lint_page
from tracer.lint.run import lint
from tracer.lint.sarif import to_sarif
from tracer.render import json_text
from tracer.render.terminal.render import render
from tracer.render.terminal.screen import Screen
from tracer.render.text import head_text
from tracer.result import look_at
from tracer.saved import container, encode
from tracer.saved.read import load
from tracer.source import pins
from tracer.texts import LANGUAGES

LONGEST = 1500  # characters of an error, without the path
# How the sentence that says what to do begins. Each error a subject raises has one.
TO_DO = (
    "Accept",
    "Add",
    "Ask",
    "Check",
    "Choose",
    "Convert",
    "Copy",
    "Correct",
    "Download",
    "Fetch",
    "Get",
    "Give",
    "Leave",
    "Load",
    "Make",
    "Move",
    "Open",
    "Pass",
    "Put",
    "Remove",
    "Replace",
    "Run",
    "Save",
    "Set",
    "Shorten",
    "Show",
    "Try",
    "Use",
    "Wait",
    "Write",
    "Saved traces are made with:",
    "if it is one, add",
)


@dataclass(frozen=True)
class Subject:
    """A parser: ``prepare`` fills a folder once, ``read`` takes the bytes and that folder and returns what is said of
    them; ``seed`` is a whole and right file, which must be accepted; ``named`` is the file an error has to name, or to
    name the folder of."""

    prepare: Callable[[Path], None]
    read: Callable[[bytes, Path], str]
    seed: Callable[[], bytes]
    named: str


def judge(
    subject: Subject, data: bytes, folder: Path, watch: Callable[[], AbstractContextManager[None]] = harmless
) -> TracerError | None:
    """Read ``data`` under ``watch`` and return the error it is refused with, None where it is taken; raises
    AssertionError where it is refused badly, and lets every other exception through."""
    refusal: TracerError | None = None
    told = ""
    with _written(subject, data, folder), watch():
        try:
            told = subject.read(data, folder)
        except TracerError as error:
            refusal = error
    assert not [character for character in told if not (character.isprintable() or character == "\n")]
    if refusal is not None:
        _well_said(refusal, subject.named, folder)
    return refusal


def _well_said(refusal: TracerError, named: str, folder: Path) -> None:
    assert refusal.exit_code in (2, 3)
    english, chinese = (refusal.text(language) for language in LANGUAGES)
    for text in (english, chinese):
        assert text.isprintable(), ascii(text)
        assert named in text or str(folder) in text, text
        assert len(text.replace(str(folder), "")) < LONGEST, text
    assert any(f" {verb.lower()} " in f" {english}".lower() for verb in TO_DO), english


class _written:
    """The bytes on the disk for one ``with``, where the subject takes them from a file."""

    def __init__(self, subject: Subject, data: bytes, folder: Path) -> None:
        self._path = folder / subject.named if "." in subject.named else None
        self._data = data

    def __enter__(self) -> None:
        if self._path is not None:
            self._path.write_bytes(self._data)

    def __exit__(self, *_: object) -> None:
        if self._path is not None:
            self._path.unlink()


# ------------------------------------------------------------------------------------------------ checkpoints


def _explored(checkpoint: Checkpoint) -> str:
    """All that a run reads of a checkpoint, and what it warns of."""
    layer = min(1, checkpoint.settings.layers - 1)
    checkpoint.require_layers(layer)
    checkpoint.facts()
    checkpoint.model_facts(layer)
    checkpoint.load(name for name in checkpoint.tensors if f".layers.{layer}." in name)
    checkpoint.embedding_rows([0])
    return "\n".join(str(warning) for warning in checkpoint.warnings)


def _open(_: bytes, folder: Path) -> str:
    return _explored(open_checkpoint(str(folder)))


def _small(folder: Path) -> Maker:
    maker = Maker(folder)
    maker.config["num_hidden_layers"] = 2
    maker.values = {name: value for name, value in maker.values.items() if not re.search(r"layers\.[23]\.", name)}
    return maker


def _single(folder: Path) -> None:
    _small(folder).write()


def _sharded(folder: Path) -> None:
    _small(folder).shard()


def _without(name: str, prepare: Callable[[Path], None]) -> Callable[[Path], None]:
    def prepared(folder: Path) -> None:
        prepare(folder)
        (folder / name).unlink()

    return prepared


@cache
def _seeds() -> Mapping[str, bytes]:
    import tempfile

    found: dict[str, bytes] = {}
    for prepare in (_single, _sharded):
        with tempfile.TemporaryDirectory() as name:
            prepare(Path(name))
            found |= {path.name: path.read_bytes() for path in Path(name).iterdir()}
    return found


def _seed(name: str) -> Callable[[], bytes]:
    return lambda: _seeds()[name]


# --------------------------------------------------------------------------------------------------- tokenizer

# A byte-level BPE of a dozen tokens: what tokenizers itself needs, and no more.
TOKENIZER: dict[str, Any] = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [
        {
            "id": 9,
            "content": "<|end|>",
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
    ],
    "normalizer": None,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    "post_processor": None,
    "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    "model": {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "vocab": {"a": 0, "b": 1, "Ġ": 2, "ab": 3, "Ġa": 4, "è": 5, "¥": 6, "¿": 7, "Ġab": 8},
        "merges": [["a", "b"], ["Ġ", "a"], ["Ġ", "ab"]],
    },
}


def _tokenizer(_: bytes, folder: Path) -> str:
    tokenizer = read_tokenizer(Folder(folder, folder.name))
    ids = tokenizer.encode("ab a 西 <|end|>")
    tokens = tokenizer.tokens([*ids[:50], *range(-1, 12), 1 << 40])
    return "\n".join(ascii(text) for _, _, text in tokenizer.joined(tokens))


# ------------------------------------------------------------------------------------------------- saved traces


@cache
def _held() -> tuple[dict[str, str], dict[str, Any]]:
    layer = invented()
    return encode.metadata(layer, "0.1.0"), encode.tensors(layer)


def whole_trace(description: bytes) -> bytes:
    """Return a saved trace whose description is ``description``."""
    metadata, tensors = _held()
    text = {**metadata, "trace": description.decode("utf-8", "surrogateescape")}
    try:
        return b"".join(bytes(piece) for piece in container.pieces(tensors, text))
    except UnicodeEncodeError:  # bytes that are no UTF-8 cannot come as a JSON string; escaped they can
        text["trace"] = json.dumps(text["trace"])[1:-1]
        return b"".join(bytes(piece) for piece in container.pieces(tensors, text))


def _trace(_: bytes, folder: Path) -> str:
    layer = load(folder / "trace.safetensors")
    traced = look_at(layer, layer.request.head)
    return head_text(traced, "en", Screen(80), query=layer.request.query)


# ----------------------------------------------------------------------------------------------------- the rest


def _lint(_: bytes, folder: Path) -> str:
    report = lint([folder])
    for language in LANGUAGES:
        for made in (lint_json(report, language), to_sarif(report, language)):
            json.loads(json_text.dumps(made).encode("utf-8", "backslashreplace"))
    return render(lint_page(report, "zh"), Screen(80))


def _pins(data: bytes, folder: Path) -> str:
    for pin in pins.parse(data.decode("utf-8", "replace"), Path("demo.toml")):
        pins.permalink(pin, 1, 3)
    return ""


def _prompt(_: bytes, folder: Path) -> str:
    return ascii(read_prompt(folder / "prompt.txt"))


def _nothing(folder: Path) -> None:
    folder.mkdir(exist_ok=True)


PINS = """\
project = "demo"
package = "demo"
licence = "MIT"
repository = "someone/demo"

[[release]]
version = "1.0"
archive = "wheel"
tag = "v1.0"

[[release.file]]
member = "demo/a.py"
path = "src/demo/a.py"
bytes = 120
sha256 = "abababababababababababababababababababababababababababababababab"
git_blob = "abababababababababababababababababababab"
same_until_line = 40
"""
PORT = """\
import torch.nn.functional as F
from flash_attn import flash_attn_func


class Attention:
    def __init__(self, config):
        self.scaling = config.hidden_size**-0.5

    def forward(self, q, k, v, attention_mask=None):
        out = flash_attn_func(q, k, v, softmax_scale=self.scaling, causal=attention_mask is None)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1 / 8) + out
"""
INDEX, WEIGHTS = "model.safetensors.index.json", "model.safetensors"

SUBJECTS: Mapping[str, Subject] = {
    "header": Subject(_without(WEIGHTS, _single), _open, _seed(WEIGHTS), WEIGHTS),
    "config": Subject(_without("config.json", _single), _open, _seed("config.json"), "config.json"),
    "index": Subject(_without(INDEX, _sharded), _open, _seed(INDEX), INDEX),
    "tokenizer": Subject(_nothing, _tokenizer, lambda: json.dumps(TOKENIZER).encode(), "tokenizer.json"),
    "trace": Subject(_nothing, _trace, lambda: whole_trace(_held()[0]["trace"].encode()), "trace.safetensors"),
    "lint": Subject(_nothing, _lint, PORT.encode, "port.py"),
    "pins": Subject(_nothing, _pins, PINS.encode, "demo.toml"),
    "prompt": Subject(_nothing, _prompt, "the cat 猫\n".encode, "prompt.txt"),
}


def packed(header: Any, data: bytes) -> bytes:
    """Return a safetensors file whose header is ``header`` as JSON and whose tensors are ``data``."""
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data
