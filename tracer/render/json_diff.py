"""What differs between two traces as JSON, format diff/1 (``tracer/schemas/trace-1.schema.json``).

Must not know: files, terminals.
"""

from collections.abc import Iterable
from typing import Any

from tracer.records import Site
from tracer.render import json_text, jsonable
from tracer.saved.diff import Change, Diff, LineageDiff, PlaceDiff, SourceDiff, SourceFile
from tracer.saved.numbers import Held, TensorDiff

FORMAT = "diff/1"


def dumps(found: Diff) -> str:
    """Return ``to_json`` as text, with a line end."""
    return json_text.dumps(to_json(found))


def to_json(found: Diff) -> dict[str, Any]:
    """Return what differs as JSON values; nothing in it depends on a language."""
    prompt = found.prompt
    return {
        "format": FORMAT,
        "same": found.same,
        "request": _changes(found.request),
        "versions": _changes(found.versions),
        "checkpoint": _changes(found.checkpoint),
        "model": _changes(found.model),
        "prompt": {
            "same": prompt.same,
            "length_a": prompt.length_a,
            "length_b": prompt.length_b,
            "first": prompt.first,
            "a": None if prompt.a is None else jsonable.token(prompt.a),
            "b": None if prompt.b is None else jsonable.token(prompt.b),
        },
        "sources": [_source(source) for source in found.sources],
        "places": [_place(place) for place in found.places],
        "scale": _lineage(found.scale),
        "causal": _lineage(found.causal),
        "kernel": _changes(found.kernel),
        "effects": _changes(found.effects),
        "tensors": [_tensor(tensor) for tensor in found.tensors],
        "first": found.first,
    }


def _changes(changes: Iterable[Change]) -> list[dict[str, Any]]:
    return [{"name": one.name, "a": jsonable.loose(one.a), "b": jsonable.loose(one.b)} for one in changes]


def _source(source: SourceDiff) -> dict[str, Any]:
    return {"path": source.path, "a": _file(source.a), "b": _file(source.b)}


def _file(file: SourceFile | None) -> dict[str, Any] | None:
    return None if file is None else {"project": file.project, "version": file.version, "sha256": file.sha256}


def _place(place: PlaceDiff) -> dict[str, Any]:
    ends = {"a": _site(place.a), "b": _site(place.b)}
    return {"name": place.name, "moved": place.moved, "rewritten": place.rewritten, **ends}


def _site(site: Site | None) -> dict[str, Any] | None:
    return None if site is None else jsonable.site(site)


def _lineage(found: LineageDiff) -> dict[str, Any]:
    return {
        "same": found.same,
        "a": jsonable.flag_or_number(found.a.value),
        "b": jsonable.flag_or_number(found.b.value),
        "expression_a": found.a.expression,
        "expression_b": found.b.expression,
        "hops_a": len(found.a.hops),
        "hops_b": len(found.b.hops),
    }


def _tensor(found: TensorDiff) -> dict[str, Any]:
    return {
        "name": found.name,
        "status": found.status.value,
        "a": _held(found.a),
        "b": _held(found.b),
        "differing": found.differing,
        "max_abs": jsonable.number(found.max_abs),
        "mean_abs": jsonable.number(found.mean_abs),
        "max_spacings": jsonable.number(found.max_spacings),
        "nonfinite": found.nonfinite,
        "at": None if found.at is None else list(found.at),
    }


def _held(held: Held | None) -> dict[str, Any] | None:
    return None if held is None else {"shape": list(held.shape), "dtype": held.dtype}
