"""One whole process measured: seconds on the wall, peak memory, and what it reports of itself on its last line.

Must not know: what it does.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_LOOK = 0.2  # seconds between two looks at a process


@dataclass(frozen=True)
class Ran:
    """How one process went: ``report`` is the JSON object on its last line, None where it failed (``fault``: why)."""

    seconds: float
    peak_mib: float
    report: dict[str, Any] | None
    fault: str = ""
    complaint: str = ""  # what it wrote on standard error
    processor: float = 0.0  # seconds of all cores: steadier than the clock on a machine with other work
    over: bool = False  # it was ended at a limit


@dataclass(frozen=True)
class Limits:
    """How long one process is waited for, and how much memory it may take; None: without end."""

    seconds: float | None = None
    mib: float | None = None


def run(command: Sequence[str], limits: Limits = Limits()) -> Ran:
    """Run ``command`` to its end, or to a limit. Peak memory is that of the process itself (its maximum resident set).

    ``over`` of what is returned says which limit it went beyond.
    """
    start = time.perf_counter()
    with (
        tempfile.TemporaryFile("w+") as aside,  # not a pipe, which would fill up while standard output is read
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=aside, text=True, env=_quiet()) as process,
    ):
        with contextlib.suppress(OSError):  # where memory runs out, this process is to go, and no other
            Path(f"/proc/{process.pid}/oom_score_adj").write_text("1000", encoding="ascii")
        with _watched(process.pid, limits) as watch:
            written = process.stdout.read() if process.stdout is not None else ""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        aside.seek(0)
        complaint = aside.read()
    seconds = time.perf_counter() - start
    peak, processor = usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime
    if watch.over:
        return Ran(seconds, peak, None, watch.over, complaint, processor, over=True)
    if process.returncode != 0:
        fault = _raised(complaint) or f"exit code {process.returncode}"
        return Ran(seconds, peak, None, fault, complaint, processor)
    lines = written.strip().splitlines()
    report = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {}
    return Ran(seconds, peak, report, "", complaint, processor)


def _raised(complaint: str) -> str:
    """Return the line of a traceback that names the exception, after which notes may come; else the last line."""
    lines = complaint.strip().splitlines()
    named = [line for line in lines if re.match(r"[A-Za-z_][\w.]*(:|$)", line)]
    return (named or lines or [""])[-1][:200]


@dataclass
class _Watch:
    """What the thread beside a process found: ``over`` says which limit it went beyond, "" while none."""

    over: str = ""
    ended: threading.Event = field(default_factory=threading.Event)


@contextmanager
def _watched(pid: int, limits: Limits) -> Iterator[_Watch]:
    """Kill process ``pid`` where it goes beyond a limit, for one ``with``, at whose end it must have ended."""
    watch, start = _Watch(), time.perf_counter()

    def look() -> None:
        while not watch.ended.wait(_LOOK):
            if limits.seconds is not None and time.perf_counter() - start > limits.seconds:
                watch.over = f"over {limits.seconds:g} s"
            elif limits.mib is not None and _resident_mib(pid) > limits.mib:
                watch.over = f"over {limits.mib:.0f} MiB"
            if watch.over:
                os.kill(pid, signal.SIGKILL)  # not reaped before this thread has ended: the number is still its own
                return

    beside = threading.Thread(target=look, daemon=True)
    beside.start()
    try:
        yield watch
    finally:
        watch.ended.set()
        beside.join()


def _resident_mib(pid: int) -> float:
    """Return the memory that a process holds (Linux; 0 elsewhere)."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def _quiet() -> dict[str, str]:
    """The environment: offline, without progress bars."""
    return {**os.environ, "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1", "TRANSFORMERS_VERBOSITY": "error"}
