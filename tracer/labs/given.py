"""Matrices as a reader gives them: JSON text, or a .json, .csv or .npy file; everything unfit is refused by name.

Nothing is read whose size was not looked at first, and no pickle is ever opened. Must not know: what a matrix is for.
"""

import csv
import io
import json
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tracer.arrays import Floats
from tracer.errors import InputError
from tracer.files import reason
from tracer.maths.visibility import Bools

MOST_ROWS = 64
MOST_COLUMNS = 256
LARGEST = 1e30  # products of two such numbers, and sums of them, stay far inside float64
_MOST_BYTES = 1 << 20
_KINDS = (".json", ".csv", ".npy")


def matrix(option: str, text: str, *, row: bool = False) -> Floats:
    """Return the matrix [rows, columns] in float64 that ``text`` writes out or names the file of.

    ``row``: a plain list of numbers stands for a single row. Raises InputError that names ``option``, the place and
    what was expected there.
    """
    return _numbers(option, _rows(option, _read(option, text), row))


def vector(option: str, text: str) -> Floats:
    """Return a list of numbers [n] in float64; raises InputError as ``matrix`` does."""
    rows = matrix(option, text, row=True)
    if len(rows) != 1:
        raise InputError("labs.given_not_a_list", option=option, rows=len(rows))
    only: Floats = rows[0]
    return only


def mask(option: str, text: str, tq: int, tk: int) -> Bools:
    """Return who may see what, [tq, tk] bool: from the word ``causal``, or from rows of true and false (1 and 0)."""
    if text.strip() == "causal":
        found: Bools = np.arange(tk)[None, :] <= np.arange(tq)[:, None] + (tk - tq)
        return found
    rows = _rows(option, _read(option, text), row=True)
    for i, entries in enumerate(rows):
        for j, entry in enumerate(entries):
            if not isinstance(entry, bool | int | float | np.generic) or entry not in (0, 1):
                raise InputError("labs.given_mask_entry", option=option, row=i, column=j, found=_shown(entry))
    if len(rows) != tq or len(rows[0]) != tk:
        raise InputError("labs.given_mask_shape", option=option, found=_shape(rows), expected=f"[{tq}, {tk}]")
    permitted: Bools = np.array(rows, dtype=np.float64) == 1
    return permitted


def _read(option: str, text: str) -> Any:
    """Return nested lists, as yet unchecked."""
    bare = text.strip()
    if len(bare) > _MOST_BYTES:
        raise InputError("labs.given_too_long", option=option, limit=_MOST_BYTES >> 20)
    if bare[:1] in ("[", "{", '"'):
        return _json(option, bare)
    path = Path(bare)
    kind = path.suffix.lower()
    if kind not in _KINDS:
        if bare[:1].isdigit() or bare[:1] == "-":
            return _json(option, bare)
        raise InputError("labs.given_kind", option=option, found=bare, known=", ".join(_KINDS))
    try:
        if not path.is_file():  # a pipe or a device would never end
            missing = not path.exists()
            raise InputError("labs.given_no_file" if missing else "labs.given_not_a_file", option=option, path=bare)
        if kind == ".npy":
            return _npy(option, path)
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        why = reason(error, reading=True)
        raise InputError("labs.given_unreadable", option=option, path=bare, reason=why) from error
    if len(data) > _MOST_BYTES:
        raise InputError("labs.given_too_long", option=option, limit=_MOST_BYTES >> 20)
    try:
        content = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError("labs.given_not_utf8", option=option, path=bare, byte=error.start) from error
    return _json(option, content) if kind == ".json" else _csv(option, content)


def _json(option: str, text: str) -> Any:
    def no_constant(name: str) -> NoReturn:
        raise InputError("labs.given_constant", option=option, found=name)

    try:
        return json.loads(text, parse_constant=no_constant)
    except RecursionError as error:
        raise InputError("labs.given_deep", option=option) from error
    except json.JSONDecodeError as error:
        if not text[error.pos :].strip():
            raise InputError("labs.given_json_ends", option=option, found=text[-12:].strip()) from error
        raise InputError(
            "labs.given_not_json", option=option, line=error.lineno, column=error.colno, found=text[error.pos :][:12]
        ) from error
    except ValueError as error:  # a whole number of more digits than Python converts
        raise InputError("labs.given_digits", option=option) from error


def _csv(option: str, text: str) -> Any:
    try:
        lines = [line for line in csv.reader(io.StringIO(text)) if any(field.strip() for field in line)]
    except csv.Error as error:
        raise InputError("labs.given_not_csv", option=option, detail=str(error)) from error
    return [[_field(field) for field in line] for line in lines]


def _field(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _npy(option: str, path: Path) -> Any:
    """Return the array in ``path``. It is mapped, not read, until its size and kind are known to be harmless."""
    try:
        found = np.lib.format.open_memmap(path, mode="r")  # refuses pickles, and everything that is no .npy
    except (ValueError, EOFError, TypeError, RecursionError, MemoryError, OverflowError) as error:
        raise InputError("labs.given_not_npy", option=option, path=str(path)) from error
    if found.dtype.kind not in "fiub":
        raise InputError("labs.given_npy_kind", option=option, path=str(path), found=str(found.dtype))
    if found.ndim not in (1, 2) or found.size > MOST_ROWS * MOST_COLUMNS:
        raise InputError("labs.given_size", option=option, found=list(found.shape), **_limits())
    return found.tolist()


def _rows(option: str, value: Any, row: bool) -> list[list[Any]]:
    """Return ``value`` as rows of one length, within the limits; their entries are not yet looked at."""
    if not isinstance(value, list) or not value:
        raise InputError("labs.given_not_rows", option=option, found=_shown(value))
    lists = [isinstance(each, list) for each in value]
    if not any(lists):
        if not row:
            raise InputError("labs.given_flat", option=option, found=_shown(value))
        value = [value]
    elif not all(lists):
        raise InputError("labs.given_mixed", option=option, row=lists.index(False), found=_shown(value))
    longest = max(map(len, value))
    if len(value) > MOST_ROWS or longest > MOST_COLUMNS:
        raise InputError("labs.given_size", option=option, found=[len(value), longest], **_limits())
    for place, entries in enumerate(value):
        if len(entries) != len(value[0]):
            raise InputError("labs.given_ragged", option=option, row=place, found=len(entries), expected=len(value[0]))
    if not value[0]:
        raise InputError("labs.given_not_rows", option=option, found=_shown(value))
    rows: list[list[Any]] = value
    return rows


def _numbers(option: str, rows: list[list[Any]]) -> Floats:
    for i, entries in enumerate(rows):
        for j, entry in enumerate(entries):
            if isinstance(entry, bool) or not isinstance(entry, int | float):
                raise InputError("labs.given_entry", option=option, row=i, column=j, found=_shown(entry))
            if not abs(entry) <= LARGEST:  # also NaN
                raise InputError("labs.given_value", option=option, row=i, column=j, found=_shown(entry), limit=LARGEST)
    return np.array(rows, dtype=np.float64)


def _limits() -> dict[str, int]:
    return {"rows": MOST_ROWS, "columns": MOST_COLUMNS}


def _shape(rows: list[list[Any]] | NDArray[Any]) -> str:
    return f"[{len(rows)}, {len(rows[0])}]"


def _shown(value: Any) -> str:
    """Return the beginning of what was found, as JSON where that is possible; never more than a glance."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**15:
        return "…"
    text = json.dumps(value, ensure_ascii=False, default=str) if not isinstance(value, list) else _outline(value)
    return text if len(text) <= 40 else f"{text[:37]}…"


def _outline(value: list[Any]) -> str:
    return f"[{', '.join('[…]' if isinstance(each, list | dict) else _shown(each) for each in value[:4])}]"
