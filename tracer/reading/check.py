"""Whether everything that is written about the source still holds: places, paths, languages, formulas.

Must not know: command lines.
"""

import ast
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tracer import data
from tracer.errors import InputError, TracerError
from tracer.lineage.definitions import definition
from tracer.reading import catalogue, releases
from tracer.reading.library import Library
from tracer.reading.releases import Release
from tracer.source import anchors
from tracer.texts import LANGUAGES, Message, message

# Where else places of a framework are described, beside annotations/reading: by name in annotations/anchors.
_RUN_DEFINITIONS = MappingProxyType({
    "transformers": ("transformers", "transformers-layers"),
    "nano-vllm": ("nano-vllm",),
})  # fmt: skip
# What a role of annotations/places.toml is in the source of transformers: the file's key and the scope.
_ROLES = MappingProxyType({
    "attention_init": ("model", "Qwen3Attention.__init__"),
    "attention_forward": ("model", "Qwen3Attention.forward"),
    "eager_forward": ("model", "eager_attention_forward"),
    "model_forward": ("model", "Qwen3Model.forward"),
    "norm_forward": ("model", "Qwen3RMSNorm.forward"),
    "repeat_kv": ("model", "repeat_kv"),
    "rope_apply": ("model", "apply_rotary_pos_emb"),
    "rope_half": ("model", "rotate_half"),
    "rotary_init": ("model", "Qwen3RotaryEmbedding.__init__"),
    "rotary_default": ("model", "Qwen3RotaryEmbedding.compute_default_rope_parameters"),
    "rotary_forward": ("model", "Qwen3RotaryEmbedding.forward"),
    "flash_forward": ("flash", "flash_attention_forward"),
    "flash_utils": ("flash_utils", "_flash_attention_forward"),
    "flash_kwargs": ("flash_utils", "_process_flash_attention_kwargs"),
    "sdpa_forward": ("sdpa", "sdpa_attention_forward"),
})  # fmt: skip

# What the lesson page promises and these pages deliver.
PARTS = tuple(f"L{number}" for number in (*range(1, 14), 16, 17, 18, 20, 21, 22, 23))


@dataclass(frozen=True)
class Finding:
    """One line of the report: what was checked. ``held`` is None where it could not be checked here."""

    held: bool | None
    text: Message


def check() -> Iterator[Finding]:
    """Yield a finding for the texts, and for every release that can be read."""
    yield from _texts()
    for framework in catalogue.FRAMEWORKS:
        for release in releases.every(framework):
            yield from check_release(Library(release))  # no cache: what is kept was true when it was kept


def check_release(library: Library) -> Iterator[Finding]:
    """Yield the findings of one release: each place that is not found exactly once, each path that does not hold."""
    release = library.release
    try:
        files = releases.read(release, library.defined.files)
        _ = library.reader.files
    except InputError as error:
        yield Finding(None, message("source_pages.check_absent", release=release.name, why=error.message))
        return
    faults = [error.message for error in anchors.faults(library.defined, files)]
    runs = [anchors.definitions(name) for name in _RUN_DEFINITIONS.get(release.framework, ()) if _runs(release)]
    for defined in runs:  # the places that a run probes
        faults += [error.message for error in anchors.faults(defined, releases.read(release, defined.files))]
    places = len(library.places) + sum(len(defined.anchors) for defined in runs)
    if release.framework == "transformers" and release.installed:  # the places that a check of a live model points at
        patterns = _pointed_at()
        places += len(patterns)
        faults += _unfound(patterns, {key: file.source for key, file in library.reader.files.items()})
    values = definition(release.framework).values
    for value in values:
        faults += path_faults(library, value)
    yield from (_fault(release, fault) for fault in faults)
    if not faults:
        counts = {"places": places, "values": len(values)}
        yield Finding(True, message("source_pages.check_places", release=release.name, **counts))


def _runs(release: Release) -> bool:
    """Whether this is the release that runs: the definitions for runs are for that one."""
    return release.installed or release.framework != "transformers"


def _pointed_at() -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Return the candidates of each place in annotations/places.toml that upstream has, by its full name."""
    raw = tomllib.loads((data.annotations() / "places.toml").read_text(encoding="utf-8"))
    every = {f"{group}.{name}": found for group, places in raw.items() for name, found in places.items()}
    return {name: found for name, found in every.items() if any(each.get("upstream", True) for each in found)}


def _unfound(places: Mapping[str, Sequence[Mapping[str, Any]]], sources: Mapping[str, str]) -> Iterator[Message]:
    """Yield a fault for each place none of whose candidates matches exactly once where its role is in the source.

    A place is looked for in whatever function a live model really uses; in the source read here that is the one below.
    """
    from tracer.source.patterns import Module, Pattern  # LibCST

    modules: dict[str, Module] = {}
    for name, candidates in places.items():
        counts = []
        for wanted in candidates:
            file, scope = _ROLES[wanted["role"]]
            module = modules.setdefault(file, Module(sources[file]) if file not in modules else modules[file])
            counts.append(len(module.find(Pattern(wanted["pattern"]), scope)))
        if 1 not in counts:
            yield message("source_pages.fault_pointed", place=name, counts=", ".join(map(str, counts)))


def path_faults(library: Library, value: str) -> list[Message]:
    """Return what is wrong with the path of ``value``: not found, open at its end, or of an unexpected origin."""
    try:
        path = library.path(value)
    except TracerError as error:
        return [error.message]
    if path.open_end is not None:
        return [message("source_pages.fault_open", value=value, why=path.open_end)]
    expected = definition(library.release.framework).origins.get(value)
    found = path.steps[0].place.code
    if expected is not None and not _same_code(expected, found):
        return [message("source_pages.fault_origin", value=value, expected=expected, found=" ".join(found.split()))]
    return []


def text_faults(
    lessons: Mapping[str, catalogue.Lesson],
    formulas: Mapping[str, Mapping[str, Any]],
    glossary: Mapping[str, Mapping[str, Any]],
    route: tuple[Mapping[str, Any], ...],
    places: Mapping[str, frozenset[str]],
) -> Iterator[Message]:
    """Yield what is wrong with the texts: a language is missing, a formula or place unknown, a part not covered."""
    entries: dict[str, Mapping[str, Any]] = {f"formula {id}": entry for id, entry in formulas.items()}
    entries |= {f"term {id}": entry for id, entry in glossary.items()}
    entries |= {f"stop {number}": entry for number, entry in enumerate(route, 1)}
    entries |= {f"lesson {id}": lesson.texts for id, lesson in lessons.items()}
    for name, entry in entries.items():
        for language in LANGUAGES:
            if not _said(entry.get(language)):
                yield message("source_pages.fault_language", entry=name, language=language)
    for lesson in lessons.values():
        for formula in lesson.formulas:
            if formula not in formulas:
                yield message("source_pages.fault_formula", lesson=lesson.id, formula=formula)
        for framework, ids in lesson.places.items():
            for place in ids:
                if place not in places.get(framework, frozenset()):
                    yield message("source_pages.fault_place", lesson=lesson.id, framework=framework, place=place)
    covered = {part for lesson in lessons.values() for part in lesson.covers}
    for part in PARTS:
        if part not in covered:
            yield message("source_pages.fault_cover", part=part)


def _texts() -> Iterator[Finding]:
    lessons, formulas, glossary = catalogue.lessons(), catalogue.formulas(), catalogue.glossary()
    route = catalogue.route()
    places = {name: frozenset(anchors.definitions(name, "reading").anchors) for name in catalogue.FRAMEWORKS}
    faults = list(text_faults(lessons, formulas, glossary, route, places))
    yield from (
        Finding(False, message("source_pages.check_fault", release="annotations", what=fault)) for fault in faults
    )
    if not faults:
        counts = {"lessons": len(lessons), "formulas": len(formulas), "terms": len(glossary), "stops": len(route)}
        yield Finding(True, message("source_pages.check_texts", **counts, languages=len(LANGUAGES)))


def _said(text: object) -> bool:
    """Whether there is a text, or texts that all say something."""
    if isinstance(text, Mapping):
        return bool(text) and all(_said(each) for each in text.values())
    return isinstance(text, str) and bool(text.strip())


def _same_code(one: str, other: str) -> bool:
    return ast.dump(ast.parse(one, mode="eval")) == ast.dump(ast.parse(f"({other})", mode="eval"))


def _fault(release: Release, what: Message) -> Finding:
    return Finding(False, message("source_pages.check_fault", release=release.name, what=what))
