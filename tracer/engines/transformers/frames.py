"""Which expression is running, as code objects tell it. Must not know: what it computes."""

import inspect
import sys
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import torch

import tracer
from tracer.engines.transformers.observed import Place
from tracer.engines.transformers.passing import through

# Frames of these packages are never the expression that a reader wants to see.
_INSIDE = _TORCH, _TRACER = tuple(str(Path(str(package.__file__)).parent) + "/" for package in (torch, tracer))


def caller() -> Place | None:
    """Return the expression, outside torch and this package, that is running now."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_INSIDE):
        frame = frame.f_back
    return None if frame is None else place_of(frame)


def raised_at(error: BaseException) -> Place | None:
    """Return the innermost expression, outside torch and this package, that an exception came through."""
    last = _innermost(error, _INSIDE)
    return None if last is None else place_of(last.tb_frame, last.tb_lasti)


def is_own(error: BaseException) -> bool:
    """Return whether an exception was raised in this package itself: not in torch or in a model's code, nor in what the
    model called through this package."""
    last = _innermost(error, _TORCH)
    code = None if last is None else last.tb_frame.f_code
    return code is not None and code is not through.__code__ and code.co_filename.startswith(_TRACER)


def _innermost(error: BaseException, outside: str | tuple[str, ...]) -> TracebackType | None:
    found, at = None, error.__traceback__
    while at is not None:
        if not at.tb_frame.f_code.co_filename.startswith(outside):
            found = at
        at = at.tb_next
    return found


def place_of(frame: FrameType, instruction: int | None = None) -> Place:
    """Return the expression that ``frame`` is at, or was at at ``instruction``."""
    positions = list(frame.f_code.co_positions())
    line, end_line, column, end_column = positions[(frame.f_lasti if instruction is None else instruction) // 2]
    lines = None if line is None else (line, end_line or line)
    columns = None if column is None or end_column is None else (column, end_column)
    return Place(frame.f_code.co_filename, frame.f_code.co_qualname, lines, columns)


def place_of_function(function: Any) -> Place:
    """Return where a function's code begins; a callable object or C function has only its name."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return Place("", getattr(function, "__qualname__", type(function).__qualname__), None, None)
    return Place(code.co_filename, code.co_qualname, (code.co_firstlineno, code.co_firstlineno), None)
