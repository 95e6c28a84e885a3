"""No test here may see this machine's pip configuration, proxies or network."""

import os
from collections.abc import Iterator

import pytest
from vendoring_support import Server, serve


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("PIP_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
def server() -> Iterator[Server]:
    """A package index on loopback that has nothing yet."""
    with serve(Server()) as running:
        yield running
