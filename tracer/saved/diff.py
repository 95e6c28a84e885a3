"""What differs between two traced layers: versions, checkpoint, prompt, request, source, scale, kernel, tensors.

Must not know: how it is shown.
"""

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import zip_longest

from tracer.arrays import Array
from tracer.order import in_order
from tracer.records import LayerTrace, Lineage, Site, Token
from tracer.saved.axes import tokens_first
from tracer.saved.numbers import Status, TensorDiff, compare

PROMPT = "prompt"
_Tensor = tuple[Array, tuple[str, ...]]  # and what its axes are


@dataclass(frozen=True)
class Change:
    """Something that differs, by name; None where one of the two has none."""

    name: str
    a: object
    b: object


@dataclass(frozen=True)
class PromptDiff:
    """Two prompts. ``first`` is the first position whose tokens differ or that only one prompt has, None if none;
    ``a`` and ``b`` are the tokens there, None where a prompt has ended."""

    length_a: int
    length_b: int
    first: int | None
    a: Token | None
    b: Token | None

    @property
    def same(self) -> bool:
        """Whether the token ids are the same."""
        return self.first is None


@dataclass(frozen=True)
class SourceFile:
    """A source file by its content."""

    project: str
    version: str
    sha256: str


@dataclass(frozen=True)
class SourceDiff:
    """A file that differs, or that only one trace shows places in (None for the other)."""

    path: str
    a: SourceFile | None
    b: SourceFile | None


@dataclass(frozen=True)
class PlaceDiff:
    """A step that is written elsewhere or otherwise; None where one trace has no such step."""

    name: str
    a: Site | None
    b: Site | None

    @property
    def moved(self) -> bool:
        """Whether the place differs: file, line or column."""
        return self.a is None or self.b is None or (self.a.path, self.a.span) != (self.b.path, self.b.span)

    @property
    def rewritten(self) -> bool:
        """Whether what is written there differs otherwise than in layout, or the function it stands in."""
        if self.a is None or self.b is None or self.a.scope != self.b.scope:
            return True
        return self.a.code != self.b.code and _meaning(self.a.code) != _meaning(self.b.code)


def _meaning(code: str) -> str:
    """Return what an expression says, whatever its layout."""
    try:
        return ast.dump(ast.parse(f"({code}\n)", mode="eval"))
    except (SyntaxError, ValueError):  # a piece of an expression
        return " ".join(code.split())


@dataclass(frozen=True)
class LineageDiff:
    """A value's way to the kernel in two traces."""

    a: Lineage
    b: Lineage

    @property
    def same(self) -> bool:
        """Whether the value, its defining expression, and name and value at each hop agree."""
        return _steps(self.a) == _steps(self.b)


@dataclass(frozen=True)
class Diff:
    """What differs between two traces; every part is empty, or says so itself, where nothing does. ``tensors`` holds
    all of them, in the order the steps run. Of the queries only those are compared that both have: where one trace has
    some tokens cached, those behind the first ``cached``. Where two code bases lay a step out differently, both are
    compared with their tokens first and without a batch axis.
    """

    request: tuple[Change, ...]
    versions: tuple[Change, ...]
    checkpoint: tuple[Change, ...]
    model: tuple[Change, ...]
    prompt: PromptDiff
    sources: tuple[SourceDiff, ...]
    places: tuple[PlaceDiff, ...]
    scale: LineageDiff
    causal: LineageDiff
    kernel: tuple[Change, ...]
    effects: tuple[Change, ...]
    tensors: tuple[TensorDiff, ...]
    cached: int = 0

    @property
    def first(self) -> str | None:
        """The first step at which the two part: ``prompt``, a tensor's name, or None where they never do. A tensor
        that only one of them has parts nothing."""
        if not self.prompt.same:
            return PROMPT
        parted = (tensor.name for tensor in self.tensors if tensor.status in (Status.DIFFERS, Status.SHAPE))
        return next(parted, None)

    @property
    def same_tensors(self) -> bool:
        """Whether both have the same tensors, and each has the same bits."""
        return all(tensor.status is Status.SAME for tensor in self.tensors)

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        changes = (self.request, self.versions, self.checkpoint, self.model, self.kernel, self.effects)
        same_values = self.scale.same and self.causal.same and self.prompt.same and self.same_tensors
        return same_values and not any((*changes, self.sources, self.places))


def diff(a: LayerTrace, b: LayerTrace) -> Diff:
    """Return what differs between the traces ``a`` and ``b``."""
    places_a, places_b = _places(a), _places(b)
    cached = max(a.cached, b.cached)
    tensors_a, tensors_b = _tensors(a, cached), _tensors(b, cached)
    names = in_order(dict.fromkeys((*tensors_a, *tensors_b)))
    return Diff(
        request=_changes(_request(a), _request(b)),
        versions=_changes(a.versions, b.versions),
        checkpoint=_changes(_fields(a.checkpoint), _fields(b.checkpoint)),
        model=_changes(_fields(a.model), _fields(b.model)),
        prompt=_prompt(a.tokens, b.tokens),
        sources=_sources(places_a.values(), places_b.values()),
        places=_moved(places_a, places_b),
        scale=LineageDiff(a.scale, b.scale),
        causal=LineageDiff(a.causal, b.causal),
        kernel=_changes(_kernel(a), _kernel(b)),
        effects=_changes(_effects(a), _effects(b)),
        tensors=tuple(_compared(name, tensors_a.get(name), tensors_b.get(name)) for name in names),
        cached=cached if a.cached != b.cached else 0,
    )


def _changes(a: Mapping[str, object], b: Mapping[str, object]) -> tuple[Change, ...]:
    names = dict.fromkeys((*a, *b))
    return tuple(Change(name, a.get(name), b.get(name)) for name in names if not _equal(a.get(name), b.get(name)))


def _equal(a: object, b: object) -> bool:
    """Return whether two values are equal; a NaN equals itself, 1 is not True, a list equals the same tuple."""
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (a != a and b != b)
    return isinstance(a, bool) == isinstance(b, bool) and a == b


def _fields(record: object) -> dict[str, object]:
    return {field.name: getattr(record, field.name) for field in fields(record)}  # type: ignore[arg-type]


def _request(trace: LayerTrace) -> dict[str, object]:
    asked = trace.request
    choices = {name: getattr(asked, name).value for name in ("engine", "kernel", "device", "dtype")}
    return {"layer": asked.layer, "head": asked.head, "query": asked.query, **choices}


def _kernel(trace: LayerTrace) -> dict[str, object]:
    arguments = {f"arguments.{name}": value for name, value in trace.kernel.arguments.items()}
    return {"function": trace.kernel.function, "provider": trace.kernel.provider, **arguments}


def _effects(trace: LayerTrace) -> dict[str, object]:
    tried = trace.effects.changed
    leaks = [t for t, earlier, _ in tried if earlier is not None]
    return {
        "untraced_same": trace.effects.untraced_same,
        "positions changed": ", ".join(str(t) for t, _, _ in tried),
        "positions that moved an earlier row": ", ".join(map(str, leaks)) or "none",
    }


def _prompt(a: tuple[Token, ...], b: tuple[Token, ...]) -> PromptDiff:
    pairs = list(zip_longest(a, b))
    first = next((place for place, (x, y) in enumerate(pairs) if x is None or y is None or x.id != y.id), None)
    at = (None, None) if first is None else pairs[first]
    return PromptDiff(len(a), len(b), first, *at)


def _places(trace: LayerTrace) -> dict[str, Site]:
    """Return every place of a trace by the name of its step, in the order of the trace."""
    found = {name: capture.site for name, capture in trace.captures.items()}
    found["kernel"] = trace.kernel.site
    for value, lineage in (("scale", trace.scale), ("causal", trace.causal)):
        found.update({f"{value}[{index}]": hop.site for index, hop in enumerate(lineage.hops)})
    return found


def _sources(a: Iterable[Site], b: Iterable[Site]) -> tuple[SourceDiff, ...]:
    files_a, files_b = ({site.path: _file(site) for site in sites} for sites in (a, b))
    found = []
    for path in dict.fromkeys((*files_a, *files_b)):
        one, other = files_a.get(path), files_b.get(path)
        if one is None or other is None or one.sha256 != other.sha256:
            found.append(SourceDiff(path, one, other))
    return tuple(found)


def _file(site: Site) -> SourceFile:
    return SourceFile(site.project, site.version, site.sha256)


def _moved(a: Mapping[str, Site], b: Mapping[str, Site]) -> tuple[PlaceDiff, ...]:
    pairs = (PlaceDiff(name, a.get(name), b.get(name)) for name in dict.fromkeys((*a, *b)))
    return tuple(pair for pair in pairs if pair.moved or pair.rewritten)


def _steps(lineage: Lineage) -> tuple[object, ...]:
    hops = tuple((hop.binds, hop.linked, hop.seen, hop.value, hop.same_object) for hop in lineage.hops)
    return (lineage.value, type(lineage.value), lineage.expression, hops)


def _tensors(trace: LayerTrace, cached: int) -> dict[str, _Tensor]:
    """Return every tensor with its axes; of queries only those behind ``cached`` tokens."""
    found: dict[str, _Tensor] = {name: (one.array, one.axes) for name, one in trace.captures.items()}
    found["output"] = (trace.kernel.output, ("T", "H", "D"))
    if trace.kernel.lse is not None:
        found["lse"] = (trace.kernel.lse, ("H", "T"))
    rows = slice(cached - trace.cached, None)
    return found if rows.start == 0 else {name: _behind(name, *one, rows) for name, one in found.items()}


def _behind(name: str, array: Array, axes: tuple[str, ...], rows: slice) -> _Tensor:
    if name in ("k", "v"):
        return array, axes  # of all tokens on both sides
    return array[tuple(rows if axis in ("T", "Tq") else slice(None) for axis in axes)], axes


def _compared(name: str, a: _Tensor | None, b: _Tensor | None) -> TensorDiff:
    if a is not None and b is not None and a[1] != b[1]:
        return compare(name, tokens_first(*a, name), tokens_first(*b, name))
    return compare(name, None if a is None else a[0], None if b is None else b[0])
