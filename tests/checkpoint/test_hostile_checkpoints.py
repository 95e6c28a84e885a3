"""Thousands of checkpoints that are wrong at random: each is read, or refused with an error that says what to do.

Structured faults (a value of a JSON file replaced, removed, moved) and blind ones (bytes flipped, cut, repeated), with
fixed seeds. TRACER_HOSTILE_ROUNDS sets how many of each kind are tried.
"""

import copy
import json
import os
import random
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tracer.checkpoint.open import open_checkpoint
from tracer.errors import TracerError
from tracer.texts import LANGUAGES

ROUNDS = int(os.environ.get("TRACER_HOSTILE_ROUNDS", "150"))
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
ODD: list[Any] = [
    None, True, False, 0, 1, -1, 2, 7, 2**31, 2**63, 2**64, 10**9, 10**300, 10**4000, 0.0, -0.5, 1e308, 1e-320,
    "", "x", "\x00", "\x1b[2J", "\ud800", "../../etc/passwd", "/dev/zero", "x" * 10_000, "qwen3", "full_attention",
    [], [0], [0, 0], [-1, 4], [[]], [None], list(range(1000)), {}, {"a": {}}, {"rope_theta": None}, {"type": []},
]  # fmt: skip


def mutated(value: Any, dice: random.Random) -> Any:
    """``value`` with one place in it replaced, removed, doubled or renamed."""
    value = copy.deepcopy(value)
    holder = value
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            return value
        key = dice.choice(keys)
        if isinstance(holder[key], dict | list) and holder[key] and dice.random() < 0.6:
            holder = holder[key]
            continue
        change = dice.randrange(4)
        if change == 0:
            holder.pop(key)
        elif change == 1 and isinstance(holder, dict):
            holder[str(dice.choice(ODD))[:50]] = holder.pop(key)
        elif change == 2 and type(holder[key]) is int:
            holder[key] += dice.choice((-4, -1, 1, 4, 1 << 40))
        else:
            holder[key] = dice.choice(ODD)
        return value


def scrambled(data: bytes, dice: random.Random) -> bytes:
    """``data`` with one stretch of it flipped, cut out, repeated or overwritten, mostly near its beginning."""
    at = dice.randrange(min(len(data), dice.choice((16, 300, len(data)))))
    length = dice.choice((1, 1, 8, 100))
    change = dice.randrange(5)
    if change == 0:
        return data[:at]
    if change == 1:
        return data[:at] + data[at + length :]
    if change == 2:
        return data[:at] + data[at : at + length] * dice.choice((2, 50)) + data[at:]
    if change == 3:
        return data[:at] + dice.randbytes(length) + data[at + length :]
    return data[:at] + bytes([data[at] ^ (1 << dice.randrange(8))]) + data[at + 1 :]


def json_file(name: str) -> Callable[[Path, random.Random], None]:
    def change(folder: Path, dice: random.Random) -> None:
        content = json.loads((folder / name).read_text())
        for _ in range(dice.choice((1, 1, 2, 5))):
            content = mutated(content, dice)
        (folder / name).write_text(json.dumps(content))

    return change


def header(folder: Path, dice: random.Random) -> None:
    path = next(iter(sorted(folder.glob("*.safetensors"))))
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    content = mutated(json.loads(data[8 : 8 + length]), dice)
    text = json.dumps(content).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])


def any_bytes(folder: Path, dice: random.Random) -> None:
    path = dice.choice(sorted(folder.iterdir()))
    path.write_bytes(scrambled(path.read_bytes(), dice))


KINDS = {
    "config": json_file("config.json"),
    "index": json_file(INDEX),
    "header": header,
    "bytes": any_bytes,
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_hostile_checkpoint_is_read_or_refused(maker, kind):
    folder = maker.shard()
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    refused = 0
    for seed in range(ROUNDS):
        for path in folder.iterdir():
            if path.name not in whole or path.read_bytes() != whole[path.name]:
                path.unlink()
        for name, data in whole.items():
            if not (folder / name).exists():
                (folder / name).write_bytes(data)
        KINDS[kind](folder, random.Random(f"{kind} {seed}"))
        before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
        start = time.monotonic()
        refused += is_refused(folder, seed)
        assert time.monotonic() - start < 10, seed
        assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before, seed
    assert refused > ROUNDS / 3  # the faults are real ones


def is_refused(folder: Path, seed: int) -> bool:
    """Whether the checkpoint is refused; any error but the project's own fails the test."""
    refusal: TracerError | None = None
    texts: list[str] = []
    try:
        checkpoint = open_checkpoint(str(folder))
        checkpoint.require_layers(1)
        checkpoint.facts()
        checkpoint.model_facts(1)
        checkpoint.load(name for name in checkpoint.tensors if ".layers.1." in name)
        checkpoint.embedding_rows([0])
        texts = [str(warning) for warning in checkpoint.warnings]
    except TracerError as error:
        refusal = error
    if refusal is not None:
        texts = [refusal.text(language) for language in LANGUAGES]
        assert refusal.exit_code in (2, 3), seed
        assert str(folder) in texts[0], (seed, texts[0])
        assert len(texts[0].replace(str(folder), "")) < 1500, (seed, texts[0])
    assert all(text.isprintable() for text in texts), (seed, texts)
    return refusal is not None
