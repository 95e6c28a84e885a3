"""How an engine's name asks for a version: ``transformers@5.16.1``. Must not know: how it is run."""

import re

from packaging.version import InvalidVersion, Version

PACKAGE = "transformers"
_NAME = re.compile(rf"{PACKAGE}@([0-9][A-Za-z0-9.!+_-]*)")


def version_of(engine: str) -> str | None:
    """Return the version that an engine's name asks for, None where it names none."""
    match = _NAME.fullmatch(engine)
    if match is None:
        return None
    try:
        Version(match[1])
    except InvalidVersion:
        return None
    return match[1]
