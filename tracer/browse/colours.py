"""Colours of Python source, line by line, as an aid to the eye only.

Must not know: files, screens.
"""

from functools import lru_cache

Coloured = tuple[tuple[int, int, str], ...]

_LOOKS = (
    ("Token.Comment", "italic #8a9a8a"),
    ("Token.Literal.String.Doc", "italic #8a9a8a"),
    ("Token.Literal.String", "#a5c98f"),
    ("Token.Literal.Number", "#7fd1e8"),
    ("Token.Keyword", "#d59cf0"),
    ("Token.Operator.Word", "#d59cf0"),
    ("Token.Name.Decorator", "#e0b050"),
    ("Token.Name.Class", "bold #8fb8ff"),
    ("Token.Name.Function", "bold #8fb8ff"),
    ("Token.Name.Builtin.Pseudo", "#e59b7b"),
)


@lru_cache(maxsize=8)
def coloured(source: str) -> tuple[Coloured, ...]:
    """Return for each line of ``source`` its coloured stretches: start, end (columns from 0, exclusive), colour.

    As many entries as the source has lines; none coloured where the colouring cannot be matched to them.
    """
    from pygments.lexers.python import PythonLexer
    from pygments.token import Token

    from tracer.source.text import Text

    count = len(Text.of(source).starts)
    lines: list[list[tuple[int, int, str]]] = [[]]
    column = 0
    for kind, text in PythonLexer(stripnl=False, ensurenl=False).get_tokens(source):
        look = _look(str(kind)) if kind is not Token.Text else ""
        for number, part in enumerate(text.split("\n")):
            if number:
                lines.append([])
                column = 0
            if look and part:
                lines[-1].append((column, column + len(part), look))
            column += len(part)
    return tuple(map(tuple, lines)) if len(lines) == count else ((),) * count


def _look(kind: str) -> str:
    return next((look for name, look in _LOOKS if kind.startswith(name)), "")
