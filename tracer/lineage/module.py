"""One parsed file: its functions and classes, where each node stands, and what a name stands for in it.

Parsed with LibCST, names resolved with its scopes; nothing is imported or run. A module's dotted name follows from its
path inside the package. Must not know: other files, values.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import libcst as cst
from libcst.helpers import get_absolute_module_for_import, get_full_name_for_node
from libcst.metadata import (
    BuiltinAssignment,
    ImportAssignment,
    MetadataWrapper,
    PositionProvider,
    Scope,
    ScopeProvider,
)

from tracer.lineage.flow import Definition, Flow, Test, Way, flow
from tracer.lineage.parts import Builtin, Class, Function, Imported, Meaning
from tracer.records import Span
from tracer.source.files import SourceFile
from tracer.source.patterns import Pattern, PlacedNode, matches, nodes


class Module:
    """One parsed file. ``name`` is its dotted module name."""

    def __init__(self, key: str, file: SourceFile) -> None:
        self.key = key
        self.file = file
        parts = file.member.removesuffix(".py").split("/")
        self.name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        self._wrapper = MetadataWrapper(cst.parse_module(file.source), unsafe_skip_copy=True)
        self.tree = self._wrapper.module
        self.functions: dict[cst.FunctionDef, Function] = {}
        self.classes: dict[cst.ClassDef, Class] = {}
        self.enclosing: dict[cst.CSTNode, Function] = {}
        self._at: dict[Span, cst.BaseExpression] | None = None
        self._places: tuple[PlacedNode, ...] | None = None
        self._collect(self.tree.body, (), None, None)

    @cached_property
    def flow(self) -> Flow:
        """What the top level binds."""
        return flow(self.tree)

    @cached_property
    def _positions(self) -> Mapping[cst.CSTNode, object]:
        return self._wrapper.resolve(PositionProvider)

    @cached_property
    def parents(self) -> Mapping[cst.CSTNode, cst.CSTNode]:
        """What each node stands in."""
        found: dict[cst.CSTNode, cst.CSTNode] = {}
        waiting: list[cst.CSTNode] = [self.tree]
        while waiting:
            node = waiting.pop()
            found.update(dict.fromkeys(node.children, node))
            waiting += node.children
        return found

    def guards(self, node: cst.CSTNode) -> tuple[Test, ...]:
        """Return the tests under which ``node`` is reached in its function: of each if around it, and of each if
        before it that is left by return."""
        found: list[Test] = []
        at = node
        while (parent := self.parents.get(at)) is not None and not isinstance(at, cst.FunctionDef):
            if isinstance(parent, cst.If):
                if at is parent.body:
                    found.append((parent.test, True))
                elif at is parent.orelse:
                    found.append((parent.test, False))
            elif isinstance(parent, (cst.IndentedBlock, cst.Module)):
                before = parent.body[: [id(each) for each in parent.body].index(id(at))]
                left = [each for each in before if isinstance(each, cst.If) and each.orelse is None and _left(each)]
                found += [(each.test, False) for each in reversed(left)]
            at = parent
        return tuple(found[::-1])

    @cached_property
    def scopes(self) -> Mapping[cst.CSTNode, Scope | None]:
        """LibCST's scope of each node."""
        return self._wrapper.resolve(ScopeProvider)

    def span(self, node: cst.CSTNode) -> Span:
        """Return where ``node`` stands."""
        where = self._positions[node]
        return Span(where.start.line, where.start.column, where.end.line, where.end.column)  # type: ignore[attr-defined]

    def code(self, node: cst.CSTNode) -> str:
        """Return the text of ``node`` as it stands in the file."""
        return self.file.text.code(self.span(node))

    def span_of(self, node: cst.CSTNode) -> Span:
        """Return where ``node`` stands; a parameter with its annotation and default, without its stars."""
        if not isinstance(node, cst.Param):
            return self.span(node)
        first, last = self.span(node.name), self.span(node.default or node.annotation or node.name)
        if node.default is None and node.annotation is not None:
            last = self.span(node.annotation.annotation)
        return Span(first.line, first.column, last.end_line, last.end_column)

    def node_at(self, span: Span) -> cst.BaseExpression:
        """Return the outermost expression that stands at ``span``; raises LookupError where there is none."""
        if self._at is None:
            self._at = {}
            for node in self._positions:
                if isinstance(node, cst.BaseExpression):
                    self._at.setdefault(self.span(node), node)
        found = self._at.get(span)
        if found is None:
            raise LookupError(f"{self.file.member} has no expression at {span}")
        return found

    def is_opened(self, node: cst.CSTNode) -> bool:
        """Return whether ``node`` is a dictionary that a call opens with ``**``."""
        calls = (call for read, _ in self.every_flow() for call in read.calls)
        return any(arg.value is node and arg.star == "**" for call in calls for arg in call.args)

    def scope_at(self, span: Span) -> str:
        """Return the dotted name of the innermost function or class whose body or parameters hold ``span``."""
        best, name = None, ""
        for node, scope in self._spans:
            begins = (node.line, node.column) <= (span.line, span.column)
            holds = begins and (span.end_line, span.end_column) <= (node.end_line, node.end_column)
            if holds and (best is None or (best.line, best.column) <= (node.line, node.column)):
                best, name = node, scope
        return name

    @cached_property
    def _spans(self) -> tuple[tuple[Span, str], ...]:
        made: list[Function | Class] = [*self.functions.values(), *self.classes.values()]
        return tuple((self.span(each.node), each.scope) for each in made)

    def find(self, pattern: Pattern, scope: str, under: str | None) -> list[cst.CSTNode]:
        """Return the expressions in ``scope`` that ``pattern`` means (``under`` as in tracer.source.patterns)."""
        if self._places is None:
            self._places = nodes(self.tree)
        return [found for _, found in matches(self._places, pattern, scope, under)]

    def every_flow(self) -> Iterator[tuple[Flow, Function | None]]:
        """Yield the top level and every function with what it does."""
        yield self.flow, None
        for function in self.functions.values():
            yield function.flow, function

    def global_definitions(self, name: str) -> tuple[Definition, ...]:
        """Return every assignment of a global name: at the top level, and in functions that declare it global."""
        found = list(self.flow.bound.get(name, ()))
        for function in self.functions.values():
            if name in function.flow.shared:
                found += function.flow.bound.get(name, ())
        return tuple(found)

    def top_level(self, name: str, own: bool = False) -> tuple[Meaning, ...]:
        """Return what a name stands for at the top level; ``own`` leaves out what is imported from elsewhere."""
        found = [self._of_definition(made) for made in self.global_definitions(name)]
        return tuple(meaning for meaning in found if not (own and isinstance(meaning, Imported)))

    def _collect(
        self, body: Sequence[cst.CSTNode], scope: tuple[str, ...], owner: Class | None, parent: Function | None
    ) -> None:
        for node in body:
            if isinstance(node, cst.ClassDef):
                inner = (*scope, node.name.value)
                made = self.classes[node] = Class(self, node, ".".join(inner))
                self._collect(node.body.body, inner, made, parent)
            elif isinstance(node, cst.FunctionDef):
                inner = (*scope, node.name.value)
                function = self.functions[node] = Function(self, node, ".".join(inner), owner, parent)
                if owner is not None:
                    owner.methods[node.name.value] = function
                self._collect(node.body.body, inner, None, function)
            else:
                for block in _blocks(node):
                    self._collect(block, scope, owner, parent)

    def function_of(self, node: cst.CSTNode) -> Function | None:
        """Return the function whose body reads ``node`` (a name), or None at the top level."""
        return self._readers.get(node)

    @cached_property
    def _readers(self) -> Mapping[cst.CSTNode, Function]:
        return {node: function for function in self.functions.values() for node in function.flow.tests}

    def meanings(self, node: cst.Name) -> tuple[Meaning, ...]:
        """Return what a name stands for where it is read; empty where that cannot be told."""
        for made, _ in self.every_flow_reading(node):
            if made:
                return tuple(self._of_definition(each) for each in made)
        scope = self.scopes.get(node)
        return self._in_scope(scope, node.value) if scope is not None else ()

    def every_flow_reading(self, node: cst.Name) -> Iterator[tuple[tuple[Definition, ...], Function | None]]:
        """Yield the definitions that reach ``node`` in the flow it is read in."""
        function = self._readers.get(node)
        read = function.flow if function is not None else self.flow
        if node in read.reaching:
            yield read.reaching[node], function

    def _in_scope(self, scope: Scope, name: str) -> tuple[Meaning, ...]:
        found: list[Meaning] = []
        for assignment in scope[name]:
            if isinstance(assignment, BuiltinAssignment):
                found.append(Builtin(name))
            elif isinstance(assignment, ImportAssignment):
                found.append(Imported(self._import_name(assignment.node, name)))
            else:
                found += self._assigned(assignment.scope, assignment.node, name)  # type: ignore[attr-defined]
        return tuple(dict.fromkeys(found))

    def _assigned(self, scope: Scope, node: cst.CSTNode, name: str) -> list[Meaning]:
        if isinstance(node, cst.FunctionDef):
            return [self.functions[node]]
        if isinstance(node, cst.ClassDef):
            return [self.classes[node]]
        for function in self.functions.values():  # a free variable of an enclosing function
            made = [each for each in function.flow.bound.get(name, ()) if each.node is node]
            if made and name not in function.flow.shared:
                return [self._of_definition(each) for each in made]
        return [self._of_definition(each) for each in self.global_definitions(name)]

    def _of_definition(self, made: Definition) -> Meaning:
        if made.way is Way.IMPORTED:
            return Imported(self._alias_name(made.node, made.name))
        if made.way is Way.DEFINED:
            node = made.node
            return self.functions[node] if isinstance(node, cst.FunctionDef) else self.classes[node]  # type: ignore[index]
        return made

    @cached_property
    def _import_statements(self) -> Mapping[cst.CSTNode, cst.Import | cst.ImportFrom]:
        found: dict[cst.CSTNode, cst.Import | cst.ImportFrom] = {}
        for read, _ in self.every_flow():
            for node in read.tests:
                if isinstance(node, (cst.Import, cst.ImportFrom)) and not isinstance(node.names, cst.ImportStar):
                    found.update(dict.fromkeys(node.names, node))
        return found

    def _alias_name(self, alias: cst.CSTNode, name: str) -> str:
        statement = self._import_statements[alias]
        return self._import_name(statement, name)

    def _import_name(self, statement: cst.CSTNode, name: str) -> str:
        if not isinstance(statement, (cst.Import, cst.ImportFrom)) or isinstance(statement.names, cst.ImportStar):
            return name
        for alias in statement.names:
            original = get_full_name_for_node(alias.name) or ""
            bound = alias.asname.name if alias.asname is not None else None
            if isinstance(statement, cst.Import):
                if isinstance(bound, cst.Name) and bound.value == name:
                    return original
                if bound is None and original.split(".")[0] == name:
                    return name
            elif (bound.value if isinstance(bound, cst.Name) else original) == name:
                base = get_absolute_module_for_import(self.name, statement)
                return f"{base}.{original}" if base else original
        return name


def _blocks(node: cst.CSTNode) -> Iterator[Sequence[cst.CSTNode]]:
    """Yield the statement lists inside a compound statement."""
    for child in node.children:
        if isinstance(child, cst.IndentedBlock):
            yield child.body
        elif isinstance(child, (cst.If, cst.Else, cst.ExceptHandler, cst.Finally, cst.MatchCase)):
            yield from _blocks(child)


def _left(node: cst.If) -> bool:
    """Whether the body of an if ends in return."""
    last = node.body.body[-1] if node.body.body else None
    if isinstance(last, cst.SimpleStatementLine):
        last = last.body[-1]
    return isinstance(last, cst.Return)
