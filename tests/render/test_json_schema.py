"""The JSON Schema takes what is really written, refuses what is broken, and can be read as documentation."""

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from tests.invented_trace import array, invented, site, with_array
from tracer import data
from tracer.records import LayerTrace
from tracer.render import json as trace_json
from tracer.render import json_diff
from tracer.result import look_at
from tracer.saved.diff import diff

SCHEMA = json.loads(data.schema("trace-1").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def document(layer: LayerTrace, head: int = 2, language: str = "en") -> Any:
    return json.loads(trace_json.dumps(look_at(layer, head), language))


def test_it_is_a_valid_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("count", [1, 2, 5, 70])
@pytest.mark.parametrize("dtype", ["F32", "BF16", "F16", "F64"])
def test_it_takes_traces(count: int, dtype: str) -> None:
    VALIDATOR.validate(document(invented(count, dtype)))


def test_it_takes_traces_in_chinese_without_pins_without_logsumexp_and_several() -> None:
    layer = invented()
    bare = replace(layer.kernel, lse=None, site=site(1, "f()", permalink=None, link_kind="none"))
    found = document(replace(layer, kernel=bare), language="zh")
    VALIDATOR.validate(found)
    VALIDATOR.validate([found, document(layer)])


def test_it_takes_a_pinned_place_that_differs_upstream() -> None:
    layer = invented()
    differs = replace(layer.kernel, site=site(1, "f()", permalink=None, link_kind="differs"))
    found = document(replace(layer, kernel=differs))
    place = found["kernel"]["site"]
    assert (place["pinned"], place["permalink"], place["link_kind"]) == (True, None, "differs")
    VALIDATOR.validate(found)
    place["pinned"] = False
    assert not VALIDATOR.is_valid(found)


def test_it_takes_what_differs() -> None:
    a = invented()
    b = with_array(invented(5, "BF16", seed=1), "q_proj", array([[[1.0]]]))
    b = replace(b, kernel=replace(b.kernel, lse=None, site=site(9, "g()", path="other.py", sha256="ef" * 32)))
    for found in (diff(a, a), diff(a, b), diff(b, a), diff(a, invented(6))):
        VALIDATOR.validate(json.loads(json_diff.dumps(found)))


BROKEN: dict[str, Callable[[Any], object]] = {
    "an entry is missing": lambda d: d.pop("head"),
    "an entry is too many": lambda d: d.update(more=1),
    "another format": lambda d: d.update(format="trace/2"),
    "a status that does not exist": lambda d: d["checks"][0].update(status="passed"),
    "a head that is text": lambda d: d["request"].update(head="2"),
    "a reason that is missing": lambda d: d["request"]["kernel"].pop("reason"),
    "a sha256 in capitals": lambda d: d["kernel"]["site"].update(sha256="AB" * 32),
    "an absolute path": lambda d: d["kernel"]["site"].update(path="/home/someone/x.py"),
    "a link without a pin": lambda d: d["kernel"]["site"].update(link_kind="none"),
    "a pin without a link": lambda d: d["kernel"]["site"].update(permalink=None),
    "a link where upstream differs": lambda d: d["kernel"]["site"].update(link_kind="differs"),
    "a link that runs a script": lambda d: d["kernel"]["site"].update(permalink="javascript:alert(1)"),
    "a line before the first": lambda d: d["kernel"]["site"].update(line=0),
    "half a byte": lambda d: d["tokens"][0].update(bytes="7"),
    "a dtype as torch names it": lambda d: d["tensors"][0].update(dtype="float32"),
    "a score that is text": lambda d: d["head"]["scores"][0].__setitem__(0, "-inf"),
    "a visibility that is a number": lambda d: d["head"]["visible"][0].__setitem__(0, 1),
    "a window of one end": lambda d: d["head"]["window"].update(rows=[0]),
    "no tensors": lambda d: d.update(tensors=[]),
    "an expected scale that is null": lambda d: d["scale"].update(expected=None),
    "an unknown entry of a hop": lambda d: d["scale"]["lineage"][0].update(file="/home/someone/x.py"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_it_refuses_broken_traces(name: str) -> None:
    found = copy.deepcopy(document(invented()))
    BROKEN[name](found)
    assert not VALIDATOR.is_valid(found)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(format="trace/1"),
        lambda d: d["tensors"][0].update(status="equal"),
        lambda d: d.pop("first"),
        lambda d: d["prompt"].update(length_a=0),
    ],
)
def test_it_refuses_broken_diffs(change: Callable[[Any], object]) -> None:
    found = json.loads(json_diff.dumps(diff(invented(), invented(seed=1))))
    change(found)
    assert not VALIDATOR.is_valid(found)


def objects(schema: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(schema, dict):
        yield where, schema
        for name, inner in schema.items():
            yield from objects(inner, f"{where}/{name}")
    elif isinstance(schema, list):
        for index, inner in enumerate(schema):
            yield from objects(inner, f"{where}/{index}")


def test_every_entry_is_described_and_every_object_is_closed() -> None:
    for where, schema in objects(SCHEMA):
        if "properties" in schema and "required" in schema:
            assert schema["additionalProperties"] is False, where
            assert set(schema["required"]) == set(schema["properties"]), where
            for name, entry in schema["properties"].items():
                described = "description" in entry or set(entry) <= {"const", "$ref"}
                assert described, f"{where}/{name}"


def test_every_definition_is_used() -> None:
    used = {schema["$ref"].removeprefix("#/$defs/") for _, schema in objects(SCHEMA) if "$ref" in schema}
    assert used == set(SCHEMA["$defs"])
