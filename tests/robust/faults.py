"""Raise in the middle of code that is being tested: at the n-th call of one function, at the first call of each
function of some modules, or at each line of theirs that is no tidying up.

Must not know: what must be true afterwards.
"""

import ast
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any


class Planted(Exception):
    """The fault itself; nothing but the test may catch it."""


@contextmanager
def at_call(owner: type, name: str, number: int) -> Iterator[list[int]]:
    """Raise Planted at the ``number``-th call of a method (from 1) for one ``with``; yields [how many there were]."""
    original: Callable[..., Any] = getattr(owner, name)
    calls = [0]

    def counting(*arguments: Any, **named: Any) -> Any:
        calls[0] += 1
        if calls[0] == number:
            raise Planted(f"{owner.__name__}.{name}, call {number}")
        return original(*arguments, **named)

    setattr(owner, name, counting)
    try:
        yield calls
    finally:
        setattr(owner, name, original)


@contextmanager
def watching(modules: list[ModuleType], event: str, seen: Callable[[CodeType, int], None]) -> Iterator[None]:
    """Tell ``seen`` of each call (``call``) or line (``line``) of ``modules`` on this thread, for one ``with``; it may
    raise, and then the code raises there."""
    files = {str(module.__file__) for module in modules}

    def tracer(frame: FrameType, what: str, _argument: Any) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        if what == event and frame.f_code.co_name not in ("<module>", "<lambda>", "<genexpr>"):
            seen(frame.f_code, frame.f_lineno)
        return tracer

    before = sys.gettrace()
    assert threading.current_thread() is threading.main_thread()
    sys.settrace(tracer)
    try:
        yield
    finally:
        sys.settrace(before)


def places(modules: list[ModuleType], event: str, run: Callable[[], object]) -> list[tuple[str, int]]:
    """Return each (file, line) of ``modules`` that ``run`` reaches, in order, each once, without lines of ``finally``
    and ``except`` and of what is called there: where tidying up itself fails, nothing can be promised."""
    tidying = {str(module.__file__): _tidying(Path(str(module.__file__))) for module in modules}
    found: dict[tuple[str, int], None] = {}

    def note(code: CodeType, line: int) -> None:
        if line not in tidying[code.co_filename]:
            found.setdefault((code.co_filename, line))

    with watching(modules, event, note):
        run()
    return list(found)


@contextmanager
def at_place(modules: list[ModuleType], event: str, place: tuple[str, int]) -> Iterator[None]:
    """Raise Planted the first time that ``place`` is reached, for one ``with``."""
    done = False

    def plant(code: CodeType, line: int) -> None:
        nonlocal done
        if not done and (code.co_filename, line) == place:
            done = True
            raise Planted(f"{Path(code.co_filename).name}:{line}")

    with watching(modules, event, plant):
        yield


def _tidying(file: Path) -> set[int]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    parts: list[ast.stmt] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Try):
            parts += [*node.finalbody, *(line for handler in node.handlers for line in handler.body)]
    called = {node.id for part in parts for node in ast.walk(part) if isinstance(node, ast.Name)}
    parts += [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in called]
    return {line for part in parts for line in range(part.lineno, (part.end_lineno or part.lineno) + 1)}
