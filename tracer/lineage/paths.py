"""The way of one value from where it is made to the kernel: of all ways the source allows, the most certain one.

The graph of a slice is searched from the kernel's argument backwards, cheapest first: proven steps cost little, assumed
ones and those under a condition more. What was not taken is kept beside the step where it branched off. Must not know:
how a single step is found.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

import libcst as cst

from tracer.lineage import operations
from tracer.lineage.demand import ASSUMED, Demand, Edge, End, EndKind, Kind, Unless, say
from tracer.lineage.slicer import Slicer
from tracer.texts import Message

_MOST = 6000  # questions asked in one search
_END_COST = {EndKind.INPUT: 3 * ASSUMED, EndKind.EXTERNAL: 5 * ASSUMED, EndKind.UNKNOWN: 6 * ASSUMED}
_NONE_COST = ASSUMED
_TEST_COST = 150  # more than some assumptions: what always runs comes before what runs sometimes


@dataclass(frozen=True)
class Goal:
    """Where a search for a tensor's origin stops: a parameter of a method, given as ``Class.method`` and its name."""

    scope: str
    parameter: str


@dataclass(frozen=True)
class Point:
    """An expression on the way. ``why`` says what was assumed of the link from the point before it (nearer the
    definition), ``when`` under which conditions it runs, as code; ``others`` are further ways for a value to come here.
    """

    at: Demand
    kind: Kind
    binds: str
    why: tuple[Message, ...] = ()
    when: tuple[str, ...] = ()
    others: tuple["Other", ...] = ()


@dataclass(frozen=True)
class Other:
    """A way that was not taken: where it comes from, under which conditions, and what it would assume."""

    at: Demand
    when: tuple[str, ...]
    why: Message | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Way:
    """A value's way, the definition first and the kernel's argument last. ``end`` is what the search ended at."""

    points: tuple[Point, ...]
    end: End | None

    @property
    def complete(self) -> bool:
        """Whether the way ends where the value is made (or at the goal), inside the files read."""
        return self.end is None or self.end.known


def way(slicer: Slicer, start: Demand, binds: str, goal: Goal | None = None) -> Way:
    """Return the most certain way of ``start`` from its origin. With ``goal``, tensors are followed through operations
    until that parameter."""
    data = goal is not None
    best: dict[Demand, int] = {start: 0}
    came: dict[Demand, tuple[Demand, Edge]] = {}
    order = count()
    queue: list[tuple[int, int, Demand, End | None]] = [(0, next(order), start, None)]
    while queue and len(best) < _MOST:
        cost, _, at, end = heapq.heappop(queue)
        if end is not None or (goal is not None and _reached(slicer, at, goal)):
            return Way(_points(slicer, start, binds, at, came, data, end is None or end.known), end)
        if cost > best[at]:
            continue
        for source in slicer.sources(at, data):
            if isinstance(source, End):
                more = _END_COST.get(source.kind, 0) + (2 * ASSUMED if source.why is not None else 0)
                if data:
                    more += 8 * ASSUMED  # not the goal
                else:
                    if _excluded(source, _guards(start, at, came)):
                        continue  # ``x if x is not None else y`` does not take its first arm then
                    more += _NONE_COST if operations.is_none(source.at.node) else 0
                heapq.heappush(queue, (cost + more, next(order), at, source))
                continue
            ahead = cost + source.cost + (_TEST_COST if source.tests else 0)
            if ahead < best.get(source.to, 1 << 30):
                best[source.to] = ahead
                came[source.to] = (at, source)
                heapq.heappush(queue, (ahead, next(order), source.to, None))
    points = _points(slicer, start, binds, start, came, data, False)
    return Way(points, None if data else End(EndKind.UNKNOWN, start))


def _reached(slicer: Slicer, at: Demand, goal: Goal) -> bool:
    if not isinstance(at.node, cst.Param) or at.node.name.value != goal.parameter:
        return False
    return slicer.parameters.owner(at.node).scope == goal.scope


def _guards(start: Demand, at: Demand, came: dict[Demand, tuple[Demand, Edge]]) -> frozenset[Unless]:
    """Return what the way to ``at`` is not taken for: it goes through ``x if x is not None else y`` or ``x or y``."""
    found = set()
    while at != start:
        at, edge = came[at]
        found.add(edge.unless)
    return frozenset(found)


def _excluded(end: End, guards: frozenset[Unless]) -> bool:
    if end.kind is not EndKind.LITERAL:
        return False
    none, false = operations.is_none(end.at.node), operations.is_false(end.at.node)
    return (none and Unless.NONE in guards) or (false and Unless.FALSE in guards)


def _points(
    slicer: Slicer,
    start: Demand,
    binds: str,
    last: Demand,
    came: dict[Demand, tuple[Demand, Edge]],
    data: bool,
    whole: bool,
) -> tuple[Point, ...]:
    """The points worth showing, the definition first; what hidden ones assumed counts for the next shown one.
    ``whole``: the way reaches a definition."""
    steps: list[tuple[Demand, Edge]] = []
    at = last
    while at != start:
        before, edge = came[at]
        steps.append((at, edge))
        at = before
    points: list[Point] = []
    why: list[Message] = []
    others: list[Other] = []
    when: list[str] = []
    for at, edge in steps:
        before = came[at][0]
        if not _hidden(before, data) and not _hidden(at, data):
            when += [code for code in conditions(edge) if code not in when]
        if _shown(slicer, at, edge, data, before) or not points:
            points.append(Point(at, edge.kind, edge.binds, tuple(why), tuple(when), tuple(others)))
            why, others, when = [], [], []
        further = [each for each in _others(slicer, before, edge, data, whole) if each not in others]
        others += further
        reason = edge.why
        if reason is None and any(not other.when for other in further):
            reason = say("competing")
        why += [reason] if reason is not None and reason not in why else []
    points.append(Point(start, Kind.START, binds, tuple(why), tuple(when), tuple(others)))
    return tuple(points)


def _shown(slicer: Slicer, at: Demand, edge: Edge, data: bool, before: Demand) -> bool:
    if _hidden(at, data) or _hidden(before, data):
        return False  # inside a function that is looked into only to see which argument goes where
    if edge.kind in (Kind.INNER, Kind.CALL):
        return data and isinstance(at.node, cst.Call) and not operations.is_tensor_method(at.node)
    if isinstance(at.node, cst.Dict) and at.path:
        return False  # its entry has just been told
    return edge.kind is not Kind.PARAMETER or not _is_receiver(slicer, at)


def _hidden(at: Demand, data: bool) -> bool:
    return data and any(not frame.own for frame in at.frames)


def _is_receiver(slicer: Slicer, at: Demand) -> bool:
    return isinstance(at.node, cst.Param) and slicer.parameters.owner(at.node).receiver is at.node


def _others(slicer: Slicer, before: Demand, taken: Edge, data: bool, whole: bool) -> Iterator[Other]:
    if _hidden(before, data):
        return
    for source in slicer.sources(before, data):
        if source.declared and not taken.declared:
            continue  # what its declaration says, where something says what it is
        if isinstance(source, End):
            if not source.known:
                yield Other(source.at, (), source.why)
        elif source != taken and source.to.node is not taken.to.node and not _hidden(source.to, data):
            if data and source.kind not in (Kind.ASSIGNED, Kind.RETURNED, Kind.BRIDGE, Kind.ARGUMENT):
                continue  # a further operand, not a further way
            if whole and not taken.tests and source.rank < taken.rank:
                continue  # overwritten
            if not data and _never(slicer, source):
                continue
            yield Other(source.to, (*_filling(before, source), *conditions(source)), source.why)


def _filling(before: Demand, source: Edge) -> tuple[str, ...]:
    """Return the condition that ``if x is None: x = …`` stands under, for either way to x."""
    if not isinstance(before.node, cst.Name):
        return ()
    name = before.node.value
    return (f"{name} is None",) if source.fills else (f"{name} is not None",) if source.unless is Unless.NONE else ()


def _never(slicer: Slicer, source: Edge) -> bool:
    """Whether a way is never taken: nothing is there to be had, or only what it is not taken for."""
    guards = frozenset({source.unless})
    return all(why is None and _excluded(end, guards) for end, why in slicer.ends(source.to))


def conditions(edge: Edge) -> tuple[str, ...]:
    """Return the conditions of an edge as code: ``x`` where x held, ``not (x)`` where it did not."""
    return tuple(operations.condition(test, holds) for test, holds in edge.tests)
