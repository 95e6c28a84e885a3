"""What is said about the expression under the cursor: place, formula, values, its steps on ways, explanation.

Must not know: screens.
"""

from collections.abc import Sequence

from tracer.browse.books import Book, Spot
from tracer.browse.elsewhere import Counterpart, How, counterpart
from tracer.page.record import Block, Facts, Line, Piece, Prose, Role, Section, line
from tracer.page.wording import muted
from tracer.page.wording import place as place_piece
from tracer.reading import catalogue
from tracer.reading.topics import formulas, link_note
from tracer.reading.wording import Words
from tracer.records import LayerTrace
from tracer.texts import message

# Places that have another name than their formula.
_FORMULA_OF = {"causal": "mask", "kernel": "tile"}
_MOST_CODE = 60


def details(book: Book, spot: Spot, language: str, others: Sequence[Book] = ()) -> tuple[Section, ...]:
    """Return the sections about ``spot``; ``others`` are the frameworks to look for the same place in."""
    say = Words(language)
    site = book.site(spot)
    facts: list[Block] = [Prose(line(place_piece(site), *muted(f"  {spot.scope}")))]
    facts.append(Prose(line(Piece(shortened(spot.code), Role.CODE))))
    sections = [Section("place", "", heading(spot), tuple(facts))]
    names = formula_names(spot)
    own = _traced_formula(book, spot) or (formula_at(spot, names[0]) if names else "")
    if names or own:
        blocks: list[Block] = [formulas(say, names, own)] if names else [Prose(line(Piece(own, Role.FORMULA)))]
        sections.append(Section("formula", "", line(say("formulas_heading")), tuple(blocks)))
    if book.layer is not None:
        sections.append(_values(book, book.layer, spot, say))
    sections += _steps(book, spot, say)
    elsewhere = [(other, found) for other in others if (found := counterpart(book, spot, other)) is not None]
    if elsewhere:
        rows = tuple((line(other.framework), _short_place(other, found, language)) for other, found in elsewhere)
        sections.append(Section("elsewhere", "", line(_text("elsewhere", language)), (Facts(rows),)))
    for lesson in catalogue.lessons_at(spot.framework, spot.place) if spot.place else ():
        text = say.own(lesson.texts)
        title = line(Piece(text["title"], Role.STRONG), Piece(f"  {' '.join(lesson.covers)}", Role.MUTED))
        sections.append(Section(f"lesson-{lesson.id}", "", title, (Prose(line(text["text"])),)))
    link = line(Piece(site.permalink, Role.PLACE)) if site.permalink else ()
    note = link_note(say, site.link_kind)
    if site.link_kind == "tag":
        note = muted(say("links_tag", version=book.library.release.version))
    blocks = [Prose(each) for each in (link, note) if each]
    sections.append(Section("link", "", line(_text("upstream", language)), tuple(blocks)))
    return tuple(sections)


def heading(spot: Spot) -> Line:
    """Return the name of a spot: of its place, of its tensor, or nothing."""
    names = dict.fromkeys(name for name in (spot.place, spot.capture) if name)
    return line(Piece(" · ".join(names) or shortened(spot.code, 30), Role.STRONG))


def formula_names(spot: Spot) -> tuple[str, ...]:
    """Return the entries of the quick reference that ``spot`` stands for."""
    if spot.place is None:
        return ()
    known = catalogue.formulas()
    step = spot.place.partition(".")[0]
    name = _FORMULA_OF.get(step, step)
    if name in known:
        return (name,)
    lessons = catalogue.lessons_at(spot.framework, spot.place)
    return tuple(dict.fromkeys(each for lesson in lessons for each in lesson.formulas))


def formula_at(spot: Spot, name: str) -> str:
    """Return the formula ``name`` as it reads at ``spot``, which may be that of the keys or the values alone."""
    entry = catalogue.formulas()[name]
    part = (spot.place or "").rpartition(".")[2]
    return entry.get(f"formula_{part}", entry["formula"])


def shortened(code: str, most: int = _MOST_CODE) -> str:
    """Return code on one line, cut where it is long."""
    flat = " ".join(code.split())
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


def _traced_formula(book: Book, spot: Spot) -> str:
    capture = book.layer.captures.get(spot.capture or "") if book.layer is not None else None
    return capture.formula if capture is not None else ""


def _values(book: Book, layer: LayerTrace, spot: Spot, say: Words) -> Section:
    """Return what the trace saw at the spot, or that it saw nothing there."""
    from tracer.reading.values import Seen, value_at  # NumPy: only where there is a trace

    seen = Seen(layer)
    blocks: list[Block] = []
    if spot.place is not None:
        blocks += seen.lines(say, book.library, spot.place)
    elif spot.capture is not None:
        blocks.append(seen.tensor(say, spot.capture))
    if not blocks:
        for value, hop in book.hops(spot).items():
            blocks.append(Prose((*line(Piece(f"{value}  ", Role.LABEL)), *value_at(say, hop))))
    if blocks:
        blocks.append(Prose(seen.source(say)))
    else:
        blocks.append(Prose(muted(_text("no_values", say.language))))
    return Section("values", "", line(_text("values", say.language)), tuple(blocks))


def _steps(book: Book, spot: Spot, say: Words) -> list[Section]:
    sections = []
    for stop in book.stops(spot):
        step = stop.step
        what = say(f"kind_{step.kind}", name=step.binds or "", code=shortened(step.place.code))
        blocks: list[Block] = [Prose(line(what, Piece("  ✓", Role.PASS) if step.proven and stop.number > 1 else ""))]
        if stop.number > 1:
            blocks += [Prose(line(Piece(f"? {say('assumed')}", Role.UNTESTED), say.of(why))) for why in step.why]
        blocks += [Prose(line(Piece(f"{say('when')} ", Role.LABEL), Piece(code, Role.CODE))) for code in step.when]
        title = _text("way", say.language, value=stop.value, number=stop.number, count=stop.count)
        sections.append(Section(f"way-{stop.value}", "", line(title), tuple(blocks)))
    return sections


def _short_place(book: Book, found: Counterpart, language: str) -> Line:
    spot = found.spot
    how = () if found.how is How.SAME else muted(f"  {correspondence(book, found, language)}")
    return line(place_piece(book.site(spot)), "  ", Piece(shortened(spot.code, 40), Role.CODE), *how)


def correspondence(book: Book, found: Counterpart, language: str) -> str:
    """Return how ``found`` of ``book`` corresponds to what was asked about, in a few words."""
    if found.how is How.SAME:
        return found.spot.place or ""
    if found.how is How.HOLDS:
        return _text("held_by", language, place=found.spot.place)
    (number, count) = next((stop.number, stop.count) for stop in book.stops(found.spot) if stop.value == found.value)
    name = "step_of" if found.how is How.WAY else "step_near"
    return _text(name, language, value=found.value, number=number, count=count)


def _text(name: str, language: str, **values: object) -> str:
    return message(f"browse.{name}", **values).text(language)
