"""Ctrl-C that is not lost: a KeyboardInterrupt raised inside a callback of Python's import system, or while a library
loads its C code, is printed or forgotten, and the command would go on. What was asked is kept here, and asked for again
at the next step.

Must not know: what is being done.
"""

import signal
from types import FrameType

_asked = False


def listen() -> None:
    """Notice each Ctrl-C from now on, beside what Python does; not where SIGINT is ignored or handled otherwise."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _noticed)


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
    _asked = True
    signal.default_int_handler(number, frame)
