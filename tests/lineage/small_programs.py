"""Small programs to follow a value in: given as text, never imported or run."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

from tracer.lineage.definitions import Argument, Bridge, Definition, Wanted
from tracer.lineage.find import Reader
from tracer.lineage.result import Step, ValuePath
from tracer.source.files import SourceFile


def file(member: str, source: str) -> SourceFile:
    text = dedent(source).lstrip("\n")
    return SourceFile("small", "1", member, Path("/nowhere") / member, text, hashlib.sha256(text.encode()).hexdigest())


def reader(
    sources: Mapping[str, str],
    scope: str,
    *,
    pattern: str = "kernel(...)",
    argument: str = "scale",
    position: int | None = None,
    until: tuple[str, str] = ("Layer.forward", "x"),
    holds: Mapping[str, str] | None = None,
    bridges: tuple[Bridge, ...] = (),
    within: frozenset[str] = frozenset(),
    cache: Path | None = None,
) -> Reader:
    """A reader of ``sources`` (module name → text) whose kernel is called in ``scope`` of the last one."""
    files = {name: file(f"{name.replace('.', '/')}.py", source) for name, source in sources.items()}
    wanted = Wanted(list(files)[-1], (scope,), pattern, None)
    given = Argument(argument, position, None)
    values = dict.fromkeys(("scale", "causal", "q", "k", "v"), given)
    return Reader(
        Definition("small", {}, until, (wanted,), values, holds or {}, bridges, within, {}, "0"), files, cache
    )


def follow(source: str, scope: str = "run", **given: object) -> ValuePath:
    """The way of ``scale`` to ``kernel(scale=…)`` in ``scope`` of one file."""
    return reader({"pkg.one": source}, scope, **given).path("scale")  # type: ignore[arg-type]


def tensor(source: str, scope: str = "Layer.forward", **given: object) -> ValuePath:
    """The way of the tensor ``q`` to ``kernel(q)`` in ``scope``, from ``Layer.forward``'s ``x``."""
    return reader({"pkg.one": source}, scope, argument="q", position=0, **given).path("q")  # type: ignore[arg-type]


def codes(path: ValuePath) -> list[str]:
    return [" ".join(step.place.code.split()) for step in path.steps]


def assumed(path: ValuePath) -> list[tuple[str, str]]:
    """The steps whose link is not proven: what stands there and the name of the reason."""
    return [(step.place.code, why.id.removeprefix("lineage.")) for step in path.steps for why in step.why]


def kinds(path: ValuePath) -> list[str]:
    return [step.kind for step in path.steps]


def step(path: ValuePath, code: str) -> Step:
    (found,) = [each for each in path.steps if " ".join(each.place.code.split()) == code]
    return found
