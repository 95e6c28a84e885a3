"""What ``annotations/lineage/<project>.toml`` says: where a project calls its kernel, what may be taken for granted.

Must not know: how values are followed.
"""

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from tracer import data


@dataclass(frozen=True)
class Wanted:
    """An expression by structure: in one of ``scopes`` of a file; ``under`` names what an enclosing if asks for."""

    file: str
    scopes: tuple[str, ...]
    pattern: str
    under: str | None


@dataclass(frozen=True)
class Argument:
    """A value as an argument of the kernel's call: keyword, position, and the parameter a tensor comes from."""

    name: str
    position: int | None
    until: str | None


@dataclass(frozen=True)
class Bridge:
    """A value that goes through memory: ``write`` there, element ``element`` of ``read`` here. ``because``: a text."""

    read: Wanted
    element: int | None
    write: Wanted
    because: str


@dataclass(frozen=True)
class Definition:
    """All that is given about one project. ``holds`` maps conditions, as code, to the text that says why they
    hold; ``within`` names the classes and functions whose calls are looked at (empty: all); ``origins`` are the
    expressions that values are known to be made by, for a check of the analysis and never for its answer."""

    project: str
    files: Mapping[str, str]
    until: tuple[str, str]
    calls: tuple[Wanted, ...]
    values: Mapping[str, Argument]
    holds: Mapping[str, str]
    bridges: tuple[Bridge, ...]
    within: frozenset[str]
    origins: Mapping[str, str]
    digest: str


def projects() -> tuple[str, ...]:
    """Return the projects that a value can be followed in, sorted."""
    return tuple(sorted(file.stem for file in (data.annotations() / "lineage").glob("*.toml")))


@cache
def definition(project: str) -> Definition:
    """Return what is given about ``project``."""
    content = (data.annotations() / "lineage" / f"{project}.toml").read_bytes()
    raw = tomllib.loads(content.decode("utf-8"))
    return Definition(
        project=raw["project"],
        files=raw["files"],
        until=(raw["until"]["scope"], raw["until"]["parameter"]),
        calls=tuple(_wanted(each) for each in raw["calls"]),
        values={
            name: Argument(each["argument"], each.get("position"), each.get("until"))
            for name, each in raw["values"].items()
        },
        holds={each["code"]: each["because"] for each in raw.get("holds", ())},
        bridges=tuple(
            Bridge(_wanted(each["read"]), each.get("element"), _wanted(each["write"]), each["because"])
            for each in raw.get("bridges", ())
        ),
        within=frozenset(raw.get("within", ())),
        origins={name: each["origin"] for name, each in raw["values"].items() if "origin" in each},
        digest=hashlib.sha256(content).hexdigest(),
    )


def _wanted(raw: Mapping[str, Any]) -> Wanted:
    scope = raw["scope"]
    return Wanted(raw["file"], (scope,) if isinstance(scope, str) else tuple(scope), raw["pattern"], raw.get("under"))
