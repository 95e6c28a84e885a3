"""What reading a file that nobody vouches for may not do: hang, fill the memory, or change anything on the disk.

Must not know: what is read.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType

SECONDS = 10
BYTES = 2 << 30
_STATM = Path("/proc/self/statm")
_CHANGING = frozenset(
    (
        "os.mkdir",
        "os.rename",
        "os.remove",
        "os.rmdir",
        "os.truncate",
        "os.link",
        "os.symlink",
        "os.chmod",
        "os.chown",
        "os.utime",
        "os.system",
        "os.exec",
        "os.posix_spawn",
        "os.fork",
        "subprocess.Popen",
        "socket.connect",
        "tempfile.mkstemp",
        "tempfile.mkdtemp",
        "shutil.rmtree",
        "pickle.find_class",
    )
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Hung(BaseException):
    """Worked longer than SECONDS. No Exception, so that nothing in between takes it for a fault of the file."""


class _Changes:
    """What was changed while it is armed, as Python's own audit tells it; watching costs next to nothing otherwise."""

    def __init__(self) -> None:
        self.thread: int | None = None
        self.seen: list[str] = []
        sys.addaudithook(self._hook)  # stays for the life of the process

    def _hook(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.thread is None or self.thread != threading.get_ident():
            return
        if event in _CHANGING or (event == "open" and _writes(arguments)):
            self.seen.append(f"{event} {arguments}")


def _writes(arguments: tuple[object, ...]) -> bool:
    _, mode, flags = arguments
    return bool(isinstance(mode, str) and set(mode) & set("wax+")) or bool(isinstance(flags, int) and flags & _WRITING)


@cache
def _changes() -> _Changes:
    return _Changes()


@contextmanager
def harmless() -> Iterator[None]:
    """Fail where the ``with`` hangs (Hung), takes more than BYTES beyond what there was (MemoryError), or changes
    anything (as unchanging)."""
    with _time(), _memory(), unchanging():
        yield


@contextmanager
def unchanging() -> Iterator[None]:
    """Fail (AssertionError) where the ``with`` changes anything on the disk, starts a program or opens a connection."""
    changes = _changes()
    changes.seen.clear()
    changes.thread = threading.get_ident()
    try:
        yield
    finally:
        changes.thread = None
    seen = tuple(changes.seen)
    assert seen == ()


@contextmanager
def _time() -> Iterator[None]:
    if not hasattr(signal, "SIGALRM") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise Hung(f"worked longer than {SECONDS} s, or waited six times as long")

    # Ten seconds of work; of waiting a minute, for the machine may be busy with others.
    timers = ((signal.ITIMER_PROF, signal.SIGPROF, SECONDS), (signal.ITIMER_REAL, signal.SIGALRM, 6 * SECONDS))
    before = [signal.signal(number, ring) for _, number, _ in timers]
    try:
        for timer, _, seconds in timers:
            signal.setitimer(timer, seconds)
        yield
    finally:
        for (timer, number, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)


@contextmanager
def _memory() -> Iterator[None]:
    if not _STATM.exists():
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    now = int(_STATM.read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
