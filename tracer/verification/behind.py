"""Work that goes on behind the caller's back: one piece at a time, on a thread of its own.

Must not know: what the work is.
"""

import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, TypeVar

_Made = TypeVar("_Made")
# Seconds after which Python lets the other thread go on. Its usual 5 ms are longer than most operations of a model:
# each would wait that long for its turn after the work it does outside of Python.
_TURN = 0.0005


class Behind:
    """Does one piece of work while its caller goes on, for one ``with``; what it made comes back on the caller's
    thread, in the order in which pieces were begun. An exception of the work is raised there, too."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "tracer")
        self._begun: tuple[Future[Any], Callable[[Any], None]] | None = None
        self.fault: BaseException | None = None  # what the last piece that was finished raised

    def __enter__(self) -> "Behind":
        self._turn = sys.getswitchinterval()
        sys.setswitchinterval(min(_TURN, self._turn))
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        sys.setswitchinterval(self._turn)
        self._pool.shutdown(cancel_futures=True)

    def begin(self, work: Callable[[], _Made], take: Callable[[_Made], None]) -> None:
        """Finish the piece before, and begin ``work``; ``take`` is given what it made when it is finished."""
        self.finish()
        self._begun = self._pool.submit(work), take

    def finish(self) -> None:
        """Wait for the piece that was begun, if any, and hand over what it made."""
        if self._begun is None:
            return
        (piece, take), self._begun = self._begun, None
        self.fault = piece.exception()
        take(piece.result())
