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
from tracer.lineage.demand import ASSUMED, Demand, Edge, End, EndKind, Kind
from tracer.lineage.slicer import Slicer
from tracer.texts import Message

_MOST = 6000  # questions asked in one search
_END_COST = {EndKind.INPUT: 3 * ASSUMED, EndKind.EXTERNAL: 5 * ASSUMED, EndKind.UNKNOWN: 6 * ASSUMED}
_NONE_COST = ASSUMED
_TEST_COST = 50  # more than an assumption: what always runs comes before what runs sometimes


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
            return Way(_points(slicer, start, binds, at, came, data), end)
        if cost > best[at]:
            continue
        for source in slicer.sources(at, data):
            if isinstance(source, End):
                more = _END_COST.get(source.kind, 0) + (2 * ASSUMED if source.why is not None else 0)
                if data:
                    more += 8 * ASSUMED  # not the goal
                elif operations.is_none(source.at.node):
                    if _guarded(start, at, came):
                        continue  # ``x if x is not None else y`` does not take its first arm then
                    more += _NONE_COST
                heapq.heappush(queue, (cost + more, next(order), at, source))
                continue
            ahead = cost + source.cost + (_TEST_COST if source.tests else 0)
            if ahead < best.get(source.to, 1 << 30):
                best[source.to] = ahead
                came[source.to] = (at, source)
                heapq.heappush(queue, (ahead, next(order), source.to, None))
    return Way(_points(slicer, start, binds, start, came, data), None if data else End(EndKind.UNKNOWN, start))


def _reached(slicer: Slicer, at: Demand, goal: Goal) -> bool:
    if not isinstance(at.node, cst.Param) or at.node.name.value != goal.parameter:
        return False
    return slicer.parameters.owner(at.node).scope == goal.scope


def _guarded(start: Demand, at: Demand, came: dict[Demand, tuple[Demand, Edge]]) -> bool:
    """Whether the way to ``at`` goes through the arm of a choice that is taken only where the value is not None."""
    while at != start:
        at, edge = came[at]
        if edge.unless_none:
            return True
    return False


def _points(
    slicer: Slicer, start: Demand, binds: str, last: Demand, came: dict[Demand, tuple[Demand, Edge]], data: bool
) -> tuple[Point, ...]:
    """The points worth showing, the definition first; what hidden ones assumed counts for the next shown one."""
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
        why += [edge.why] if edge.why is not None and edge.why not in why else []
        others += _others(slicer, before, edge, data)
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


def _others(slicer: Slicer, before: Demand, taken: Edge, data: bool) -> Iterator[Other]:
    if _hidden(before, data):
        return
    for source in slicer.sources(before, data):
        if isinstance(source, End):
            if not source.known:
                yield Other(source.at, (), source.why)
        elif source != taken and source.to.node is not taken.to.node and not _hidden(source.to, data):
            if data and source.kind not in (Kind.ASSIGNED, Kind.RETURNED, Kind.BRIDGE):
                continue  # a further operand, not a further way
            yield Other(source.to, conditions(source), source.why)


def conditions(edge: Edge) -> tuple[str, ...]:
    """Return the conditions of an edge as code: ``x`` where x held, ``not (x)`` where it did not."""
    return tuple(operations.condition(test, holds) for test, holds in edge.tests)
