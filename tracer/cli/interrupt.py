"""Ctrl-C that is not lost, and does no harm: a KeyboardInterrupt raised inside a callback of Python's import system, or
while a library loads its C code, is printed or forgotten, or ends the process with a message of C++'s. During an import
none is raised: the command is left at once. What got lost all the same is asked for again at the next step.

Must not know: what is being done.
"""

import signal
from collections.abc import Callable
from types import FrameType

_asked = False
_leave: Callable[[], None] | None = None


def listen() -> None:
    """Notice each Ctrl-C from now on, beside what Python does; not where SIGINT is ignored or handled otherwise."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _noticed)


def leave_imports_by(leave: Callable[[], None] | None) -> None:
    """Call ``leave``, which ends the process, where Ctrl-C comes during an import: then nothing is half written that
    would have to be tidied up. None: no longer."""
    global _leave
    _leave = leave


def ended() -> None:
    """Leave Ctrl-C to the system: all is said and written, and there is nothing left to tidy up."""
    if signal.getsignal(signal.SIGINT) in (_noticed, signal.default_int_handler):
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def asked() -> bool:
    """Return whether Ctrl-C was pressed since ``listen``."""
    return _asked


def check() -> None:
    """Raise KeyboardInterrupt where one was asked for and got lost."""
    if _asked:
        raise KeyboardInterrupt


def _noticed(number: int, frame: FrameType | None) -> None:
    global _asked
    first, _asked = not _asked, True
    if first and _leave is not None and _importing(frame):
        _leave()
    signal.default_int_handler(number, frame)


def _importing(frame: FrameType | None) -> bool:
    """Return whether an import is under way in ``frame`` or in what called it."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
