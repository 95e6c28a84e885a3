"""Two more kinds of value an option takes: a number between bounds, and a list of sizes.

Must not know: any particular option.
"""

import math
import re
from typing import Any

import click

from tracer.errors import InputError

_SIZE = re.compile(r"0*[1-9][0-9]{0,14}")


class Real(click.ParamType[float]):
    """A finite number between two bounds."""

    name = "number"

    def __init__(self, lowest: float, highest: float) -> None:
        self._bounds = (lowest, highest)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; raises InputError."""
        lowest, highest = self._bounds
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not lowest <= number <= highest:  # also NaN
            option = max(param.opts, key=len) if param is not None else ""
            raise InputError("labs.not_a_number", option=option, lowest=lowest, highest=highest, found=str(value))
        return number


class Sizes(click.ParamType[tuple[int, ...]]):
    """Whole numbers from 1, separated by commas."""

    name = "sizes"

    def __init__(self, example: str) -> None:
        self._example = example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Return the numbers; raises InputError."""
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).split(",")]
        if not all(_SIZE.fullmatch(part) for part in parts):
            option = max(param.opts, key=len) if param is not None else ""
            raise InputError("labs.not_sizes", option=option, example=self._example, found=str(value))
        return tuple(int(part) for part in parts)
