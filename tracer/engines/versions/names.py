"""How an engine's name asks for a version: ``transformers@5.16.1``. Must not know: how it is run."""

import re

PACKAGE = "transformers"
_NAME = re.compile(rf"{PACKAGE}@([0-9][A-Za-z0-9.!+_-]*)")


def version_of(engine: str) -> str | None:
    """Return the version that an engine's name asks for, None where it names none."""
    match = _NAME.fullmatch(engine)
    return match[1] if match else None
