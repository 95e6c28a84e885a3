"""Source pages without any vendored file: the installed transformers, and small files of the tests' own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tracer.vendoring import places


@pytest.fixture(autouse=True, scope="module")
def nothing_vendored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No file of another framework is here, and what is kept between questions stays within one test file."""
    folder: Path = tmp_path_factory.mktemp("reading")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(places, "default_folder", lambda: folder / "vendor")
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        yield
