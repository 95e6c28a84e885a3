"""What is written about the source: lessons, formulas, glossary, review route, all data in both languages.

Must not know: where any of it stands in a file, how it is shown.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from tracer import data

FRAMEWORKS = ("transformers", "nano-vllm", "vllm", "sglang", "flash-attn")
MODELS = ("transformers", "nano-vllm", "vllm", "sglang")  # those that have a whole attention layer
VALUES = ("scale", "causal", "q", "k", "v")
ALIASES = MappingProxyType({"softmax_scale": "scale", "scaling": "scale", "is_causal": "causal"})
REFERENCES = ("formulas", "glossary", "route")


@dataclass(frozen=True)
class Lesson:
    """One explanation: the parts of the lesson page it covers, its formulas, its places by framework, its texts by
    language (``title`` and ``text``)."""

    id: str
    covers: tuple[str, ...]
    formulas: tuple[str, ...]
    places: Mapping[str, tuple[str, ...]]
    texts: Mapping[str, Mapping[str, str]]


@cache
def lessons() -> Mapping[str, Lesson]:
    """Return every lesson by id, in the order they are to be read."""
    found = {}
    for file in sorted((data.annotations() / "lessons").glob("*.toml")):
        for id, raw in tomllib.loads(file.read_text(encoding="utf-8")).items():
            places = {framework: tuple(ids) for framework, ids in raw.get("places", {}).items()}
            texts = {language: raw[language] for language in ("en", "zh") if language in raw}
            found[id] = Lesson(id, tuple(raw["covers"]), tuple(raw["formulas"]), places, texts)
    return MappingProxyType(found)


@cache
def formulas() -> Mapping[str, Mapping[str, str]]:
    """Return the quick reference: id → formula, shape, en, zh; in the order of computation."""
    return MappingProxyType(_read("quick_reference.toml"))


@cache
def glossary() -> Mapping[str, Mapping[str, Any]]:
    """Return the glossary: id → language → name and text."""
    return MappingProxyType(_read("glossary.toml"))


@cache
def route() -> tuple[Mapping[str, Any], ...]:
    """Return the stops of the review route: minutes, command, en, zh."""
    return tuple(_read("route.toml")["stop"])


def lessons_at(framework: str, place: str) -> tuple[Lesson, ...]:
    """Return the lessons that speak of a place of a framework, those first in which it comes first."""
    found = [lesson for lesson in lessons().values() if place in lesson.places.get(framework, ())]
    return tuple(sorted(found, key=lambda lesson: lesson.places[framework].index(place)))


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((data.annotations() / name).read_text(encoding="utf-8"))
