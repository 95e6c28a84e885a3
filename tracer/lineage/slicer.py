"""Where the value of an expression comes from, one step back at a time, by reading the source only.

``Slicer.sources`` answers with edges to the expressions that a value is taken from, or with an end: a place where it is
made, or where the files read say no more. ``data=True`` also goes through operations: a tensor is followed to the
tensors it is computed from. Whatever the source does not prove carries its reason. Must not know: models, kernels.
"""

from collections.abc import Iterable

import libcst as cst

from tracer.lineage import operations
from tracer.lineage.attributes import Attributes
from tracer.lineage.calls import Calls
from tracer.lineage.decorators import Decorators
from tracer.lineage.demand import ASSUMED, Demand, Edge, End, EndKind, Frame, Kind, Source, Unless, part, say
from tracer.lineage.escapes import Escapes
from tracer.lineage.flow import ANY, Key, literal_key
from tracer.lineage.naming import Naming
from tracer.lineage.parameters import Parameters
from tracer.lineage.program import Program
from tracer.lineage.results import Results
from tracer.lineage.writes import Writes
from tracer.texts import Message


class Slicer:
    """Backward slices over one program. Answers are kept: the same question costs nothing the second time."""

    def __init__(
        self, program: Program, holds: frozenset[str] = frozenset(), within: frozenset[str] = frozenset()
    ) -> None:
        """``holds``: conditions, as code, that are known to hold in what is read; a name set under one is so set.
        ``within``: classes and functions whose calls count, by their outermost name (empty: all)."""
        self.program = program
        self.naming = Naming(self, holds)
        self.parameters = Parameters(self)
        self.attributes = Attributes(self)
        self.results = Results(self)
        self.calls = Calls(self, within)
        self.writes = Writes(self)
        self.escapes = Escapes(self)
        self.decorators = Decorators(self)
        self.holds = holds
        self.bridges: dict[tuple[cst.CSTNode, tuple[Key, ...]], Edge] = {}
        self._known: dict[tuple[Demand, bool, bool], tuple[Source, ...]] = {}

    def sources(self, asked: Demand, data: bool = False, callers: bool = True) -> tuple[Source, ...]:
        """Return where ``asked`` comes from. Without ``callers`` a parameter is an input, whoever calls."""
        key = (asked, data, callers)
        if key not in self._known:
            self._known[key] = ()  # a question that leads back to itself adds nothing
            bridge = self.bridges.get((asked.node, asked.path))
            found = tuple(self._sources(asked, data, callers))
            self._known[key] = (bridge, *found) if bridge is not None and data else found
        return self._known[key]

    def ends(self, asked: Demand, callers: bool = True, budget: int = 300) -> tuple[tuple[End, Message | None], ...]:
        """Return every end of ``asked``, each with the first assumption on the way (None: proven)."""
        found: dict[End, Message | None] = {}
        seen: set[Demand] = {asked}
        queue: list[tuple[Demand, Message | None]] = [(asked, None)]
        while queue and len(seen) < budget:
            demand, why = queue.pop()
            for source in self.sources(demand, callers=callers):
                if isinstance(source, End):
                    found.setdefault(source, why or (source.why if source.known else None))
                elif source.to not in seen:
                    seen.add(source.to)
                    queue.append((source.to, why or source.why))
        return tuple(found.items())

    def _sources(self, d: Demand, data: bool, callers: bool) -> Iterable[Source]:
        node = d.node
        if isinstance(node, cst.Name):
            return self.naming.sources(d, node, data, callers)
        if isinstance(node, cst.Param):
            return self.parameters.sources(d, callers)
        if isinstance(node, cst.Call):
            return self.results.sources(d, node, data)
        if isinstance(node, cst.Attribute):
            if data and node.attr.value in operations.METADATA:
                return [End(EndKind.OPERATION, d)]
            if data and node.attr.value in operations.VIEWS:
                return [Edge(part(d, node.value), Kind.INNER)]
            return [Edge(part(d, node.value, (f".{node.attr.value}", *d.path)), Kind.INNER)]
        if isinstance(node, cst.IfExp):
            return self._choice(d, node)
        if isinstance(node, cst.BooleanOperation):
            return self._sides(d, node)
        if isinstance(node, (cst.NamedExpr, cst.Await)):
            inner = node.value if isinstance(node, cst.NamedExpr) else node.expression
            return [Edge(part(d, inner, d.path), Kind.INNER)]
        if isinstance(node, cst.Dict):
            return self._display(d, node)
        if isinstance(node, (cst.Tuple, cst.List)):
            return self._elements(d, node, data)
        if isinstance(node, (cst.GeneratorExp, cst.ListComp)):
            return self._comprehension(d, node)
        if isinstance(node, cst.Subscript):
            return self._subscript(d, node, data)
        if isinstance(node, (cst.SimpleString, cst.ConcatenatedString, cst.BaseNumber, cst.Ellipsis)):
            return [] if d.path else [End(EndKind.LITERAL, d)]  # a literal has no parts
        if data and isinstance(node, (cst.BinaryOperation, cst.UnaryOperation, cst.AugAssign)):
            return [Edge(part(d, operand), Kind.INNER) for operand in operations.operands(node)]
        if d.path and not data:
            return [End(EndKind.UNKNOWN, d, why=say("computed_key", code=operations.short(d.module.code(node))))]
        return [End(EndKind.OPERATION, d)]

    def _sides(self, d: Demand, node: cst.BooleanOperation) -> list[Source]:
        """``a or b`` is a where a counts as true, else b. ``a and b`` is b where a counts as true; a flag that is
        further restricted, ``a and not b``, is a where the restriction holds."""
        left, right = part(d, node.left, d.path), part(d, node.right, d.path)
        costs = _side_cost(node.left), _side_cost(node.right)
        if isinstance(node.operator, cst.Or):
            unless = Unless.NEVER if d.path else Unless.FALSE
            first = Edge(left, Kind.INNER, tests=((node.left, True),), cost=costs[0], unless=unless)
            return [first, Edge(right, Kind.INNER, tests=((node.left, False),), cost=costs[1] + 2)]
        found: list[Source] = [Edge(right, Kind.INNER, tests=((node.left, True),), cost=costs[1])]
        if not _carries(node.right):
            found.append(Edge(left, Kind.INNER, tests=((node.right, True),), cost=costs[0]))
        return found

    def _choice(self, d: Demand, node: cst.IfExp) -> list[Source]:
        guarded = operations.not_none(node.test)
        same = guarded is not None and guarded.deep_equals(node.body)
        found: list[Source] = []
        arms = ((node.body, True), (node.orelse, False))
        known = [(arm, holds) for arm, holds in arms if operations.condition(node.test, holds) in self.holds]
        for arm, holds in known or arms:
            literal = isinstance(arm, (cst.Integer, cst.Float)) or operations.is_constant(arm)
            test = () if same and not holds else ((node.test, holds),)
            cost = 12 if literal else 1
            unless = Unless.NONE if same and holds and not d.path else Unless.NEVER
            found.append(Edge(part(d, arm, d.path), Kind.INNER, tests=test, cost=cost, unless=unless))
        return found

    def _display(self, d: Demand, node: cst.Dict) -> list[Source]:
        if not d.path:
            return [End(EndKind.OPERATION, d)]
        found: list[Source] = []
        for rank, element in zip(range(len(node.elements), 0, -1), reversed(node.elements), strict=True):
            if isinstance(element, cst.StarredDictElement):
                found.append(Edge(part(d, element.value, d.path), Kind.OPENED, "**", rank=rank))
            elif isinstance(element, cst.DictElement):
                key = literal_key(element.key)
                to = part(d, element.value, d.path[1:])
                if key == d.path[0]:
                    return [*found, Edge(to, Kind.ENTRY, f"'{str(key)[1:-1]}':", rank=rank)]
                if key is None:
                    why = say("computed_key", code=operations.short(d.module.code(element.key)))
                    found.append(Edge(to, Kind.ENTRY, "", why, cost=2 * ASSUMED, rank=rank))
        return found

    def _elements(self, d: Demand, node: cst.Tuple | cst.List, data: bool) -> list[Source]:
        values = [element.value for element in node.elements]
        plain = not any(isinstance(element, cst.StarredElement) for element in node.elements)
        if d.path and isinstance(d.path[0], int) and plain:
            return [Edge(part(d, values[d.path[0]], d.path[1:]), Kind.INNER)] if d.path[0] < len(values) else []
        if (d.path and d.path[0] == ANY) or data:
            return [Edge(part(d, value, d.path[1:]), Kind.INNER, cost=2) for value in values]
        return [End(EndKind.OPERATION, d)]

    def _comprehension(self, d: Demand, node: cst.GeneratorExp | cst.ListComp) -> list[Source]:
        if not d.path or not isinstance(d.path[0], int) or node.for_in.inner_for_in or node.for_in.ifs:
            return [End(EndKind.OPERATION, d)]
        frame = Frame(None, d, element=d.path[0])
        return [Edge(Demand(d.module, node.elt, d.path[1:], (*d.frames, frame)), Kind.INNER)]

    def _subscript(self, d: Demand, node: cst.Subscript, data: bool) -> list[Source]:
        index = node.slice[0].slice if len(node.slice) == 1 else None
        key = literal_key(index.value) if isinstance(index, cst.Index) else None
        if key is not None and not (data and isinstance(key, int) and not d.path):
            return [Edge(part(d, node.value, (key, *d.path)), Kind.INNER)]
        if data:
            return [Edge(part(d, node.value, d.path), Kind.INNER)]
        return [End(EndKind.UNKNOWN, d, why=say("computed_key", code=d.module.code(node)))]


def _side_cost(side: cst.BaseExpression) -> int:
    """What it costs to follow one side of ``a and b``: a comparison there is a condition, not the value itself."""
    return 1 if _carries(side) else 1 + 8 * ASSUMED


def _carries(side: cst.BaseExpression) -> bool:
    if isinstance(side, cst.BooleanOperation):
        return _carries(side.left) or _carries(side.right)
    return not isinstance(side, (cst.Comparison, cst.UnaryOperation))
