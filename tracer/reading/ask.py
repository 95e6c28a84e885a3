"""From what a reader asks for to the page that answers it.

Must not know: command lines, output formats.
"""

from dataclasses import dataclass
from difflib import get_close_matches

from tracer.errors import InputError
from tracer.page.record import Page
from tracer.reading import catalogue, library, reference_pages, side_by_side, topics, ways
from tracer.reading.kernel_page import kernel_page
from tracer.reading.values import Seen
from tracer.reading.wording import Words
from tracer.records import LayerTrace


@dataclass(frozen=True)
class Asked:
    """What to show: a name (None: the contents), a framework (None: each one's usual), a saved trace to read beside."""

    name: str | None = None
    framework: str | None = None
    listing: bool = False
    frameworks: bool = False
    layer: LayerTrace | None = None


def page(asked: Asked, language: str, width: int) -> Page:
    """Return the page for ``asked``, for a screen of ``width`` columns.

    Raises InputError for an unknown name or framework and where files are not here, Unsupported where a place is not
    found exactly once.
    """
    say = Words(language)
    seen = Seen(asked.layer) if asked.layer is not None else None
    if asked.frameworks:
        return side_by_side.side_by_side_page(say, [library.library(name) for name in catalogue.MODELS], width)
    if asked.listing:
        names = (asked.framework,) if asked.framework else ("transformers",)
        return reference_pages.places_page(say, [library.library(name) for name in names])
    if asked.name is None:
        if asked.framework is None:
            return reference_pages.contents_page(say)
        if asked.framework.partition("@")[0] == "flash-attn":
            return _kernel(say, asked.framework, seen)
        return reference_pages.places_page(say, [library.library(asked.framework)])
    return _named(say, asked.name, asked.framework, seen)


def _kernel(say: Words, framework: str, seen: Seen | None) -> Page:
    return kernel_page(say, library.library(framework), library.library("transformers"), seen)


def _named(say: Words, name: str, framework: str | None, seen: Seen | None) -> Page:
    name = catalogue.ALIASES.get(name, name)
    if name == "formulas":
        return reference_pages.formulas_page(say)
    if name == "glossary":
        return reference_pages.glossary_page(say)
    if name == "route":
        return reference_pages.route_page(say)
    if name in catalogue.VALUES:
        return ways.way_page(say, library.library(framework or "transformers"), name, seen)
    lesson = catalogue.lessons().get(name)
    if lesson is not None:
        if framework is not None and framework.partition("@")[0] == "flash-attn" and name == "kernel":
            return _kernel(say, framework, seen)
        wanted = [framework] if framework else _usual(lesson)
        return topics.lesson_page(say, lesson, [library.library(each) for each in wanted], seen)
    read = library.library(framework or "transformers")
    if name in read.places:
        return topics.place_page(say, read, name, seen)
    raise _unknown(name, read)


def _usual(lesson: catalogue.Lesson) -> list[str]:
    """Return the framework a lesson is shown in unless asked otherwise: the first it has, transformers if it can."""
    return ["transformers"] if "transformers" in lesson.places else list(lesson.places)[:1]


def _unknown(name: str, read: library.Library) -> InputError:
    known = [*catalogue.VALUES, *catalogue.ALIASES, *catalogue.lessons(), *catalogue.REFERENCES, *read.places]
    near = get_close_matches(name, known, n=3, cutoff=0.5)
    shown = ", ".join(near) if near else ", ".join(known[:8]) + ", …"
    return InputError("source_pages.unknown_name", name=name, release=read.release.name, near=shown)
