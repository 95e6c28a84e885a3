"""Running ``trace lab`` inside the test's own process."""

from tests.cli.conftest import trace

__all__ = ["trace"]
