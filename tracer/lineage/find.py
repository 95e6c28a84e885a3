"""Follow one value of a project's attention from its definition to the kernel: the entry to this package.

Finding a way costs seconds on the largest files (LibCST's scopes), so finished ones are kept in the user's cache under
the hash of everything they follow from. Must not know: how a way is shown.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tracer.errors import Unsupported
from tracer.files import keep_if_possible
from tracer.lineage.definitions import Argument, Definition, Wanted
from tracer.lineage.result import Other, Place, Step, ValuePath, from_json, to_json
from tracer.source.files import SourceFile
from tracer.texts import message

if TYPE_CHECKING:
    import libcst as cst

    from tracer.lineage.demand import Demand
    from tracer.lineage.paths import Way
    from tracer.lineage.slicer import Slicer

_FORMAT = 3  # raise it whenever the analysis or its record changes


@dataclass(eq=False)
class Reader:
    """The files of one version of a project, ready for questions. Parsed at the first one that no cache answers."""

    defined: Definition
    files: Mapping[str, SourceFile]
    cache: Path | None = None
    _slicer: "Slicer | None" = field(default=None, init=False)

    def path(self, value: str) -> ValuePath:
        """Return the way of ``value`` (scale, causal, q, k, v).

        Raises Unsupported where the kernel's call is not found, is found twice, or has no such argument.
        """
        kept = self.cache / f"lineage-{self._key(value)}.json" if self.cache is not None else None
        found = _read(kept, self.files) if kept is not None else None
        if found is None:
            found = self._find(value)
            if kept is not None:
                rows = json.dumps(to_json(found))
                keep_if_possible(kept, f"{hashlib.sha256(rows.encode()).hexdigest()}\n{rows}".encode())
        return found

    @property
    def slicer(self) -> "Slicer":
        """The analysis of these files, made at the first use."""
        if self._slicer is None:
            from tracer.lineage.program import Program
            from tracer.lineage.slicer import Slicer

            self._slicer = Slicer(Program(self.files), frozenset(self.defined.holds), self.defined.within)
            self._build_bridges(self._slicer)
        return self._slicer

    # ---------------------------------------------------------------------------------------------- finding

    def _find(self, value: str) -> ValuePath:
        from tracer.lineage.paths import Goal, way

        argument = self.defined.values[value]
        scope, parameter = self.defined.until
        goal = Goal(scope, argument.until or parameter) if value in ("q", "k", "v") else None
        key, call = self._only(self.defined.calls, "kernel")
        starts = self._starts(argument, key, call)
        ways = [way(self.slicer, start, binds, goal) for start, binds in starts]
        taken = next((each for each in ways if each.complete), ways[-1])
        rest = [start for (start, _), each in zip(starts, ways, strict=True) if each is not taken]
        found = self._record(value, argument, taken, [start for start in rest if self.slicer.ends(start)])
        return self._guarded(found, key, call)

    def _starts(self, argument: Argument, key: str, call: "cst.CSTNode") -> "list[tuple[Demand, str]]":
        """Return the kernel's argument: the keyword, the position, or its part of each dictionary that is opened."""
        from tracer.lineage import operations
        from tracer.lineage.demand import Demand

        module = self.slicer.program.modules[key]
        opened: list[tuple[Demand, str]] = []
        position = 0
        for arg in operations.arguments(call):
            if arg.keyword is not None and arg.keyword.value == argument.name:
                return [(Demand(module, arg.value), f"{argument.name}=")]
            if arg.star == "**":
                opened.append((Demand(module, arg.value, (f"[{argument.name}]",)), f"**[{argument.name}]"))
            elif arg.keyword is None and not arg.star:
                if position == argument.position:
                    return [(Demand(module, arg.value), argument.name)]
                position += 1
        if opened:
            return opened[::-1]
        file = self.files[key]
        raise Unsupported(
            "lineage.no_argument",
            argument=argument.name,
            call=operations.short(module.code(call)),
            file=file.member,
            project=file.project,
            version=file.version,
        )

    def _guarded(self, found: ValuePath, key: str, call: "cst.CSTNode") -> ValuePath:
        """Return ``found`` with the conditions under which the kernel's call is reached, at its last step."""
        from tracer.lineage import operations

        module = self.slicer.program.modules[key]
        guards = [operations.condition(test, holds) for test, holds in module.guards(call)]
        last = found.steps[-1]
        when = tuple(dict.fromkeys((*last.when, *guards)))
        return replace(found, steps=(*found.steps[:-1], replace(last, when=when)))

    def _only(self, wanted: Sequence[Wanted], what: str) -> "tuple[str, cst.CSTNode]":
        """Return the one expression that ``wanted`` (alternatives, one a layout) matches, and its file's key."""
        from tracer.source.patterns import Pattern

        found: list[tuple[str, cst.CSTNode]] = []
        for each in wanted:
            module = self.slicer.program.modules[each.file]
            for scope in each.scopes:
                found += [(each.file, node) for node in module.find(Pattern(each.pattern), scope, each.under)]
        unique = list({id(node): (key, node) for key, node in found}.values())
        if len(unique) == 1:
            return unique[0]
        file = self.files[wanted[0].file]
        lines = [f"  {self._place_text(key, node)}" for key, node in unique]
        raise Unsupported(
            "lineage.not_one",
            what=what,
            count=len(unique),
            scope=", ".join(dict.fromkeys(scope for each in wanted for scope in each.scopes)),
            patterns="\n".join(dict.fromkeys(f"  {each.pattern}" for each in wanted)),
            file=file.member,
            project=file.project,
            version=file.version,
            candidates="\n".join(lines) or "  —",
        )

    def _place_text(self, key: str, node: "cst.CSTNode") -> str:
        module = self.slicer.program.modules[key]
        span = module.span(node)
        return f"{self.files[key].member}:{span.line}:{span.column}  {' '.join(module.code(node).split())[:80]}"

    def _build_bridges(self, slicer: "Slicer") -> None:
        from tracer.lineage.demand import Demand, Edge, Kind

        for bridge in self.defined.bridges:
            _, read = self._only([bridge.read], "bridge")
            key, write = self._only([bridge.write], "bridge")
            to = Demand(slicer.program.modules[key], write)
            path = () if bridge.element is None else (bridge.element,)
            slicer.bridges[read, path] = Edge(to, Kind.BRIDGE, why=message(bridge.because), cost=10)

    # --------------------------------------------------------------------------------------------- recording

    def _record(self, value: str, argument: Argument, found: "Way", rest: "Sequence[Demand]") -> ValuePath:
        """``rest``: further dictionaries that are opened into the call and may hold the argument too."""
        some = next(iter(self.files.values()))
        steps = tuple(
            Step(
                self.place(point.at),
                str(point.kind),
                point.binds,
                point.why,
                point.when,
                tuple(Other(self.place(other.at), other.when, other.why) for other in point.others),
            )
            for point in found.points
        )
        if rest:
            further = tuple(Other(self.place(each), (), None) for each in rest)
            last = replace(steps[-1], others=(*steps[-1].others, *further))
            steps = (*steps[:-1], replace(last, why=(*last.why, message("lineage.competing"))))
        end = found.end
        open_end = None
        if end is not None and not end.known:
            open_end = end.why or message("lineage.unbound", code=self.place(end.at).code)
        return ValuePath(some.project, some.version, value, argument.name, steps, open_end)

    def place(self, at: "Demand") -> Place:
        """Return where an expression of these files stands."""
        span = at.module.span_of(at.node)
        return Place(at.module.key, span, at.module.scope_at(span), at.module.file.text.code(span))

    def _key(self, value: str) -> str:
        parts = [str(_FORMAT), value, self.defined.digest]
        parts += [f"{key}:{file.version}:{file.member}:{file.sha256}" for key, file in sorted(self.files.items())]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _read(kept: Path, files: Mapping[str, SourceFile]) -> ValuePath | None:
    try:
        digest, rows = kept.read_text(encoding="utf-8").split("\n", 1)
        if hashlib.sha256(rows.encode()).hexdigest() != digest:
            return None
        found = from_json(json.loads(rows))
        whole = all(files[step.place.file].text.code(step.place.span) == step.place.code for step in found.steps)
    except (OSError, ValueError, TypeError, KeyError, IndexError):
        return None  # absent or damaged: it is made anew from the source
    return found if whole else None
