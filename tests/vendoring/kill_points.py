"""Run as a program: for each point at which a sync touches the disk, a child is killed there; prints what is left.

Arguments: the folder that holds the wheel; the files it has and those laid out before, as JSON; a scratch folder. For
each point one line of JSON: what a reader finds after the kill, what after the next sync, and all that lies about then.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vendoring_support import laid_out, release, settings

from tracer.vendoring import places
from tracer.vendoring.sync import sync_releases

TOUCHES = [(os, name) for name in ("fsync", "rename", "mkdir", "unlink", "rmdir", "open")]


def kill_at(point: int) -> None:
    """Make the ``point``-th call that touches the disk the last thing this process does."""
    left = point

    def counting(original: Callable[..., Any]) -> Callable[..., Any]:
        def touch(*arguments: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*arguments, **named)

        return touch

    for module, name in TOUCHES:
        setattr(module, name, counting(getattr(module, name)))


def counting_files(root: Path, members: list[str]) -> dict[str, str | None]:
    """Return what a reader finds of ``members``."""
    found = {member: places.find(root, "demo", "1.0", member) for member in members}
    return {member: path.read_text() if path else None for member, path in found.items()}


def main(links: str, files: dict[str, str], old: dict[str, str], scratch: Path) -> None:
    """Kill a sync at every point in turn, until one is not reached."""
    wanted = release({member: text.encode() for member, text in files.items()})
    for point in range(1, 500):
        root = scratch / str(point)
        root.mkdir()
        if old:
            places.lay_out(root, "demo", "1.0", {member: text.encode() for member, text in old.items()})
        child = os.fork()
        if child == 0:
            kill_at(point)
            sync_releases([wanted], root, settings(links=[links]), lambda _: None)
            os._exit(0)
        killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
        found = counting_files(root, list(files))
        sync_releases([wanted], root, settings(links=[links]), lambda _: None)
        after = {"found": found, "repaired": counting_files(root, list(files)), "lying_about": list(laid_out(root))}
        print(json.dumps({"point": point, "killed": killed, **after}), flush=True)
        shutil.rmtree(root)
        if not killed:
            return


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3]), Path(sys.argv[4]))
