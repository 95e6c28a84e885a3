"""One whole process measured: seconds on the wall, peak memory, and what it reports of itself on its last line.

Must not know: what it does.
"""

import contextlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Ran:
    """How one process went: ``report`` is the JSON object on its last line, None where it failed (``fault``: why)."""

    seconds: float
    peak_mib: float
    report: dict[str, Any] | None
    fault: str = ""
    complaint: str = ""  # what it wrote on standard error
    processor: float = 0.0  # seconds of all cores: steadier than the clock on a machine with other work


def run(command: Sequence[str]) -> Ran:
    """Run ``command`` to its end. Peak memory is that of the process itself (its maximum resident set)."""
    start = time.perf_counter()
    with (
        tempfile.TemporaryFile("w+") as aside,  # not a pipe, which would fill up while standard output is read
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=aside, text=True, env=_quiet()) as process,
    ):
        with contextlib.suppress(OSError):  # where memory runs out, this process is to go, and no other
            Path(f"/proc/{process.pid}/oom_score_adj").write_text("1000", encoding="ascii")
        written = process.stdout.read() if process.stdout is not None else ""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        aside.seek(0)
        complaint = aside.read()
    seconds = time.perf_counter() - start
    peak, processor = usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime
    if process.returncode != 0:
        lines = complaint.strip().splitlines()
        fault = lines[-1][:200] if lines else f"exit code {process.returncode}"
        return Ran(seconds, peak, None, fault, complaint, processor)
    lines = written.strip().splitlines()
    report = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {}
    return Ran(seconds, peak, report, "", complaint, processor)


def _quiet() -> dict[str, str]:
    """The environment: offline, without progress bars."""
    return {**os.environ, "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1", "TRANSFORMERS_VERBOSITY": "error"}
