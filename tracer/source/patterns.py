"""Find expressions by structure: a pattern is a piece of Python in which three names have a meaning of their own.

    ``_``            any expression
    ``...``          in a call or dictionary: any further arguments or entries
    ``HERE``         the expression that is meant; ``HERE(p)`` is the one that is meant and also matches p

    self.scaling = HERE                          the value assigned to self.scaling
    attention_interface(..., scaling=HERE)       that keyword's value
    flash_varlen_fn(..., **HERE)                 the dictionary that is opened into the call
    self.q_proj(...)                             the call itself (no HERE: the whole pattern)

Layout, comments and parentheses do not count, and neither does the order of keyword arguments. LibCST gives the spans.
Must not know: what an expression is for, or which file it is in.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from tracer.records import Span
from tracer.source.text import Text

# Fields of LibCST nodes that hold layout only; two nodes that differ just there say the same thing.
_LAYOUT = {
    "lpar",
    "rpar",
    "semicolon",
    "comma",
    "equal",
    "leading_lines",
    "trailing_whitespace",
    "whitespace",
    "lbrace",
}
_LAYOUT |= {"rbrace", "lbracket", "rbracket", "star", "keyword"}


@dataclass(frozen=True)
class Found:
    """One match: where it is, the class and function it is in (dotted), the parameters of that function, and, where
    the whole match is a call by a plain name, that name."""

    span: Span
    scope: str
    code: str
    parameters: tuple[str, ...]
    callee: str | None


class Pattern:
    """A parsed pattern. Raises libcst.ParserSyntaxError where the text is not Python."""

    def __init__(self, text: str) -> None:
        self.text = text
        statement = cst.parse_module(text).body[0]
        if not isinstance(statement, cst.SimpleStatementLine):
            raise ValueError(f"a pattern is one expression, assignment or return, not {text!r}")
        body = statement.body[0]
        self._node: cst.CSTNode = body.value if isinstance(body, cst.Expr) else body

    def match(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the expression of ``node`` that is meant, or None where ``node`` does not match."""
        captured: list[cst.CSTNode] = []
        if not _equal(self._node, node, captured):
            return None
        return captured[0] if captured else node


def _equal(pattern: object, node: object, captured: list[cst.CSTNode]) -> bool:
    if isinstance(pattern, cst.Name) and isinstance(node, cst.BaseExpression):
        if pattern.value == "_":
            return True
        if pattern.value == "HERE":
            captured.append(node)
            return True
    if isinstance(pattern, cst.Call) and isinstance(pattern.func, cst.Name) and pattern.func.value == "HERE":
        if isinstance(node, cst.CSTNode) and _equal(pattern.args[0].value, node, captured):
            captured.append(node)
            return True
        return False
    if isinstance(pattern, cst.Assign) and isinstance(node, cst.AnnAssign) and node.value is not None:
        target = pattern.targets[0].target  # ``x: T = value`` binds as ``x = value`` does
        return _equal(target, node.target, captured) and _equal(pattern.value, node.value, captured)
    if type(pattern) is not type(node):
        return False
    if isinstance(pattern, cst.Call) and isinstance(node, cst.Call):
        return _equal(pattern.func, node.func, captured) and _arguments(pattern, node, captured)
    if isinstance(pattern, cst.Dict) and isinstance(node, cst.Dict):
        return _entries(pattern, node, captured)
    if isinstance(pattern, cst.CSTNode):
        names = [f.name for f in fields(pattern) if f.name not in _LAYOUT and not f.name.startswith("whitespace")]
        return all(_equal(getattr(pattern, name), getattr(node, name), captured) for name in names)
    if isinstance(pattern, (list, tuple)) and isinstance(node, (list, tuple)):
        return len(pattern) == len(node) and all(_equal(p, n, captured) for p, n in zip(pattern, node, strict=True))
    return bool(pattern == node)


def _tried(pattern: cst.CSTNode, node: cst.CSTNode, captured: list[cst.CSTNode]) -> bool:
    """Return whether one of several candidates matches; what a failed one captured is forgotten."""
    before = len(captured)
    if _equal(pattern, node, captured):
        return True
    del captured[before:]
    return False


def _arguments(pattern: cst.Call, node: cst.Call, captured: list[cst.CSTNode]) -> bool:
    rest = list(node.args)
    more = False
    for wanted in pattern.args:
        if isinstance(wanted.value, cst.Ellipsis):
            more = True
            continue
        if wanted.keyword is not None:
            of_kind = [a for a in rest if a.keyword is not None and a.keyword.value == wanted.keyword.value]
        elif wanted.star:
            of_kind = [a for a in rest if a.star == wanted.star]
        else:  # positional arguments match in order, from the first
            of_kind = [a for a in rest[:1] if a.keyword is None and not a.star]
        hit = next((a for a in of_kind if _tried(wanted.value, a.value, captured)), None)
        if hit is None:
            return False
        rest.remove(hit)
    return more or not rest


def _entries(pattern: cst.Dict, node: cst.Dict, captured: list[cst.CSTNode]) -> bool:
    rest = list(node.elements)
    more = False
    for wanted in pattern.elements:
        if isinstance(wanted, cst.StarredDictElement) and isinstance(wanted.value, cst.Ellipsis):
            more = True  # a dictionary display cannot hold a bare ``...``; ``**...`` is how a pattern writes it
            continue
        hit = next(
            (
                entry
                for entry in rest
                if isinstance(wanted, cst.DictElement)
                and isinstance(entry, cst.DictElement)
                and wanted.key.deep_equals(entry.key)
                and _tried(wanted.value, entry.value, captured)
            ),
            None,
        )
        if hit is None:
            return False
        rest.remove(hit)
    return more or not rest


class Module:
    """A parsed file, ready for many patterns. Parsing costs most; each search is one walk over one scope."""

    def __init__(self, source: str) -> None:
        wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
        self._positions = wrapper.resolve(PositionProvider)
        self._nodes = nodes(wrapper.module)
        self._text = Text.of(source)

    def find(self, pattern: Pattern, scope: str, under: str | None = None) -> tuple[Found, ...]:
        """Return every match inside ``scope`` (dotted; "" is the whole file), in the order of the file.

        ``under`` keeps only matches whose innermost enclosing ``if`` mentions that name in its test.
        """
        found = []
        for place, node in matches(self._nodes, pattern, scope, under):
            span = self._span(node)
            found.append(Found(span, place.scope, self._text.code(span), place.parameters, _callee(place.node)))
        return tuple(found)

    def _span(self, node: cst.CSTNode) -> Span:
        where = self._positions[node]
        return Span(where.start.line, where.start.column, where.end.line, where.end.column)


@dataclass(frozen=True)
class PlacedNode:
    """A node with what surrounds it."""

    node: cst.CSTNode
    scope: str
    parameters: tuple[str, ...]
    tests: tuple[frozenset[str], ...]  # the names in the test of each enclosing if, outermost first


def nodes(tree: cst.Module) -> tuple[PlacedNode, ...]:
    """Return every node of a file with what surrounds it, in the order of the file."""
    return tuple(_walk(tree, (), (), ()))


def matches(
    places: Iterable[PlacedNode], pattern: Pattern, scope: str, under: str | None = None
) -> Iterator[tuple[PlacedNode, cst.CSTNode]]:
    """Yield each place in ``scope`` ("" is the whole file) that ``pattern`` matches, with the expression it means.

    ``under`` keeps only those whose innermost enclosing ``if`` mentions that name in its test.
    """
    for place in places:
        if scope and place.scope != scope:
            continue
        if under is not None and not (place.tests and under in place.tests[-1]):
            continue
        node = pattern.match(place.node)
        if node is not None:
            yield place, node


def _walk(
    node: cst.CSTNode, scope: tuple[str, ...], parameters: tuple[str, ...], tests: tuple[frozenset[str], ...]
) -> Iterator[PlacedNode]:
    yield PlacedNode(node, ".".join(scope), parameters, tests)
    if isinstance(node, (cst.ClassDef, cst.FunctionDef)):
        # decorators and defaults run outside the function: only what is inside belongs to its scope
        scope = (*scope, node.name.value)
        if isinstance(node, cst.FunctionDef):
            parameters = _parameter_names(node.params)
        yield from _walk(node.body, scope, parameters, tests)
        return
    for child in node.children:
        inner = tests
        if isinstance(node, cst.If) and child is node.body:
            inner = (*tests, _names(node.test))
        yield from _walk(child, scope, parameters, inner)


def _callee(node: cst.CSTNode) -> str | None:
    return node.func.value if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) else None


def _parameter_names(params: cst.Parameters) -> tuple[str, ...]:
    every = (*params.posonly_params, *params.params, *params.kwonly_params)
    return tuple(p.name.value for p in every)


def _names(node: cst.CSTNode) -> frozenset[str]:
    own = {node.value} if isinstance(node, cst.Name) else set()
    return frozenset(own.union(*(_names(child) for child in node.children)))
