"""One thread at a time: code objects and kernels that are lent belong to the process, not to a thread.

Must not know: what is done with the turn.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tracer.errors import Unsupported

_TURN = threading.RLock()


@contextmanager
def turn() -> Iterator[None]:
    """Hold the turn for one ``with``; the thread that holds it may take it again.

    Raises Unsupported where another thread holds it: waiting could take minutes, and nobody asked for that.
    """
    held = False
    try:  # from here on, so that no Ctrl-C falls between taking the turn and promising to give it back
        held = _TURN.acquire(blocking=False)
        if not held:
            raise Unsupported("source.busy")
        yield
    finally:
        if held:
            _TURN.release()
