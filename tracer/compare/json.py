"""Comparisons as JSON, format compare/1 (``tracer/schemas/trace-1.schema.json`` says what each entry means).

Must not know: files, terminals. Nothing is computed here.
"""

from collections.abc import Sequence
from typing import Any

from tracer.compare.records import Comparison, Distance, Finding, Pair, Side
from tracer.records import Site
from tracer.render import json_diff, json_text, jsonable

FORMAT = "compare/1"


def dumps(found: Sequence[Comparison], language: str) -> str:
    """Return one comparison, or a list of several, as text with a line end."""
    documents = [to_json(one, language) for one in found]
    return json_text.dumps(documents[0] if len(documents) == 1 else documents)


def to_json(found: Comparison, language: str) -> dict[str, Any]:
    """Return a comparison as JSON values; sentences are in ``language``."""
    first = found.first
    return {
        "format": FORMAT,
        "agree": found.agree,
        "layer": found.a.trace.request.layer,
        "token_ids": list(found.a.trace.request.token_ids),
        "a": _side(found.a),
        "b": _side(found.b),
        "unit": found.unit,
        "yardstick": jsonable.sentence(found.yardstick, language),
        "first": None if first is None else {"layer": first.layer, "step": first.name},
        "steps": [_pair(pair) for pair in found.steps],
        "inside": [_pair(pair) for pair in found.inside],
        "before": [_pair(pair) for pair in found.before],
        "findings": [_finding(finding, language) for finding in found.findings],
        "diff": None if found.diff is None else json_diff.to_json(found.diff),
    }


def _side(side: Side) -> dict[str, Any]:
    asked = side.trace.request
    chosen = {name: getattr(asked, name).value for name in ("engine", "kernel", "device", "dtype")}
    return {"name": side.name, **chosen, "provider": side.trace.kernel.provider, "versions": dict(side.trace.versions)}


def _pair(pair: Pair) -> dict[str, Any]:
    return {
        "layer": pair.layer,
        "step": pair.name,
        "standing": pair.standing.value,
        "distance": None if pair.distance is None else _distance(pair.distance),
        "allowed": jsonable.number(pair.allowed),
        "shapes": None if pair.shapes is None else {"a": list(pair.shapes[0]), "b": list(pair.shapes[1])},
        "a": _site(pair.a),
        "b": _site(pair.b),
    }


def _distance(found: Distance) -> dict[str, Any]:
    return {
        "max": jsonable.number(found.largest),
        "mean": jsonable.number(found.mean),
        "spacings": jsonable.number(found.spacings),
        "mean_spacings": jsonable.number(found.mean_spacings),
        "nonfinite": found.nonfinite,
        "at": list(found.at),
    }


def _site(site: Site | None) -> dict[str, Any] | None:
    return None if site is None else jsonable.site(site)


def _finding(finding: Finding, language: str) -> dict[str, Any]:
    return {
        "id": finding.id,
        "text": jsonable.sentence(finding.text, language),
        "sites": [jsonable.site(site) for site in finding.sites],
        "facts": dict(finding.facts),
    }
