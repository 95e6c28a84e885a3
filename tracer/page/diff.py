"""The page that says what differs between two traces.

Must not know: how they were compared, any output format.
"""

import math
from collections.abc import Iterable, Mapping

from tracer.page import numbers, tokens
from tracer.page.record import Block, Column, Facts, Line, Page, Piece, Prose, Role, Row, Section, Table, line
from tracer.page.sides import named_sides
from tracer.page.wording import muted
from tracer.records import Token
from tracer.saved.diff import PROMPT, Change, Diff, LineageDiff, SourceDiff
from tracer.saved.numbers import Held, Status, TensorDiff
from tracer.texts import Spoken, message

_AB = (Column(), Column("A"), Column("B"))
_SHA256_SHOWN = 12


def diff_page(found: Diff, language: str, a: str = "A", b: str = "B") -> Page:
    """Return the page of what differs, in ``language``; ``a`` and ``b`` are what a reader calls the two traces."""
    say = _Say(language)
    sections = [_nothing(say)] if found.same else []
    sections += [part for part in (_request(say, found), _source(say, found)) if part is not None]
    title = line(Piece(say("title", a=a, b=b), Role.STRONG))
    return Page("diff", language, title, _verdict(say, found), (*sections, _tensors(say, found)))


class _Say(Spoken):
    """The texts of this page in one language."""

    __slots__ = ()
    file = "diff"


def _verdict(say: _Say, found: Diff) -> Line:
    if found.first is None:
        same = "same" if found.same else "same_numbers" if found.same_tensors else "same_shared"
        return line(Piece(say(same), Role.PASS))
    step = say("step_prompt") if found.first == PROMPT else found.first
    return line(Piece(say("parts", step=step), Role.WARNING))


def _nothing(say: _Say) -> Section:
    return Section("same", "", (), (Prose(line(say("nothing"))),))


# ------------------------------------------------------------------------------------------------ what was run


def _request(say: _Say, found: Diff) -> Section | None:
    parts: Mapping[str, list[Row]] = {
        "request": _changes(say, found.request),
        "versions": _changes(say, found.versions),
        "checkpoint": _changes(say, found.checkpoint),
        "model": _changes(say, found.model),
        "prompt": _prompt(say, found),
        "kernel": _changes(say, found.kernel),
        "lineage": [*_lineage(say, "scale", found.scale), *_lineage(say, "causal", found.causal)],
        "effects": _changes(say, found.effects),
    }
    rows = [row for name, part in parts.items() if part for row in (_heading(say(f"part_{name}")), *part)]
    if not rows:
        return None
    blocks = (Prose(line(say("request_lead"))), Table(_AB, tuple(rows)))
    return Section("request", "", line(say("request_heading")), blocks)


def _heading(text: str) -> Row:
    return Row(heading=line(Piece(text, Role.STRONG)))


def _changes(say: _Say, changes: Iterable[Change]) -> list[Row]:
    return [
        _row(change.name.removeprefix("arguments."), _value(say, change.a), _value(say, change.b)) for change in changes
    ]


def _row(name: str, a: str, b: str, role: Role = Role.TEXT) -> Row:
    return Row((line(Piece(name, Role.LABEL)), line(Piece(a, role)), line(Piece(b, role))))


def _value(say: _Say, value: object) -> str:
    if value is None:
        return say("absent")
    return value if isinstance(value, str) else numbers.exact(value)


def _prompt(say: _Say, found: Diff) -> list[Row]:
    prompt = found.prompt
    if prompt.first is None:
        return []
    rows = []
    if prompt.length_a != prompt.length_b:
        rows.append(_row(say("prompt_length"), str(prompt.length_a), str(prompt.length_b)))
    at = say("prompt_first", position=prompt.first)
    return [*rows, _row(at, _token(say, prompt.a), _token(say, prompt.b), Role.TOKEN)]


def _token(say: _Say, token: Token | None) -> str:
    return say("prompt_ended") if token is None else tokens.shown((token,))[0].text


def _lineage(say: _Say, name: str, found: LineageDiff) -> list[Row]:
    """Return how a value's way differs: its definition, what the kernel was given, and the hops that gave another."""
    rows = []
    if found.a.expression != found.b.expression:
        rows.append(_row(say("defined", what=name), found.a.expression, found.b.expression, Role.CODE))
    if not _alike(found.a.value, found.b.value):
        rows.append(_row(say("value", what=name), _value(say, found.a.value), _value(say, found.b.value)))
    if len(found.a.hops) != len(found.b.hops):
        rows.append(_row(say("hops", what=name), str(len(found.a.hops)), str(len(found.b.hops))))
    for index, (a, b) in enumerate(zip(found.a.hops, found.b.hops, strict=False)):
        if not _alike(a.value, b.value):
            rows.append(_row(step_name(f"{name}[{index}]", say.language), _value(say, a.value), _value(say, b.value)))
    return rows


def step_name(name: str, language: str) -> str:
    """Return what a reader calls a step: ``scale[2]`` is the third hop of the scale."""
    what, bracket, index = name.partition("[")
    return message("diff.hop", what=what, number=int(index[:-1]) + 1).text(language) if bracket else name


def _alike(a: object, b: object) -> bool:
    return a is b or (type(a) is type(b) and a == b)


# -------------------------------------------------------------------------------------------------- the source


def _source(say: _Say, found: Diff) -> Section | None:
    blocks: list[Block] = []
    if found.sources:
        columns = (Column(say("column_file")), Column("A"), Column("B"))
        blocks += [Prose(line(say("source_files"))), Table(columns, tuple(_file(say, each) for each in found.sources))]
    if found.places:
        named = [(step_name(each.name, say.language), each.a, each.b) for each in found.places]
        rows = named_sides(named, muted(say("absent")))
        blocks += [Prose(line(say("source_places"))), Facts(tuple(rows))]
    return Section("source", "", line(say("source_heading")), tuple(blocks)) if blocks else None


def _file(say: _Say, source: SourceDiff) -> Row:
    ends = (
        say("absent") if file is None else f"{file.version}  {file.sha256[:_SHA256_SHOWN]}"
        for file in (source.a, source.b)
    )
    return Row((line(Piece(source.path.rsplit("/", 1)[-1], Role.PLACE)), *(muted(end) for end in ends)))


# ------------------------------------------------------------------------------------------------- the tensors


def _tensors(say: _Say, found: Diff) -> Section:
    columns = (
        Column(say("column_step")),
        Column(say("column_held"), spare=2),
        Column(say("column_largest"), numeric=True),
        Column(say("column_mean"), numeric=True, spare=1),
        Column(say("column_spacings"), numeric=True),
        Column(say("column_outcome")),
    )
    rows = tuple(_tensor(say, tensor, tensor.name == found.first) for tensor in found.tensors)
    blocks: list[Block] = [Table(columns, rows), Prose(muted(say("tensors_lead")))]
    if found.cached and found.prompt.same:
        last = found.prompt.length_a - 1
        blocks.append(
            Prose(muted(say("cached_one" if found.cached == last else "cached", first=found.cached, last=last)))
        )
    engine = next((change for change in found.request if change.name == "engine"), None)
    if engine is not None:
        blocks += [Prose(muted(say("engines", a=engine.a, b=engine.b)))]
    return Section("tensors", "", line(say("tensors_heading")), tuple(blocks))


def _tensor(say: _Say, tensor: TensorDiff, first: bool) -> Row:
    return Row(
        (
            line(Piece(tensor.name, Role.WARNING if first else Role.LABEL)),
            muted(_held(tensor.a, tensor.b)),
            _number(tensor.max_abs),
            _number(tensor.mean_abs),
            _number(tensor.max_spacings),
            _outcome(say, tensor),
        )
    )


def _held(a: Held | None, b: Held | None) -> str:
    texts = [f"{list(held.shape)} {held.dtype}" for held in (a, b) if held is not None]
    return texts[0] if len(set(texts)) == 1 else " ↔ ".join(texts)


def _number(value: float | None) -> Line:
    return line(Piece("" if value is None else numbers.significant(value), Role.NUMBER))


def _outcome(say: _Say, tensor: TensorDiff) -> Line:
    if tensor.status is Status.SAME:
        return line(Piece(say("outcome_same"), Role.MUTED))
    if tensor.status is not Status.DIFFERS or tensor.a is None:
        return line(Piece(say(f"outcome_{tensor.status.value}"), Role.WARNING))
    name = "outcome_nonfinite" if tensor.nonfinite else "outcome_differs"
    total = math.prod(tensor.a.shape)
    return line(say(name, count=tensor.differing, total=total, nonfinite=tensor.nonfinite))
