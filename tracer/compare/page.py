"""A comparison as a page: verdict, where both part and why, then all steps with their numbers and both expressions.

Must not know: how anything was run, any output format.
"""

from dataclasses import dataclass

from tracer.compare.records import Comparison, Finding, Pair, Side, Standing
from tracer.names import LONG_DTYPES, MODEL
from tracer.page import numbers
from tracer.page.excerpts import Pointed, excerpt
from tracer.page.record import Block, Column, Facts, Line, Page, Piece, Prose, Role, Row, Section, Table, line
from tracer.page.wording import muted, place
from tracer.records import Site
from tracer.texts import message

_ROLES = {Standing.SAME: Role.PASS, Standing.ROUNDING: Role.PASS, Standing.PARTS: Role.FAIL}
_LONGEST_CODE = 72


@dataclass(frozen=True, slots=True)
class _Say:
    """The texts of a comparison in one language."""

    language: str

    def __call__(self, name: str, **values: object) -> str:
        return message(f"compare.{name}", **values).text(self.language)

    def step(self, pair: Pair, comparison: Comparison) -> str:
        """Return the name of a step: a tensor's own, or what a layer hands on in words."""
        return self(f"step_{pair.name}") if pair in comparison.before else pair.name


def compare_page(found: Comparison, language: str) -> Page:
    """Return the page of one comparison in ``language``."""
    say = _Say(language)
    request = found.a.trace.request
    title = say("title", model=MODEL, layer=request.layer, a=found.a.name, b=found.b.name)
    sections = [
        _ran(say, found),
        _outcome(say, found),
        *_why(say, found),
        _inside(say, found),
        _steps(say, found),
        _before(say, found),
        _places(say, found),
        _sources(say, found),
    ]
    kept = tuple(section for section in sections if section is not None)
    return Page("compare", language, line(Piece(title, Role.STRONG)), _verdict(say, found), kept)


def _verdict(say: _Say, found: Comparison) -> Line:
    first = found.first
    if first is not None:
        text = say("verdict_parts", step=say.step(first, found), layer=first.layer)
        return line(Piece(f"✗ {text}", Role.FAIL))
    if not found.agree:
        return line(Piece(f"? {say('verdict_nothing')}", Role.UNTESTED))
    same = all(pair.standing is Standing.SAME for pair in found.steps if pair.distance is not None)
    return line(Piece(f"✓ {say('verdict_same' if same else 'verdict_agree')}", Role.PASS))


def _ran(say: _Say, found: Comparison) -> Section:
    trace = found.a.trace
    rows = [
        ("checkpoint", line(Piece(trace.checkpoint.name, Role.STRONG))),
        ("prompt", line(say("prompt", count=len(trace.tokens)))),
        ("a", line(_side(say, found.a))),
        ("b", line(_side(say, found.b))),
        ("yardstick", line(found.yardstick.text(say.language))),
    ]
    return Section("ran", "", (), (Facts(tuple((muted(say(f"fact_{name}")), value) for name, value in rows)),))


def _side(say: _Say, side: Side) -> str:
    request = side.trace.request
    engine = request.engine.value.partition("@")[0]
    return say(
        "side",
        engine=engine,
        version=side.trace.versions.get(engine, ""),
        kernel=request.kernel.value,
        provider=side.trace.kernel.provider,
        dtype=LONG_DTYPES[request.dtype.value],
        device=request.device.value,
    )


def _outcome(say: _Say, found: Comparison) -> Section:
    return Section("outcome", "", (), tuple(Prose(line(text)) for text in _told(say, found)))


def _told(say: _Say, found: Comparison) -> list[str]:
    first, unit = found.first, LONG_DTYPES[found.unit]
    if first is not None:
        where = {"step": say.step(first, found), "layer": first.layer}
        if first.shapes is not None:
            told = [say("parts_shape", a=list(first.shapes[0]), b=list(first.shapes[1]), **where)]
        elif first.distance is not None and first.distance.nonfinite:
            told = [say("parts_nonfinite", count=first.distance.nonfinite, **where)]
        else:
            told = [say("parts", unit=unit, **where, **_measures(first))]
        if first not in found.steps and not any(pair.apart for pair in found.steps):
            told.append(say("attention_agrees", layer=found.a.trace.request.layer))
        if any(finding.facts.get("first_difference") for finding in found.findings):
            return told
        return [*told, say("enters" if first.name == "hidden" and not found.before else "no_cause")]
    compared = [pair for pair in found.steps if pair.distance is not None]
    if not compared:
        return [say("nothing")]
    widest = max(compared, key=lambda pair: pair.distance.spacings if pair.distance else 0.0)
    if widest.standing is Standing.SAME:
        return [say("same")]
    return [say("agree", step=say.step(widest, found), unit=unit, **_measures(widest))]


def _measures(pair: Pair) -> dict[str, str]:
    if pair.distance is None:
        return {}
    return {
        "largest": numbers.significant(pair.distance.largest),
        "spacings": numbers.significant(pair.distance.spacings, 2),
        "allowed": numbers.significant(pair.allowed or 0.0),
    }


# ----------------------------------------------------------------------------------------------- where and why


def _why(say: _Say, found: Comparison) -> list[Section | None]:
    first = found.first
    sections: list[Section | None] = []
    if first is not None:
        sites = [(found.a.name, first.a), (found.b.name, first.b)]
        blocks = [excerpt([Pointed(site, name)]) for name, site in sites if site is not None]
        heading = say("first_heading", step=say.step(first, found), layer=first.layer)
        sections.append(Section("first", "", line(heading), tuple(blocks)))
    if found.findings:
        reasons = [block for finding in found.findings for block in _finding(say, finding)]
        sections.append(Section("findings", "", line(say("findings_heading")), tuple(reasons)))
    return sections


def _finding(say: _Say, finding: Finding) -> list[Block]:
    text = [Piece("! ", Role.WARNING), Piece(finding.text.text(say.language))]
    if finding.facts.get("first_difference"):
        text.append(Piece(f" ({say('cause_seen')})", Role.STRONG))
    by_file: dict[tuple[str, str], list[Pointed]] = {}
    for site in finding.sites:
        by_file.setdefault((site.path, site.scope), []).append(Pointed(site, ""))
    return [Prose(tuple(text)), *(excerpt(pointed) for pointed in by_file.values())]


# -------------------------------------------------------------------------------------------------------- steps


def _steps(say: _Say, found: Comparison) -> Section:
    heading = say("steps_heading", layer=found.a.trace.request.layer)
    return Section("steps", "", line(heading), (_table(say, found, found.steps, layers=False),))


def _inside(say: _Say, found: Comparison) -> Section | None:
    if not found.inside:
        return None
    heading = say("steps_heading", layer=found.inside[0].layer)
    return Section("inside", "", line(heading), (_table(say, found, found.inside, layers=False),))


def _before(say: _Say, found: Comparison) -> Section | None:
    if not found.before:
        return None
    table = _table(say, found, found.before, layers=True)
    return Section("before", "", line(say("before_heading")), (Prose(muted(say("before_lead"))), table))


def _table(say: _Say, found: Comparison, pairs: tuple[Pair, ...], *, layers: bool) -> Table:
    columns = [Column(say("column_layer"), numeric=True)] if layers else []
    columns += [
        Column(say("column_step")),
        Column(say("column_largest"), numeric=True),
        Column(say("column_mean"), numeric=True, spare=2),
        Column(say("column_spacings"), numeric=True),
        Column(say("column_allowed"), numeric=True, spare=1),
        Column(),
    ]
    return Table(tuple(columns), tuple(Row(_cells(say, found, pair, layers)) for pair in pairs))


def _cells(say: _Say, found: Comparison, pair: Pair, layers: bool) -> tuple[Line, ...]:
    standing = line(Piece(say(f"standing_{pair.standing}"), _ROLES.get(pair.standing, Role.UNTESTED)))
    name = line(Piece(say.step(pair, found), Role.TEXT if layers else Role.CODE))
    shown: tuple[Line, ...] = ((), (), (), ())
    if pair.distance is not None and pair.allowed is not None:
        figures = (
            numbers.significant(pair.distance.largest),
            numbers.significant(pair.distance.mean),
            numbers.significant(pair.distance.spacings, 2),
        )
        shown = (*(line(Piece(text, Role.NUMBER)) for text in figures), muted(numbers.significant(pair.allowed)))
    cells = (name, *shown, standing)
    return ((line(Piece(str(pair.layer), Role.MUTED))), *cells) if layers else cells


def _places(say: _Say, found: Comparison) -> Section:
    rows = tuple(
        Row((line(Piece(pair.name, Role.CODE)), _where("A", pair.a), _where("B", pair.b))) for pair in found.steps
    )
    return Section("places", "", line(say("places_heading")), (Table(_both(say, found), rows),))


def _both(say: _Say, found: Comparison) -> tuple[Column, ...]:
    sides = (say("column_a", side=found.a.name), say("column_b", side=found.b.name))
    return (Column(say("column_step")), *(Column(side) for side in sides))


def _where(side: str, site: Site | None) -> Line:
    """Return what one side has: whose it is, as cells may stand below each other, the place, the expression's start."""
    if site is None:
        return ()
    code = " ".join(site.code.split())
    shown = code if len(code) <= _LONGEST_CODE else f"{code[: _LONGEST_CODE - 1]}…"
    return line(Piece(f"{side} ", Role.LABEL), place(site), "  ", Piece(shown, Role.CODE))


def _sources(say: _Say, found: Comparison) -> Section | None:
    """Return what differs in the source, where both sides are one code base."""
    if found.diff is None or found.a.trace.versions == found.b.trace.versions:
        return None
    moved = [one for one in found.diff.places if one.moved]
    rewritten = [one for one in found.diff.places if one.rewritten]
    if not found.diff.sources:
        return Section("sources", "", line(say("sources_heading")), (Prose(line(say("sources_none"))),))
    lead = say("sources_lead", files=len(found.diff.sources), moved=len(moved), rewritten=len(rewritten))
    rows = tuple(Row((line(Piece(one.name, Role.CODE)), _where("A", one.a), _where("B", one.b))) for one in rewritten)
    blocks: list[Block] = [Prose(line(lead))]
    if rows:
        blocks.append(Table(_both(say, found), rows))
    return Section("sources", "", line(say("sources_heading")), tuple(blocks))
