"""The JSON Schema of ``trace lab`` takes what every lab really writes, and refuses what is broken."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.labs.test_commands import LABS, VARIANTS
from tests.labs.test_quiz import RIGHT, asked
from tracer import data

SCHEMA = json.loads(data.schema("lab-1").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
SAVED = str(Path(__file__).parents[1] / "render" / "terminal" / "golden" / "layer-0.safetensors")
MORE = [*LABS.items(), *VARIANTS, ("scale", ["--dims", "4", "--samples", "200", "--trace", SAVED])]


def test_it_is_a_valid_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize(("name", "more"), MORE)
def test_it_takes_every_lab_and_nothing_less(trace: Any, name: str, more: list[str]) -> None:
    found = json.loads(trace("lab", name, *more, "--format", "json").out)
    VALIDATOR.validate(found)
    for path in _places(found):
        less = copy.deepcopy(found)
        inner = less
        for step in path[:-1]:
            inner = inner[step]
        del inner[path[-1]]
        assert not VALIDATOR.is_valid(less), path
    assert not VALIDATOR.is_valid({**found, "unknown": 1})
    assert not VALIDATOR.is_valid({**found, "lab": "none"})


@pytest.mark.parametrize("given", [RIGHT, ["0.5", "skip", "0.7071, 0"], []])
def test_it_takes_a_quiz(given: list[str]) -> None:
    score, _ = asked(*given)
    found = json.loads(json.dumps(score.json("en")))
    VALIDATOR.validate(found)
    assert not VALIDATOR.is_valid({**found, "ended": None})


def _places(found: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every key, of lists those in the first item only."""
    if isinstance(found, dict):
        for name, value in found.items():
            yield (*path, name)
            yield from _places(value, (*path, name))
    elif isinstance(found, list) and found:
        yield from _places(found[0], (*path, 0))


def test_every_key_is_known_to_the_lab_that_writes_it(trace: Any) -> None:
    """What a definition names is written: nothing in the schema is left over from another version."""
    for name, more in LABS.items():
        found = json.loads(trace("lab", name, *more, "--format", "json").out)
        assert set(SCHEMA["$defs"][name]["required"]) == found.keys()
