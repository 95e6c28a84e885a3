"""A question's exact place in a few lines: lesson, formula, tensor, file:line@commit, value.

Must not know: screens, clipboards.
"""

from tracer.arrays import Array
from tracer.browse.books import Book, Spot
from tracer.browse.details import formula_at, formula_names, shortened
from tracer.page import numbers
from tracer.page.header import ref
from tracer.page.wording import shape
from tracer.reading import catalogue
from tracer.texts import message

_SHOWN = 12
_NUMBERS = 4


def citation(book: Book, spot: Spot, language: str) -> str:
    """Return the citation of ``spot`` in ``language``, a line for each thing that is known, and one to be filled in:
    what the reader derived."""
    site = book.site(spot)
    commit = ref(site.permalink)
    at = f"@{commit}" if commit else f" (sha256 {site.sha256[:_SHOWN]})"
    rows = [f"{book.library.release.name} · {site.path}:{site.span.line}{at}", f"    {shortened(spot.code, 100)}"]
    if site.permalink:
        rows.append(site.permalink)
    for lesson in catalogue.lessons_at(spot.framework, spot.place) if spot.place else ():
        rows.append(
            _said("cite_lesson", language, title=lesson.texts[language]["title"], parts=" ".join(lesson.covers))
        )
    for name in formula_names(spot):
        rows.append(_said("cite_formula", language, formula=formula_at(spot, name)))
    rows += _seen(book, spot, language)
    return "\n".join([*rows, _said("cite_question", language), ""])


def _seen(book: Book, spot: Spot, language: str) -> list[str]:
    layer = book.layer
    if layer is None:
        return []
    rows = []
    capture = layer.captures.get(spot.capture or "")
    if capture is not None and capture.site.sha256 == book.files[spot.file].sha256:
        tensor = f"{capture.name} = {capture.formula} {shape(capture.axes, capture.array.shape)} {capture.array.dtype}"
        rows += [
            _said("cite_tensor", language, tensor=tensor),
            _said("cite_value", language, value=_last(capture.array)),
        ]
    for value, hop in book.hops(spot).items():
        if hop.seen:
            rows.append(_said("cite_value_of", language, name=value, value=repr(hop.value)))
    if rows:
        rows.append(
            _said(
                "cite_run",
                language,
                checkpoint=layer.checkpoint.name,
                layer=layer.request.layer,
                tokens=len(layer.tokens),
            )
        )
    return rows


def _last(array: Array) -> str:
    """Return the first numbers of the tensor's last row."""
    values = array.float64()
    if not values.size:
        return "[]"
    row = values.reshape(-1, values.shape[-1])[-1] if values.ndim else values.reshape(1)
    more = ", …" if row.size > _NUMBERS else ""
    return f"[…, [{', '.join(numbers.significant(float(each), 6) for each in row[:_NUMBERS])}{more}]]"


def _said(name: str, language: str, /, **values: object) -> str:
    return message(f"browse.{name}", **values).text(language)
