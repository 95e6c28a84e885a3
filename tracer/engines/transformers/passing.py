"""Call what a model's code calls, where this package stands between the two: what is raised in there is the model's.

Must not know: what is called.
"""

from collections.abc import Callable, Mapping
from typing import Any


def through(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Return what ``function`` returns; its frame tells a traceback that what lies below was called by the model."""
    return function(*args, **kwargs)
