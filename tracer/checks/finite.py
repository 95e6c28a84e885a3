"""Which of q, k, v hold numbers that are not finite, in which heads, and at which step these first appear.

Must not know: checks, how numbers are shown.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracer.arrays import Array
from tracer.checks.outcome import say
from tracer.names import spans
from tracer.records import Capture, LayerTrace
from tracer.texts import Message

_ROWS = 1024
# How each of q, k, v came about. An engine leaves out what it does not have.
_WAY = ("hidden", "{0}_proj", "{0}_norm", "cos", "sin", "{0}_rope", "{0}")
_MIXED = ("merged", "o_proj")


@dataclass(frozen=True)
class Spoilt:
    """A tensor with numbers that are not finite: in which heads (none where it has none), and the first step that
    gave such numbers."""

    tensor: str
    heads: tuple[int, ...]
    first: Capture

    @property
    def where(self) -> Message:
        """The tensor and its heads, in words."""
        if not self.heads:
            return say("spoilt_mixed")
        kind = "heads" if self.tensor == "q" else "kv_heads"
        return say(
            f"spoilt_{kind}" if len(self.heads) > 1 else f"spoilt_{kind}_one",
            tensor=self.tensor,
            heads=spans(self.heads),
        )


def warnings(trace: LayerTrace) -> tuple[Message, ...]:
    """Return one sentence for each step at which numbers that are not finite first appear; most often none."""
    return tuple(
        say("not_finite_warning", where=_listed(group), first=group[0].first.name, place=group[0].first.site.place)
        for group in _by_step(spoilt(trace))
    )


def because(trace: LayerTrace, head: int) -> Message:
    """Return why query head ``head`` has no row to compare: its q, k or v are not finite, or its scores are beyond
    float64."""
    found = list(_by_step(spoilt(trace, head)))
    if not found:
        return say("beyond_float64")
    group = found[0]
    return say("not_finite", where=_listed(group), first=group[0].first.name, place=group[0].first.site.place)


def through_hidden(trace: LayerTrace, head: int, rows: int, of: int, tokens: Sequence[int]) -> Message:
    """Return why ``rows`` of ``of`` rows of query head ``head`` cannot be tested: k or v is not finite at ``tokens``,
    which those rows may not see. Without any such token it is another head's that the module was run with."""
    found = [each for each in spoilt(trace, head if tokens else None) if each.tensor in ("k", "v")]
    if not found:
        return because(trace, head)
    group = list(_by_step(found))[-1]  # v comes last: what it holds reaches every row through any kernel
    told = {"where": _listed(group), "first": group[0].first.name, "place": group[0].first.site.place}
    if not tokens:
        return say("through_hidden_elsewhere", **told)
    kind = "through_hidden" if len(tokens) > 1 else "through_hidden_one"
    return say(kind, rows=rows, of=of, tokens=spans(tokens), **told)


def spoilt(trace: LayerTrace, head: int | None = None) -> tuple[Spoilt, ...]:
    """Return what of q, k, v is not finite, for one query head and its key/value head or for all; where nothing is and
    the kernel's output is finite too, o_proj's output if that is not."""
    found = []
    for tensor in ("q", "k", "v"):
        asked = None if head is None else head if tensor == "q" else trace.model.kv_head(head)
        lost = _lost_heads(trace.captures[tensor].array)
        heads = tuple(place for place in np.flatnonzero(lost).tolist() if asked in (None, place))
        if heads:
            found.append(Spoilt(tensor, heads, _first(trace, [name.format(tensor) for name in _WAY], heads[0])))
    if not found and head is None and _mixing_spoils(trace):
        found.append(Spoilt("o_proj", (), _first(trace, _MIXED, 0)))
    return tuple(found)


def _mixing_spoils(trace: LayerTrace) -> bool:
    mixed = trace.captures.get("o_proj")
    return mixed is not None and not _finite(mixed.array) and _finite(trace.kernel.output)


def _first(trace: LayerTrace, names: Sequence[str], head: int) -> Capture:
    """Return the first of the captures ``names`` that is not finite in what belongs to ``head``; the last is not."""
    on_the_way = [trace.captures[name] for name in names if name in trace.captures]
    return next((each for each in on_the_way[:-1] if not _finite(_part(each, head, trace))), on_the_way[-1])


def _part(capture: Capture, head: int, trace: LayerTrace) -> Array:
    """Return what of ``capture`` belongs to ``head``: all of it where heads are no axis."""
    for axis, name in enumerate(capture.axes):
        if name in ("H", "K"):
            return capture.array[(slice(None),) * axis + (head,)]
        if name in ("H·D", "K·D"):
            width = trace.model.head_dim
            return capture.array[(slice(None),) * axis + (slice(head * width, (head + 1) * width),)]
    return capture.array


def _finite(array: Array) -> bool:
    flat = Array(array.dtype, array.bits.reshape(-1))
    step = _ROWS * _ROWS
    return all(bool(np.isfinite(flat[at : at + step].numbers()).all()) for at in range(0, flat.shape[0], step))


def _lost_heads(array: Array) -> NDArray[np.bool_]:
    """Return which heads of an array [T, heads, D] hold a number that is not finite."""
    lost = np.zeros(array.shape[1], dtype=np.bool_)
    for start in range(0, array.shape[0], _ROWS):
        lost |= ~np.isfinite(array[start : start + _ROWS].numbers()).all(axis=(0, 2))
    return lost


def _by_step(found: Iterable[Spoilt]) -> Iterable[list[Spoilt]]:
    groups: dict[str, list[Spoilt]] = {}
    for each in found:
        groups.setdefault(each.first.name, []).append(each)
    return groups.values()


def _listed(group: Sequence[Spoilt]) -> Message:
    told = group[0].where
    for each in group[1:]:
        told = say("spoilt_and", before=told, more=each.where)
    return told
