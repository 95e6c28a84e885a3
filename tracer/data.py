"""Where the project's own data lies: pins, annotations and the checkpoints it ships.

Must not know: what is in the files. A wheel carries them under ``tracer/_data``, a checkout beside ``tracer/``.
"""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def _folder(name: str) -> Path:
    packed = _PACKAGE / "_data" / name
    return packed if packed.is_dir() else _PACKAGE.parent / name


def annotations() -> Path:
    """Return the folder of texts, formulas and anchors."""
    return _folder("annotations")


def pins() -> Path:
    """Return the folder of pin files (TOML)."""
    return _folder("vendor") / "pins"


def shipped_checkpoint(name: str) -> Path:
    """Return the folder of the shipped checkpoint ``name`` (it may not exist)."""
    return _PACKAGE / "checkpoints" / name


def schema(name: str) -> Path:
    """Return the path of the JSON Schema ``name``, for example ``trace-1``."""
    return _PACKAGE / "schemas" / f"{name}.schema.json"
