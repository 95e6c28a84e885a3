"""A comparison as a page: verdict, where both part and why, then all steps with their numbers and both expressions.

Must not know: how anything was run, any output format.
"""

from dataclasses import replace

from tracer.compare import expressions
from tracer.compare.records import Comparison, Finding, Pair, Side, Standing
from tracer.compare.wording import Say
from tracer.names import LONG_DTYPES, MODEL
from tracer.page import numbers
from tracer.page.excerpts import Pointed, excerpt
from tracer.page.record import Block, Column, Facts, Line, Page, Piece, Prose, Role, Row, Section, Table, line
from tracer.page.wording import muted
from tracer.records import Site

_ROLES = {Standing.SAME: Role.PASS, Standing.ROUNDING: Role.PASS, Standing.PARTS: Role.FAIL}
# Steps for which the line above says what is kept: nothing is computed there.
_KEPT = ("residual", "kept")


def compare_page(found: Comparison, language: str) -> Page:
    """Return the page of one comparison in ``language``."""
    say = Say(language)
    request = found.a.trace.request
    title = say("title", model=MODEL, layer=request.layer, a=found.a.name, b=found.b.name)
    sections = [
        _ran(say, found),
        _outcome(say, found),
        _where(say, found),
        *_why(say, found),
        _inside(say, found),
        _steps(say, found),
        _before(say, found),
        expressions.places(say, found),
        expressions.sources(say, found),
    ]
    kept = tuple(section for section in sections if section is not None)
    return Page("compare", language, line(Piece(title, Role.STRONG)), _verdict(say, found), kept)


def _verdict(say: Say, found: Comparison) -> Line:
    first = found.first
    if first is not None:
        text = say("verdict_parts", step=say.step(first, found), layer=first.layer)
        return line(Piece(f"✗ {text}", Role.FAIL))
    if not found.agree:
        return line(Piece(f"? {say('verdict_nothing')}", Role.UNTESTED))
    same = all(pair.standing is Standing.SAME for pair in found.steps if pair.distance is not None)
    return line(Piece(f"✓ {say('verdict_same' if same else 'verdict_agree')}", Role.PASS))


def _ran(say: Say, found: Comparison) -> Section:
    trace = found.a.trace
    rows = [
        ("checkpoint", line(Piece(trace.checkpoint.name, Role.STRONG))),
        ("prompt", line(say.count("prompt", len(trace.tokens)))),
        ("a", line(_side(say, found.a))),
        ("b", line(_side(say, found.b))),
        ("yardstick", line(found.yardstick.text(say.language))),
    ]
    return Section("ran", "", (), (Facts(tuple((muted(say(f"fact_{name}")), value) for name, value in rows)),))


def _side(say: Say, side: Side) -> str:
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


def _outcome(say: Say, found: Comparison) -> Section:
    return Section("outcome", "", (), tuple(Prose(line(text)) for text in _told(say, found)))


def _told(say: Say, found: Comparison) -> list[str]:
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


def _where(say: Say, found: Comparison) -> Section | None:
    """Return the two expressions of the first difference in their source."""
    first = found.first
    if first is None:
        return None
    sides = (("A", found.a.name, first.a), ("B", found.b.name, first.b))
    blocks = [_side_excerpt(side, name, site, first) for side, name, site in sides if site is not None]
    heading = say("first_heading", step=say.step(first, found), layer=first.layer)
    return Section("first", "", line(heading), tuple(blocks))


def _side_excerpt(side: str, name: str, site: Site, pair: Pair) -> Block:
    block = excerpt([Pointed(site, "")], above=int(pair.name in _KEPT))
    return replace(block, place=line(Piece(f"{side} {name}  ", Role.LABEL), *block.place))


def _why(say: Say, found: Comparison) -> list[Section]:
    """Return what explains the first difference, and apart from it what would only show elsewhere."""
    here = [finding for finding in found.findings if found.first is not None and finding.facts.get("here")]
    elsewhere = [finding for finding in found.findings if finding not in here]
    shown = () if found.first is None else (found.first.a, found.first.b)
    sections = []
    if here:
        blocks = [block for finding in here for block in _finding(say, finding, shown)]
        sections.append(Section("findings", "", line(say("findings_heading")), tuple(blocks)))
    if elsewhere:
        blocks = [block for finding in elsewhere for block in _finding(say, finding, shown)]
        sections.append(Section("elsewhere", "", line(say("elsewhere_heading")), tuple(blocks)))
    return sections


def _finding(say: Say, finding: Finding, shown: tuple[Site | None, ...]) -> list[Block]:
    text = [Piece("! ", Role.WARNING), Piece(finding.text.text(say.language))]
    if finding.facts.get("first_difference"):
        text.append(Piece(say("cause_seen"), Role.STRONG))
    by_file: dict[tuple[str, str], list[Pointed]] = {}
    for site in finding.sites:
        if site not in shown:  # that one stands above, where they part
            by_file.setdefault((site.path, site.scope), []).append(Pointed(site, ""))
    return [Prose(tuple(text)), *(excerpt(pointed) for pointed in by_file.values())]


# -------------------------------------------------------------------------------------------------------- steps


def _steps(say: Say, found: Comparison) -> Section:
    heading = say("steps_heading", layer=found.a.trace.request.layer)
    return Section("steps", "", line(heading), (_table(say, found, found.steps, layers=False), _legend(say, found)))


def _legend(say: Say, found: Comparison) -> Prose:
    text = say("legend", unit=LONG_DTYPES[found.unit])
    own = {side.trace.request.dtype.value for side in (found.a, found.b)}
    return Prose(muted(text if found.unit in own else text + say("legend_unit", unit=LONG_DTYPES[found.unit])))


def _inside(say: Say, found: Comparison) -> Section | None:
    if not found.inside:
        return None
    heading = say("steps_heading", layer=found.inside[0].layer)
    return Section("inside", "", line(heading), (_table(say, found, found.inside, layers=False),))


def _before(say: Say, found: Comparison) -> Section | None:
    if not found.before:
        return None
    table = _table(say, found, found.before, layers=True)
    return Section("before", "", line(say("before_heading")), (Prose(muted(say("before_lead"))), table))


def _table(say: Say, found: Comparison, pairs: tuple[Pair, ...], *, layers: bool) -> Table:
    columns = [Column(say("column_layer"), numeric=True)] if layers else []
    columns += [
        Column(say("column_step")),
        Column(say("column_largest"), numeric=True),
        Column(say("column_spacings"), numeric=True),
        Column(say("column_mean"), numeric=True, spare=2),
        Column(say("column_spacings"), numeric=True, spare=2),
        Column(say("column_allowed"), numeric=True, spare=1),
        Column(),
    ]
    return Table(tuple(columns), tuple(Row(_cells(say, found, pair, layers)) for pair in pairs))


def _cells(say: Say, found: Comparison, pair: Pair, layers: bool) -> tuple[Line, ...]:
    standing = line(Piece(say(f"standing_{pair.standing}"), _ROLES.get(pair.standing, Role.UNTESTED)))
    name = line(Piece(say.step(pair, found), Role.TEXT if layers else Role.CODE))
    shown: tuple[Line, ...] = ((), (), (), (), ())
    if pair.distance is not None and pair.allowed is not None:
        figures = (
            numbers.significant(pair.distance.largest),
            numbers.significant(pair.distance.spacings, 2),
            numbers.significant(pair.distance.mean),
            numbers.significant(pair.distance.mean_spacings, 2),
        )
        shown = (*(line(Piece(text, Role.NUMBER)) for text in figures), muted(numbers.significant(pair.allowed)))
    cells = (name, *shown, standing)
    return ((line(Piece(str(pair.layer), Role.MUTED))), *cells) if layers else cells
