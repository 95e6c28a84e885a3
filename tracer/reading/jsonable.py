"""What ``trace source`` answers, as plain JSON values: places with their lines and links, paths with every hop.

Must not know: command lines, how anything is drawn.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tracer.errors import TracerError
from tracer.lineage.result import Step
from tracer.reading import catalogue
from tracer.reading.ask import Asked, frameworks_of, resolved
from tracer.reading.catalogue import Lesson
from tracer.reading.library import Library, library
from tracer.reading.side_by_side import STEPS
from tracer.reading.values import Seen
from tracer.reading.wording import Words
from tracer.records import Site

FORMAT = "tracer-source-1"


def to_json(asked: Asked, language: str) -> dict[str, Any]:
    """Return the answer to ``asked``; raises what tracer.reading.ask.page raises."""
    say = Words(language)
    seen = Seen(asked.layer) if asked.layer is not None else None
    return {"format": FORMAT, "language": language, **_answer(asked, say, seen)}


def _answer(asked: Asked, say: Words, seen: Seen | None) -> dict[str, Any]:
    name = resolved(asked.name)
    if asked.frameworks and not asked.listing:
        return {"kind": "frameworks", **_side_by_side(say)}
    if asked.listing or (name is None and asked.framework):
        releases = [_places(library(each), None) for each in frameworks_of(asked, None)]
        return {"kind": "places", "releases": releases}
    if name is None:
        lessons = [_lesson(each, say) for each in catalogue.lessons().values()]
        return {"kind": "contents", "values": list(catalogue.VALUES), "lessons": lessons}
    if name in catalogue.REFERENCES:
        entries: Any = {
            "formulas": catalogue.formulas,
            "glossary": catalogue.glossary,
            "route": catalogue.route,
        }[name]()
        return {"kind": name, "entries": _plain(entries)}
    if name in catalogue.VALUES:
        return {"kind": "path", **_path(library(asked.framework or "transformers"), name, say, seen)}
    lesson = catalogue.lessons().get(name)
    if lesson is not None:
        shown = frameworks_of(asked, lesson)
        releases = [_places(library(each), lesson) for each in shown]
        return {"kind": "lesson", **_lesson(lesson, say), "releases": releases}
    read = library(asked.framework or "transformers")
    site = read.known_site(name)
    return {"kind": "place", "release": read.release.name, "id": name, **_site(site)}


def _path(read: Library, value: str, say: Words, seen: Seen | None) -> dict[str, Any]:
    path = read.path(value)
    return {
        "release": read.release.name,
        "value": value,
        "argument": path.argument,
        "steps": [_step(read, step, value, say, seen) for step in path.steps],
        "open_end": say.of(path.open_end) if path.open_end is not None else None,
    }


def _step(read: Library, step: Step, value: str, say: Words, seen: Seen | None) -> dict[str, Any]:
    site = read.path_site(step.place)
    hop = seen.hop(site, value) if seen is not None else None
    others = [
        {
            **_site(read.path_site(other.place)),
            "when": list(other.when),
            "assumed": say.of(other.why) if other.why is not None else None,
        }
        for other in step.others
    ]
    made = {
        **_site(site),
        "kind": step.kind,
        "binds": step.binds,
        "proven": step.proven,
        "assumed": [say.of(why) for why in step.why],
        "when": list(step.when),
        "others": others,
    }
    return {**made, "value": repr(hop.value)} if hop is not None and hop.seen else made


def _places(read: Library, lesson: Lesson | None) -> dict[str, Any]:
    ids = read.places if lesson is None else lesson.places.get(read.release.framework, ())
    return {"release": read.release.name, "places": [{"id": id, **_site(read.site(id))} for id in ids]}


def _side_by_side(say: Words) -> dict[str, Any]:
    steps: dict[str, dict[str, Any]] = {step: {} for step, _ in STEPS}
    missing = {}
    for framework in catalogue.MODELS:
        try:
            read = library(framework)
            _ = read.table
        except TracerError as error:
            missing[framework] = error.text(say.language)
            continue
        for step, instead in STEPS:
            place = step if step in read.places else instead
            if place is not None and place in read.places:
                steps[step][framework] = {"release": read.release.name, "id": place, **_site(read.site(place))}
    return {"steps": steps, "missing": missing}


def _lesson(lesson: Lesson, say: Words) -> dict[str, Any]:
    own = say.own(lesson.texts)
    known = catalogue.formulas()
    return {
        "id": lesson.id,
        "covers": list(lesson.covers),
        "title": own["title"],
        "text": own["text"],
        "formulas": {name: known[name]["formula"] for name in lesson.formulas},
    }


def _site(site: Site) -> dict[str, Any]:
    span = site.span
    return {
        "file": site.path,
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
        "scope": site.scope,
        "code": site.code,
        "sha256": site.sha256,
        "link": site.permalink,
        "link_kind": site.link_kind,
    }


def _plain(value: Any) -> Any:
    """Return mappings and sequences as what JSON has."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(each) for each in value]
    return value
