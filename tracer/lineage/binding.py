"""Which argument of a call fills a parameter: positional, by keyword, out of ``*`` and ``**``, or the default.

Must not know: what the arguments are worth.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from tracer.lineage.flow import ANY, Key
from tracer.lineage.parts import Function


@dataclass(frozen=True)
class Filled:
    """An expression that fills a parameter: the argument, or the part ``path`` of an opened ``*x`` or ``**x``."""

    node: cst.BaseExpression
    binds: str
    path: tuple[Key, ...] = ()
    opened: bool = False


def fill(function: Function, name: str, args: Sequence[cst.Arg], bound: bool, rest: tuple[Key, ...]) -> list[Filled]:
    """Return what ``args`` may give the parameter ``name``; an explicit one alone, else all opened ones.

    ``rest`` is the part of the parameter that is asked for: for ``**kwargs`` its first key is a keyword, for ``*args``
    a position. The Filled path then holds what is left of it to ask.
    """
    params = function.node.params
    positional = [p.name.value for p in (*params.posonly_params, *params.params)]
    if bound and positional:
        positional = positional[1:]
    if params.star_kwarg is not None and params.star_kwarg.name.value == name:
        return _keywords(function, args, rest)
    if isinstance(params.star_arg, cst.Param) and params.star_arg.name.value == name:
        return _surplus(args, len(positional), rest)
    position = positional.index(name) if name in positional else None
    opened: list[Filled] = []
    seen = 0
    for arg in args:
        if arg.keyword is not None:
            if arg.keyword.value == name:
                return [Filled(arg.value, f"{name}=", rest)]
        elif arg.star == "**":
            opened.append(Filled(arg.value, "**", (f"[{name}]", *rest), opened=True))
        elif arg.star == "*":
            if position is not None and position >= seen:
                opened.append(Filled(arg.value, "*", (position - seen, *rest), opened=True))
            seen = len(positional)
        else:
            if position == seen:
                return [Filled(arg.value, name, rest)]
            seen += 1
    return opened


def accepts(function: Function, args: Sequence[cst.Arg], bound: bool) -> bool:
    """Return whether a call with ``args`` can be a call of ``function``: no argument too many, none missing."""
    params = function.node.params
    positional = [*params.posonly_params, *params.params][1 if bound else 0 :]
    names = {p.name.value for p in (*positional, *params.kwonly_params)}
    given, opened, count = set(), False, 0
    for arg in args:
        if arg.star:
            opened = True
        elif arg.keyword is not None:
            given.add(arg.keyword.value)
        else:
            count += 1
    if params.star_kwarg is None and given - names:
        return False
    if not isinstance(params.star_arg, cst.Param) and count > len(positional):
        return False
    given |= {p.name.value for p in positional[:count]}
    needed = {p.name.value for p in (*positional, *params.kwonly_params) if p.default is None}
    return opened or not needed - given


def likeness(function: Function, args: Sequence[cst.Arg], bound: bool) -> float:
    """Return how much the arguments look meant for ``function``, 0 to 1: the share that bears its parameter's name."""
    params = function.node.params
    positional = [p.name.value for p in (*params.posonly_params, *params.params)][1 if bound else 0 :]
    every = {p.name.value for p in (*params.posonly_params, *params.params, *params.kwonly_params)}
    plain = [arg for arg in args if not arg.star]
    same, position = 0.0, 0
    for arg in plain:
        if arg.keyword is not None:
            same += arg.keyword.value in every
            continue
        name = positional[position] if position < len(positional) else ""
        position += 1
        if isinstance(arg.value, cst.Name) and name:
            if arg.value.value == name:
                same += 1
            elif arg.value.value.startswith(f"{name}_"):
                same += 0.5
    return same / len(plain) if plain else 0.0


def _keywords(function: Function, args: Sequence[cst.Arg], rest: tuple[Key, ...]) -> list[Filled]:
    if not rest or not isinstance(rest[0], str) or not rest[0].startswith("["):
        return []
    wanted = rest[0][1:-1]
    opened = []
    for arg in args:
        if arg.keyword is not None and arg.keyword.value == wanted:
            return [Filled(arg.value, f"{wanted}=", rest[1:])]
        if arg.star == "**":
            opened.append(Filled(arg.value, "**", rest, opened=True))
    return opened


def _surplus(args: Sequence[cst.Arg], taken: int, rest: tuple[Key, ...]) -> list[Filled]:
    plain = [arg for arg in args if arg.keyword is None and arg.star != "**"]
    index = rest[0] if rest else None
    found = []
    for position, arg in enumerate(plain):
        if arg.star == "*":
            key: Key = index - (position - taken) if isinstance(index, int) and index >= position - taken else ANY
            found.append(Filled(arg.value, "*", (key, *rest[1:]), opened=True))
        elif isinstance(index, int) and position - taken == index:
            return [Filled(arg.value, f"*[{index}]", rest[1:])]
    return found
