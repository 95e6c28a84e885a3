"""Which hops of a value's path the source itself proves to be joined, for a path given as named expressions (anchors).

A hop is joined to the one before it when a backward slice from its expression reaches that one without assuming
anything. Where a function is looked up while the program runs, the source does not say which one it is; such a hop is
not called joined, and identity at run time has to prove it. Must not know: run-time values.
"""

import hashlib
import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from tracer.files import keep_if_possible
from tracer.source.anchors import Anchor, PathStep, Table

if TYPE_CHECKING:
    from tracer.lineage.demand import Demand
    from tracer.lineage.slicer import Slicer

_FORMAT = 3  # raise it whenever the analysis changes
_MOST = 3000  # questions asked for one hop

_known: dict[str, tuple[bool, ...]] = {}  # by what everything follows from: one process asks for the same path often


@dataclass(frozen=True)
class StaticHop:
    """One hop as the source shows it. ``linked``: the source proves that it reads what the hop before it bound."""

    anchor: Anchor
    binds: str
    linked: bool


def path(table: Table, steps: Sequence[PathStep]) -> tuple[StaticHop, ...]:
    """Return the hops of ``steps``; the first, the definition, is linked to nothing and counts as linked."""
    key = _key(table, steps)
    if key not in _known:
        kept = _kept(table.cache, key, len(steps))
        _known[key] = kept or _joined(table, steps)
        if kept is None:
            _keep(table.cache, key, _known[key])
    anchors = [table.anchors[step.anchor] for step in steps]
    return tuple(
        StaticHop(anchor, step.binds, linked) for anchor, step, linked in zip(anchors, steps, _known[key], strict=True)
    )


def _joined(table: Table, steps: Sequence[PathStep]) -> tuple[bool, ...]:
    if len(steps) < 2:
        return (True,) * len(steps)
    from tracer.lineage.program import Program  # LibCST: not loaded where the answer is kept
    from tracer.lineage.slicer import Slicer

    slicer = Slicer(Program(table.files))
    asked = [_demand(slicer, table.anchors[step.anchor], step.binds) for step in steps]
    return (True, *(_reaches(slicer, after, before) for before, after in pairwise(asked)))


def _demand(slicer: "Slicer", anchor: Anchor, binds: str) -> "Demand":
    """Return the question for an anchor: its expression, or the entry that an opened dictionary hands on."""
    from tracer.lineage.demand import Demand

    module = slicer.program.modules[anchor.file]
    node = module.node_at(anchor.span)
    return Demand(module, node, (f"[{binds.removesuffix('=')}]",) if module.is_opened(node) else ())


def _reaches(slicer: "Slicer", start: "Demand", goal: "Demand") -> bool:
    """Return whether ``start`` takes its value from ``goal`` by proven steps; through operations, too."""
    seen = {start}
    queue = deque([start])
    while queue and len(seen) < _MOST:
        at = queue.popleft()
        if at.node is goal.node:
            return True
        for source in slicer.sources(at, data=True):
            onward = getattr(source, "to", None)
            if onward is not None and source.why is None and onward not in seen:
                seen.add(onward)
                queue.append(onward)
    return False


def _key(table: Table, steps: Sequence[PathStep]) -> str:
    files = [f"{key}:{file.member}:{file.sha256}" for key, file in sorted(table.files.items())]
    hops = [f"{step.anchor}:{step.binds}:{table.anchors[step.anchor].span}" for step in steps]
    return hashlib.sha256("\n".join([str(_FORMAT), *files, *hops]).encode()).hexdigest()


def _kept(cache: Path | None, key: str, count: int) -> tuple[bool, ...] | None:
    if cache is None:
        return None
    try:
        digest, row = (cache / f"hops-{key}.json").read_text(encoding="utf-8").split("\n", 1)
        linked = json.loads(row)
    except (OSError, ValueError):
        return None  # absent or damaged: it is found anew
    whole = isinstance(linked, list) and len(linked) == count and all(isinstance(each, bool) for each in linked)
    return tuple(linked) if whole and hashlib.sha256(row.encode()).hexdigest() == digest else None


def _keep(cache: Path | None, key: str, linked: tuple[bool, ...]) -> None:
    if cache is not None:
        row = json.dumps(linked)
        keep_if_possible(cache / f"hops-{key}.json", f"{hashlib.sha256(row.encode()).hexdigest()}\n{row}".encode())
