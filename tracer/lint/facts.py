"""What one parsed file says of names: its scopes, what binds each name there, its calls, its classes.

Filled by ``tracer.lint.walk``. Must not know: other files, what a value means.
"""

import ast
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

from tracer.lint.gather import Read
from tracer.records import Span
from tracer.source.text import Text

Item = tuple[int, int]  # an element of a tuple: its index, and how many there are (0: not known)
Key = str | Item  # "[name]" an entry; "*" any element
ANY: Key = "*"
Arm = tuple[int, int]  # an ``if`` (or loop, handler, case) and which of its branches
Test = tuple[ast.expr, bool]
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True, eq=False)
class At:
    """Where in a scope something is: the order of its statement, the branches it is in, the tests that led there."""

    scope: "Scope"
    order: float
    arms: tuple[Arm, ...] = ()
    tests: tuple[Test, ...] = ()


@dataclass(frozen=True, eq=False)
class Binding:
    """One thing that gives ``name`` a value: ``way`` is assign, aug, update, loop, import, def, class or opaque."""

    name: str
    way: str
    node: ast.AST
    at: At
    value: ast.expr | None = None
    path: tuple[Key, ...] = ()
    key: str = ""  # of an update; the full dotted name of an import


@dataclass(eq=False)
class Scope:
    """A function, a class body or a file's top level."""

    module: "Module"
    node: ast.AST
    name: str  # dotted, "" for the top level
    parent: "Scope | None"
    cls: "Class | None" = None  # the class whose method this is, or whose body
    is_class: bool = False
    bound: dict[str, list[Binding]] = field(default_factory=lambda: defaultdict(list))
    calls: list[tuple[ast.Call, At]] = field(default_factory=list)
    products: list[tuple[ast.BinOp, At]] = field(default_factory=list)  # a @ b
    mentions: list[tuple[ast.Name, At]] = field(default_factory=list)
    returns: list[tuple[ast.expr, At]] = field(default_factory=list)
    attributes: list[tuple[ast.Attribute, ast.expr, tuple[Key, ...], At]] = field(default_factory=list)
    ended: set[Arm] = field(default_factory=set)  # branches that control does not leave at their end
    arms: dict[int, int] = field(default_factory=dict)  # how many branches an ``if`` has
    outer: set[str] = field(default_factory=set)  # declared global or nonlocal

    @property
    def function(self) -> FunctionNode | None:
        """The function's node, or None for a class body or the top level."""
        return self.node if isinstance(self.node, FunctionNode) else None

    @property
    def short(self) -> str:
        """The function's bare name."""
        return self.name.rsplit(".", 1)[-1]

    @property
    def receiver(self) -> str | None:
        """The name of the parameter that a method gets its object in."""
        node = self.function
        if self.cls is None or node is None or isinstance(node, ast.Lambda):
            return None
        marks = {each.id for each in node.decorator_list if isinstance(each, ast.Name)}
        names = [*node.args.posonlyargs, *node.args.args]
        return names[0].arg if names and "staticmethod" not in marks else None

    def end(self) -> At:
        """Return the place after its last statement."""
        return At(self, float("inf"))


@dataclass(eq=False)
class Class:
    """A class: its body, its methods, the expressions it inherits from."""

    module: "Module"
    node: ast.ClassDef
    body: Scope
    methods: dict[str, Scope] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its bare name."""
        return self.node.name


class Module:
    """One parsed file; what it says is filled in by the walk over it."""

    def __init__(self, read: Read, tree: ast.Module) -> None:
        self.read = read
        self.tree = tree
        self.text = Text.of(read.source)
        self.scopes: list[Scope] = []
        self.classes: dict[str, Class] = {}
        self.functions: dict[str, Scope] = {}  # at the top level
        self.by_node: dict[ast.AST, Scope] = {}
        self.top = Scope(self, tree, "", None)
        self.scopes.append(self.top)

    @cached_property
    def above(self) -> dict[ast.AST, ast.Attribute]:
        """For each plain name, the whole dotted name that it begins."""
        found: dict[ast.AST, ast.Attribute] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Attribute):
                first: ast.AST = node
                while isinstance(first, ast.Attribute):
                    first = first.value
                found.setdefault(first, node)  # the walk meets the whole before its parts
        return found

    @cached_property
    def calls_by_name(self) -> dict[str, list[tuple[ast.Call, At]]]:
        """Every call under the last name of what is called."""
        index: dict[str, list[tuple[ast.Call, At]]] = defaultdict(list)
        for scope in self.scopes:
            for call, at in scope.calls:
                func = call.func
                index[func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")].append((call, at))
        return index

    @cached_property
    def mentions(self) -> dict[str, list[tuple[ast.Name, At]]]:
        """Every name that is read and not called there, under itself."""
        index: dict[str, list[tuple[ast.Name, At]]] = defaultdict(list)
        for scope in self.scopes:
            for node, at in scope.mentions:
                index[node.id].append((node, at))
        return index

    @cached_property
    def variable_calls(self) -> tuple[tuple[ast.Call, At], ...]:
        """Every call of a local variable with at least three arguments."""
        found = []
        for scope in self.scopes:
            for call, at in scope.calls:
                if not isinstance(call.func, ast.Name) or len(call.args) + len(call.keywords) < 3:
                    continue
                if any(binding.way == "assign" for binding in scope.bound.get(call.func.id, ())):
                    found.append((call, at))
        return tuple(found)

    def span(self, node: ast.AST) -> Span:
        """Return where ``node`` stands, columns in code points."""
        where = cast(ast.expr, node)  # every node that is asked about has a place
        line, end_line = where.lineno, where.end_lineno or where.lineno
        return Span(
            line,
            self._column(line, where.col_offset),
            end_line,
            self._column(end_line, where.end_col_offset or where.col_offset),
        )

    def code(self, node: ast.AST) -> str:
        """Return the text of ``node``."""
        return self.text.code(self.span(node))

    def _column(self, line: int, offset: int) -> int:
        (text,) = self.text.lines(line, line)
        return offset if text.isascii() else len(text.encode("utf-8")[:offset].decode("utf-8", "ignore"))
