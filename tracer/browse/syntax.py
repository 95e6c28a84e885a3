"""Every expression of a line of Python, for whatever a cursor may stand on.

Must not know: which of them anything is said about.
"""

import ast
import warnings
from collections.abc import Iterator
from functools import lru_cache

from tracer.records import Span
from tracer.source.text import Text


def expressions(text: Text, line: int) -> Iterator[tuple[Span, str]]:
    """Yield the place and the scope (``Attention.forward``) of every expression of ``text`` that covers ``line``."""
    tree = _parsed(text.source)
    for scope, node in _nodes(tree, line) if tree is not None else ():
        yield _span(node, text), scope


@lru_cache(maxsize=16)
def _parsed(source: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of no concern to a reader, and they would be written over the screen
            return ast.parse(source)
    except (SyntaxError, ValueError):
        return None  # written for another Python: there the named places are all there is


def _nodes(tree: ast.AST, line: int, scope: tuple[str, ...] = ()) -> Iterator[tuple[str, ast.expr]]:
    """Yield every expression that covers ``line``, with its scope."""
    for child in ast.iter_child_nodes(tree):
        first, last = getattr(child, "lineno", line), getattr(child, "end_lineno", line)
        if not first <= line <= last and not getattr(child, "decorator_list", ()):
            continue
        if isinstance(child, ast.expr):
            yield ".".join(scope), child
        if isinstance(child, ast.JoinedStr):
            continue  # before Python 3.12 places within an f-string are not told truly
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _nodes(child, line, (*scope, child.name))
        else:
            yield from _nodes(child, line, scope)


def _span(node: ast.expr, text: Text) -> Span:
    """Return where an expression stands; the syntax tree counts columns in bytes, a Span in code points."""
    end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
    return Span(node.lineno, _points(text, node.lineno, node.col_offset), end_line, _points(text, end_line, end_column))


def _points(text: Text, line: int, column: int) -> int:
    (content,) = text.lines(line, line)
    return len(content.encode("utf-8")[:column].decode("utf-8", errors="ignore"))
