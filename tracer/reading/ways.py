"""The page of a value's path: every hop from where it is made to the kernel, what is proven and what assumed.

Must not know: how the path was found.
"""

from tracer.lineage.result import Other, ValuePath
from tracer.page.record import Block, Line, Page, Piece, Prose, Role, Section, line
from tracer.page.wording import place as place_piece
from tracer.reading import catalogue
from tracer.reading.excerpts import around
from tracer.reading.library import Library
from tracer.reading.topics import formulas, link_note, release_heading, release_note
from tracer.reading.values import Seen, value_at
from tracer.reading.wording import Words
from tracer.texts import message

_MOST_CODE = 70
# What the formula of a value is called, and what explains its way.
_FORMULA = {"q": "project", "k": "project", "v": "project", "causal": "mask"}
_LESSONS = {
    "scale": ("scale-path",),
    "causal": ("visibility", "kernel"),
    "q": ("qkv", "rope"),
    "k": ("qkv", "cache"),
    "v": ("qkv", "cache"),
}


def way_page(say: Words, library: Library, value: str, seen: Seen | None) -> Page:
    """Return the page that follows ``value`` through one release, the definition first."""
    path = library.path(value)
    first, last = path.steps[0], path.steps[-1]
    count, files = len(path.steps), len({step.place.file for step in path.steps})
    lead = say(
        "way_lead_one" if count == 1 else "way_lead_file" if files == 1 else "way_lead",
        count=count,
        files=files,
        first=library.path_site(first.place).place,
        last=library.path_site(last.place).place,
        argument=path.argument,
    )
    blocks: list[Block] = [
        Prose(line(lead)),
        release_note(say, library, [library.path_site(step.place) for step in path.steps]),
        *(Prose(line(Piece(each, Role.MUTED))) for each in _tally(say, path)),
    ]
    name = _FORMULA.get(value, value)
    sections = [
        Section("lead", "", release_heading(library), tuple(blocks)),
        *(_hop(say, library, path, number, seen) for number in range(1, len(path.steps) + 1)),
    ]
    if path.open_end is not None:
        warned = line(Piece(f"{say('open_end')} ", Role.WARNING), say.of(path.open_end))
        sections.append(Section("open", "", (), (Prose(warned),)))
    sections.append(Section("formulas", "", line(say("formulas_heading")), (formulas(say, (name,)),)))
    for lesson in (catalogue.lessons()[id] for id in _LESSONS[value]):
        own = say.own(lesson.texts)
        sections.append(Section(f"lesson-{lesson.id}", "", line(own["title"]), (Prose(line(own["text"])),)))
    if seen is not None:
        sections.append(Section("seen", "", (), (Prose(seen.source(say)),)))
    title = line(Piece(say("way_title", value=value, framework=library.release.framework), Role.STRONG))
    return Page(f"way-{value}", say.language, title, (), tuple(sections))


def _tally(say: Words, path: ValuePath) -> list[str]:
    """Return how many links are proven, how many of those under a condition only, how many assume something."""
    links = path.steps[1:]
    if not links:
        return []
    assumed = sum(not step.proven for step in links)
    cases = sum(step.proven and bool(step.when or step.others) for step in links)
    said = say("way_all_proven") if not assumed else say("way_tally", proven=len(links) - assumed, assumed=assumed)
    return [said, *([say("way_cases_one" if cases == 1 else "way_cases", cases=cases)] if cases else [])]


def _hop(say: Words, library: Library, path: ValuePath, number: int, seen: Seen | None) -> Section:
    step = path.steps[number - 1]
    site = library.path_site(step.place)
    notes: list[Block] = []
    if number > 1 and step.why:
        notes += [Prose(line(Piece(f"? {say('assumed')}", Role.UNTESTED), say.of(why))) for why in step.why]
        if seen is not None and _seen_across(library, path, number, seen):
            notes.append(Prose(line(Piece(f"✓ {say('run_proves')}", Role.PASS))))
    holds = library.reader.defined.holds
    label = say("when_call" if step.kind == "start" else "when")
    for code in step.when:
        notes.append(Prose(line(Piece(f"{label} ", Role.LABEL), Piece(code, Role.CODE))))
        if code in holds:
            notes.append(Prose(line(Piece(say.of(message(holds[code])), Role.MUTED))))
    notes += [Prose(_other(say, library, other)) for other in step.others]
    hop = seen.hop(site, path.value) if seen is not None else None
    if hop is not None:
        notes.append(Prose(value_at(say, hop)))
    mark = Piece("  ✓", Role.PASS) if number > 1 and step.proven else Piece("")
    heading = line(say(f"kind_{step.kind}", name=step.binds or "", code=_short(step.place.code)), mark)
    text = library.path_file(step.place).text
    excerpt = around(site, text, note=link_note(say, site.link_kind))
    return Section(f"hop-{number}", str(number), heading, (excerpt, *notes))


def _seen_across(library: Library, path: ValuePath, number: int, seen: Seen) -> bool:
    """Whether a run saw the one object that reached the kernel both before this step and at it or after it."""
    hops = [seen.hop(library.path_site(step.place), path.value) for step in path.steps]
    same = [hop is not None and hop.same_object is True for hop in hops]
    return any(same[: number - 1]) and any(same[number - 1 :])


def _other(say: Words, library: Library, other: Other) -> Line:
    pieces: list[str | Piece] = [
        Piece(f"{say('other')} ", Role.LABEL),
        place_piece(library.path_site(other.place)),
        "  ",
        Piece(_short(other.place.code), Role.CODE),
    ]
    if other.when:
        pieces += [Piece(f"  {say('when')} ", Role.LABEL), Piece(" · ".join(other.when), Role.CODE)]
    if other.why is not None:
        pieces += ["  ", Piece(say.of(other.why), Role.MUTED)]
    return line(*pieces)


def _short(code: str) -> str:
    flat = " ".join(code.split())
    return flat if len(flat) <= _MOST_CODE else f"{flat[: _MOST_CODE - 1]}…"
