"""Both sides' expressions, A above B and never cut, and what was rewritten between two versions of one code base.

Must not know: numbers, how anything was run.
"""

import re
from difflib import SequenceMatcher

from tracer.compare.records import Comparison
from tracer.compare.wording import Say
from tracer.page.diff import step_name
from tracer.page.record import Block, Facts, Line, Piece, Prose, Role, Section, line
from tracer.page.sides import named_sides, one_line, sides, together
from tracer.page.wording import file_name_of, muted
from tracer.records import Site

_TOKEN = re.compile(r"\w+|[^\w\s]")


def places(say: Say, found: Comparison) -> Section:
    """Return where each step of the asked layer is written on both sides, and what is written there."""
    named = together(((pair.name, pair.a, pair.b) for pair in found.steps), ", ")
    rows = named_sides(named, muted(say("not_there")))
    return Section("places", "", line(say("places_heading")), (Facts(tuple(rows)),))


def sources(say: Say, found: Comparison) -> Section | None:
    """Return what differs in the source, where both sides are one code base."""
    if found.diff is None or found.a.trace.versions == found.b.trace.versions:
        return None
    heading = line(say("sources_heading"))
    if not found.diff.sources:
        return Section("sources", "", heading, (Prose(line(say("sources_none"))),))
    files = ", ".join(file_name_of(one.path) for one in found.diff.sources)
    moved = sum(one.moved for one in found.diff.places)
    rewritten = [one for one in found.diff.places if one.rewritten]
    blocks: list[Block] = [Prose(line(say.count("sources_files", len(found.diff.sources), files=files)))]
    blocks.append(Prose(line(say("sources_lead", moved=moved, rewritten=len(rewritten)))))
    for names, a, b in together(((step_name(one.name, say.language), one.a, one.b) for one in rewritten), "; "):
        blocks.append(Prose(line(Piece(names, Role.CODE))))
        both = _changed(say, a, b) if a is not None and b is not None else ()
        blocks.append(Facts((*sides(a, b, muted(say("not_there"))), *(((), text) for text in both))))
    return Section("sources", "", heading, tuple(blocks))


def changes(a: str, b: str) -> list[tuple[str, str]]:
    """Return the stretches of two expressions that differ, as written; layout does not count."""
    tokens_a, tokens_b = _middles(_tokens(a), _tokens(b))
    matcher = SequenceMatcher(None, [t[0] for t in tokens_a], [t[0] for t in tokens_b], autojunk=False)
    return [
        (_stretch(a, tokens_a[i:j]), _stretch(b, tokens_b[k:m]))
        for kind, i, j, k, m in matcher.get_opcodes()
        if kind != "equal"
    ]


def _middles(a: list[re.Match[str]], b: list[re.Match[str]]) -> tuple[list[re.Match[str]], list[re.Match[str]]]:
    """Return what is left of two lists of tokens without what both begin and end with, so that a call that was added
    keeps its own closing bracket."""
    for _ in range(2):
        same = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x[0] != y[0]), min(len(a), len(b)))
        a, b = a[same:][::-1], b[same:][::-1]
    return a, b


def _tokens(code: str) -> list[re.Match[str]]:
    """Return the tokens of an expression but for a comma before a closing bracket, which says nothing."""
    found = list(_TOKEN.finditer(code))
    after = [token[0] for token in found[1:]] + [""]
    return [token for token, next in zip(found, after, strict=True) if not (token[0] == "," and next in ")]}")]


def _stretch(code: str, tokens: list[re.Match[str]]) -> str:
    return one_line(code[tokens[0].start() : tokens[-1].end()]) if tokens else ""


def _changed(say: Say, a: Site, b: Site) -> list[Line]:
    found = changes(a.code, b.code) or changes(a.scope, b.scope)
    told = (say("changed", a=x, b=y) if x and y else say("added", b=y) if y else say("removed", a=x) for x, y in found)
    return [line(Piece(text, Role.WARNING)) for text in told]
