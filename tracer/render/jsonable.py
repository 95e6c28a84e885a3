"""The small parts that JSON outputs share: numbers, places, sentences, statistics.

Must not know: which output they stand in.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracer.maths.stats import Stats
from tracer.portable import portable
from tracer.records import Choice, Hop, Lineage, Site, Token
from tracer.texts import Message


def number(value: float | None) -> float | None:
    """Return ``value`` as a float, None where it is none or not finite: JSON has no NaN and no infinity."""
    return float(value) if value is not None and math.isfinite(value) else None


def numbers(values: NDArray[Any]) -> list[Any]:
    """Return an array as nested lists of floats, None where a number is not finite."""
    exact = values.astype(np.float64)
    if np.isfinite(exact).all():
        found: list[Any] = exact.tolist()
        return found
    held = exact.astype(object)
    held[~np.isfinite(exact)] = None
    filled: list[Any] = held.tolist()
    return filled


def sentence(source: Message, language: str) -> str:
    """Return the sentence in ``language`` without any path of this machine."""
    return portable(source).text(language)


def site(place: Site) -> dict[str, Any]:
    """Return a place: what file it is in, where, what stands there, and the link upstream."""
    return {
        "project": place.project,
        "version": place.version,
        "path": place.path,
        "line": place.span.line,
        "column": place.span.column,
        "end_line": place.span.end_line,
        "end_column": place.span.end_column,
        "scope": place.scope,
        "code": place.code,
        "sha256": place.sha256,
        "pinned": place.pinned,
        "permalink": place.permalink,
        "link_kind": place.link_kind,
    }


def hop(step: Hop) -> dict[str, Any]:
    """Return one step of a value's path: its place, the name it binds, and what was seen there at run time."""
    return {
        **site(step.site),
        "binds": step.binds,
        "linked": step.linked,
        "seen": step.seen,
        "value": flag_or_number(step.value),
        "same_object": step.same_object,
    }


def hops(lineage: Lineage) -> list[dict[str, Any]]:
    """Return the steps of a value's path from its definition to the kernel."""
    return [hop(step) for step in lineage.hops]


def flag_or_number(value: float | bool | None) -> float | bool | None:
    """Return True, False or None as they are, a number as in ``number``."""
    return value if isinstance(value, bool) else number(value)


def choice(chosen: Choice, language: str) -> dict[str, Any]:
    """Return a chosen value and why it was chosen."""
    return {"value": chosen.value, "reason": sentence(chosen.reason, language)}


def token(one: Token) -> dict[str, Any]:
    """Return a token: its id, its text (None where its bytes alone are no text), its bytes in hexadecimal."""
    return {"id": one.id, "text": one.text, "bytes": one.bytes.hex()}


def stats(found: Stats) -> dict[str, Any]:
    """Return statistics, without the count: the shape tells it."""
    return {
        "min": found.min,
        "max": found.max,
        "mean": found.mean,
        "std": found.std,
        "rms": found.rms,
        "nonfinite": found.nonfinite,
    }


def loose(value: object) -> Any:
    """Return a loose value (an argument of a call, a setting) as JSON; what JSON cannot hold stands as text."""
    if isinstance(value, Mapping):
        return {str(name): loose(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [loose(item) for item in value]
    if isinstance(value, float):
        return number(value)
    return value if value is None or isinstance(value, bool | int | str) else str(value)
