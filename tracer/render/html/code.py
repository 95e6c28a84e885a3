"""Source lines as stretches of highlighted text, each leading to the card of the innermost expression it belongs to.

Must not know: which file the lines are from, HTML.
"""

from collections.abc import Iterator

from pygments.lexers.python import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String, _TokenType

from tracer.page.sheet import ListedLine, Stretch

# The few kinds that are told apart, the narrower first.
_KINDS: tuple[tuple[_TokenType, str], ...] = (
    (Comment, "comment"),
    (String, "string"),
    (Number, "number"),
    (Operator.Word, "keyword"),
    (Keyword, "keyword"),
    (Name.Builtin, "builtin"),
    (Name.Builtin.Pseudo, "builtin"),
)


def stretches(line: ListedLine) -> tuple[Stretch, ...]:
    """Return the line cut wherever its highlighting or the expression it leads to changes."""
    kinds = _by_letter(line.code)
    cards = [("", 0)] * len(line.code)
    for start, end, card in line.marks:  # inner ones come later and win; of equal ones the first
        for place in range(start, min(end, len(cards))):
            cards[place] = (card, cards[place][1] + 1)
    return tuple(_runs(line.code, kinds, cards))


def _by_letter(code: str) -> list[str]:
    """Return the kind of every letter. A line alone may be a piece of a longer statement; the lexer does not mind."""
    kinds: list[str] = []
    for found, text in PythonLexer(stripnl=False, ensurenl=False).get_tokens(code):
        kinds += [_kind(found)] * len(text)
    return (kinds + [""] * len(code))[: len(code)]


def _kind(found: _TokenType) -> str:
    return next((name for token, name in _KINDS if token is found or token in found.split()), "")


def _runs(code: str, kinds: list[str], cards: list[tuple[str, int]]) -> Iterator[Stretch]:
    start = 0
    for place in range(1, len(code) + 1):
        if place == len(code) or (kinds[place], cards[place]) != (kinds[start], cards[start]):
            if code:
                yield Stretch(code[start:place], kinds[start], *cards[start])
            start = place
