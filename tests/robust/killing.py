"""Run as a program: children that write are killed, at random moments or at each point where they touch the disk;
prints what each left, one line of JSON a kill.

Arguments: ``random COUNT FOLDER`` or ``points FOLDER`` or ``commands COUNT FOLDER TRACE SOURCE``. The children are
forks, so that a kill costs milliseconds. Must not know: what is right.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tracer.files import write_whole

OLD, NEW = b"old " * 50_000, b"new, and longer " * 50_000
_TOUCHES = [(os, name) for name in ("open", "fsync", "replace", "chmod", "close", "fdopen", "unlink")]


def _child(work: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        work()
        os._exit(0)
    return child


def _tell(target: Path, killed: bool) -> None:
    content = target.read_bytes() if target.exists() else None
    state = {OLD: "old", NEW: "new", None: "absent"}.get(content, "other")
    beside = sorted(path.name for path in target.parent.iterdir() if path != target)
    print(json.dumps({"killed": killed, "state": state, "beside": beside}), flush=True)


def at_random(count: int, folder: Path) -> None:
    """Kill children that write one file again and again."""
    dice = random.Random(0)
    for number in range(count):
        place = folder / str(number)
        place.mkdir()
        target = place / "page.txt"
        if number % 2:
            target.write_bytes(OLD)

        def work(target: Path = target) -> None:
            while True:
                write_whole(target, NEW)
                write_whole(target, OLD)

        child = _child(work)
        time.sleep(dice.uniform(0, 0.02))
        os.kill(child, signal.SIGKILL)
        _tell(target, os.WIFSIGNALED(os.waitpid(child, 0)[1]))


def _dies_at(point: int) -> None:
    """Make the ``point``-th touch of the disk the last thing this process does."""
    left = point

    def counting(original: Callable[..., Any]) -> Callable[..., Any]:
        def touch(*arguments: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*arguments, **named)

        return touch

    for module, name in _TOUCHES:
        setattr(module, name, counting(getattr(module, name)))


def at_points(folder: Path) -> None:
    """Kill a child that replaces a file at its first touch of the disk, then at its second, until it gets through."""
    for point in range(1, 100):
        place = folder / str(point)
        place.mkdir()
        target = place / "page.txt"
        target.write_bytes(OLD)

        def work(target: Path = target, point: int = point) -> None:
            _dies_at(point)
            write_whole(target, NEW)

        killed = os.WIFSIGNALED(os.waitpid(_child(work), 0)[1])
        _tell(target, killed)
        if not killed:
            return


def commands(count: int, folder: Path, trace: str, source: str) -> None:
    """Kill whole commands that write files; each line has the command and what it left, file by file."""
    from tracer.cli.main import run

    lines: Sequence[Sequence[str]] = (
        ["show", trace, "--head", "1", "-o", "out"],
        ["show", trace, "--head", "1", "--format", "json", "-o", "out"],
        ["show", trace, "--head", "1", "--format", "html", "-o", "out"],
        ["lint", source, "--format", "sarif", "-o", "out"],
        ["diff", trace, trace, "-o", "out"],
    )
    wholes = []
    for line in lines:  # in this process: the children find everything imported
        here = folder / "whole"
        os.chdir(folder)
        run([*line[:-1], str(here)])
        wholes.append(here.read_bytes())
        here.unlink()
    took = [_seconds(line, folder) for line in lines]
    dice = random.Random(0)
    for number in range(count):
        which = number % len(lines)
        place = folder / str(number)
        place.mkdir()
        os.chdir(place)
        child = _child(lambda line=lines[which]: run(line))  # type: ignore[misc]
        time.sleep(dice.uniform(0.3, 1.1) * took[which])
        os.kill(child, signal.SIGKILL)
        killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
        found = (place / "out").read_bytes() if (place / "out").exists() else None
        state = "absent" if found is None else "whole" if found == wholes[which] else "other"
        beside = sorted(path.name for path in place.iterdir() if path.name != "out")
        print(json.dumps({"killed": killed, "state": state, "beside": beside, "line": lines[which][0]}), flush=True)


def _seconds(line: Sequence[str], folder: Path) -> float:
    from tracer.cli.main import run

    os.chdir(folder)
    start = time.monotonic()
    os.waitpid(_child(lambda: run(line)), 0)
    (folder / "out").unlink()
    return time.monotonic() - start


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    if kind == "random":
        at_random(int(rest[0]), Path(rest[1]))
    elif kind == "points":
        at_points(Path(rest[0]))
    else:
        commands(int(rest[0]), Path(rest[1]), rest[2], rest[3])
