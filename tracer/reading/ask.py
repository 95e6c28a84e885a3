"""From what a reader asks for to the page that answers it.

Must not know: command lines, output formats.
"""

from dataclasses import dataclass

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
    if asked.frameworks and not asked.listing:
        return side_by_side.side_by_side_page(say, [library.library(name) for name in catalogue.MODELS], width)
    if asked.listing:
        return reference_pages.places_page(say, [library.library(name) for name in frameworks_of(asked, None)])
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
    name = resolved(name) or name
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
        wanted = frameworks_of(Asked(framework=framework), lesson)
        return topics.lesson_page(say, lesson, [library.library(each) for each in wanted], seen)
    read = library.library(framework or "transformers")
    read.known_site(name)  # an unknown name is told before anything is shown
    return topics.place_page(say, read, name, seen)


def resolved(name: str | None) -> str | None:
    """Return what a name stands for: ``softmax_scale`` is the scale."""
    return catalogue.ALIASES.get(name, name) if name is not None else None


def frameworks_of(asked: Asked, lesson: catalogue.Lesson | None) -> list[str]:
    """Return which frameworks a lesson (None: a list of places) is shown in: the one asked for, else transformers if
    it can, else the first there is."""
    if asked.framework is not None:
        return [asked.framework]
    if asked.listing and asked.frameworks:
        return list(catalogue.FRAMEWORKS)
    if lesson is None or "transformers" in lesson.places:
        return ["transformers"]
    return list(lesson.places)[:1]
