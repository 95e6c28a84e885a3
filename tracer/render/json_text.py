"""JSON as text that people can read too: objects one entry a line, rows of numbers on one line.

Must not know: what the JSON says.
"""

import json
import re
from typing import Any

_INDENT = "  "
_SURROGATE = re.compile("[\ud800-\udfff]")


def dumps(value: Any) -> str:
    """Return ``value`` as JSON text with a line end, that UTF-8 can carry: half a surrogate pair, as in a file name
    that is no UTF-8, is escaped. Raises ValueError for NaN and infinities."""
    return "".join(_lines(value, "")) + "\n"


def _lines(value: Any, margin: str) -> list[str]:
    inner = margin + _INDENT
    if isinstance(value, dict) and value:
        entries = [[f"{_flat(str(name))}: ", *_lines(item, inner)] for name, item in value.items()]
        return _block("{", entries, "}", margin)
    if isinstance(value, list) and any(isinstance(item, dict | list) and item for item in value):
        return _block("[", [_lines(item, inner) for item in value], "]", margin)
    return [_flat(value)]


def _block(start: str, entries: list[list[str]], end: str, margin: str) -> list[str]:
    text = [start]
    for index, entry in enumerate(entries):
        text += ["," if index else "", "\n", margin, _INDENT, *entry]
    return [*text, "\n", margin, end]


def _flat(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
