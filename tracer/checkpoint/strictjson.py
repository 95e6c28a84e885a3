"""Reading JSON that nobody vouches for: bounded in size and depth, no key twice, no NaN.

Must not know: what the file means.
"""

import json
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

from tracer.checkpoint.impostors import refuse_impostor
from tracer.checkpoint.wording import shown
from tracer.errors import InputError

MEGABYTE = 1 << 20
DEEPEST = 100  # levels; a tokenizer has 10. Python's own limit is a matter of its version, and as high as 10,000

_HOLDERS = (dict, list)


def parse_object(data: bytes, file: Path) -> dict[str, Any]:
    """Return the JSON object written in ``data`` (UTF-8); raises InputError that names ``file`` and the fault."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise InputError("checkpoint.json_twice", file=str(file), key=shown(key))
            found[key] = value
        return found

    def no_constant(name: str) -> NoReturn:
        raise InputError("checkpoint.json_constant", file=str(file), found=name)

    refuse_impostor(data, file)
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=unique, parse_constant=no_constant)
    except UnicodeDecodeError as fault:
        raise InputError("checkpoint.json_utf8", file=str(file), position=fault.start) from None
    except RecursionError:
        raise InputError("checkpoint.json_deep", file=str(file)) from None
    except json.JSONDecodeError as fault:
        raise InputError(
            "checkpoint.json_invalid", file=str(file), fault=fault.msg, line=fault.lineno, column=fault.colno
        ) from None
    except ValueError:  # a whole number of more digits than Python converts
        raise InputError("checkpoint.json_number", file=str(file)) from None
    if _is_deep(value):
        raise InputError("checkpoint.json_deep", file=str(file))
    if not isinstance(value, dict):
        raise InputError("checkpoint.json_not_object", file=str(file), found=shown(value))
    return value


def _is_deep(value: object) -> bool:
    """Return whether objects and arrays lie in one another more than DEEPEST levels deep; told level by level, since
    what is deep is not to be gone into by recursion."""
    level = [value] if isinstance(value, _HOLDERS) else []
    for _ in range(DEEPEST):
        within = (each.values() if isinstance(each, dict) else each for each in level)
        level = [each for each in chain.from_iterable(within) if isinstance(each, _HOLDERS)]
        if not level:
            return False
    return True


def read_object(path: Path, limit: int = 16 * MEGABYTE) -> dict[str, Any]:
    """Return the JSON object in the file ``path``; raises InputError also where it is larger than ``limit`` bytes."""
    return parse_object(read_bytes(path, limit), path)


def read_text(path: Path, limit: int) -> str:
    """Return the UTF-8 text in ``path``; raises InputError as read_bytes does, and where it is not UTF-8."""
    try:
        return read_bytes(path, limit).decode("utf-8")
    except UnicodeDecodeError as fault:
        raise InputError("checkpoint.json_utf8", file=str(path), position=fault.start) from None


def read_bytes(path: Path, limit: int) -> bytes:
    """Return the bytes of ``path``; raises InputError where it cannot be read or has more than ``limit`` bytes."""
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as fault:
        raise InputError("checkpoint.unreadable", file=str(path), fault=fault.strerror or str(fault)) from None
    if len(data) > limit:
        raise InputError("checkpoint.too_large", file=str(path), limit=limit)
    return data
