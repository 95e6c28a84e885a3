"""Where nano-vllm's own files come from: the engine is tested on them, and they are not part of this repository."""

import pytest

from tracer.vendoring.sync import sync


@pytest.fixture(scope="session", autouse=True)
def _nano_vllm() -> None:
    """Bring the files once where they are missing, as ``trace vendor sync nano-vllm`` does; later runs are offline."""
    sync(["nano-vllm"])
