"""Whether a source file that a saved trace speaks of is installed on this machine too, with the very same content.

Must not know: what is in the file. Nothing here imports the package whose file it looks for.
"""

import contextlib
import hashlib
import importlib.util
from functools import lru_cache
from pathlib import Path

_LARGEST = 4 << 20  # bytes; the longest model file of transformers has 0.4 million


@lru_cache(maxsize=64)
def file_here(project: str, path: str, sha256: str) -> Path:
    """Return the installed file with this content, or ``path`` itself, relative, where there is none.

    ``path`` is a file's place in its package or, as a pin has it, in its repository (below ``src/``).
    """
    root = _root(project)
    if root is not None:
        place = root / path.removeprefix("src/")
        with contextlib.suppress(OSError):
            if place.is_file() and place.stat().st_size <= _LARGEST and _sha256(place) == sha256:
                return place
    return Path(path)


@lru_cache(maxsize=16)
def _root(project: str) -> Path | None:
    if not project.isidentifier():  # looking for a dotted name would import the package in front of the dot
        return None
    with contextlib.suppress(ValueError, ImportError):  # a module made at run time has no place
        found = importlib.util.find_spec(project)
        if found is not None and found.submodule_search_locations:
            return Path(next(iter(found.submodule_search_locations))).parent
    return None


def _sha256(place: Path) -> str:
    return hashlib.sha256(place.read_bytes()).hexdigest()
