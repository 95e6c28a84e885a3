"""A sync that is killed leaves the state before it or the one after it, never a mixture; the next one cleans up."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from vendoring_support import FILES, SDIST, WHEEL, Server, laid_out, release, sdist, settings, wheel

from tracer.vendoring import places
from tracer.vendoring.sync import sync_releases

NEW = {member: content.decode() for member, content in FILES.items()}
ABSENT = dict.fromkeys(FILES)
OLD = {member: f"old {member}" for member in FILES}
HERE = Path(__file__).parent

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")


@pytest.mark.parametrize(("before", "old_state"), [({}, ABSENT), (OLD, OLD)], ids=["new", "repair"])
def test_at_every_point_the_old_or_the_new_state_counts(
    tmp_path: Path, before: dict[str, str], old_state: dict[str, str | None]
) -> None:
    links, scratch = tmp_path / "links", tmp_path / "scratch"
    links.mkdir()
    scratch.mkdir()
    (links / WHEEL).write_bytes(wheel(padding=100))
    arguments = [str(links), json.dumps(NEW), json.dumps(before), str(scratch)]
    run = subprocess.run(
        [sys.executable, str(HERE / "kill_points.py"), *arguments],
        env={**os.environ, "PYTHONPATH": str(HERE)},
        capture_output=True,
        text=True,
        check=True,
    )
    points = [json.loads(line) for line in run.stdout.splitlines()]
    assert [point["killed"] for point in points] == [True] * (len(points) - 1) + [False]
    assert len(points) > 10
    states = [point["found"] for point in points]
    switch = states.index(NEW)
    assert 1 < switch < len(states)
    assert states == [old_state] * switch + [NEW] * (len(states) - switch)
    generation = "1.0~2" if before else "1.0"
    for point in points:
        assert point["repaired"] == NEW
    # whatever the kill left behind, a sync that has work to do takes away
    for point in points[:switch]:
        assert point["lying_about"] == [f"demo/{generation}/{member}" for member in NEW]


def test_killed_in_the_middle_of_a_download(server: Server, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    places.lay_out(root, "demo", "1.0", {member: text.encode() for member, text in OLD.items()})
    before = laid_out(root)
    server.files[SDIST] = sdist({**FILES, "noise.bin": os.urandom(2_000_000)})
    reached, go_on = threading.Event(), threading.Event()

    def before_file() -> None:
        reached.set()
        go_on.wait(20)

    server.before_file = before_file
    program = (
        "from pathlib import Path\n"
        "from vendoring_support import release, settings\n"
        "from tracer.vendoring.sync import sync_releases\n"
        f"sync_releases([release(archive='sdist')], Path({str(root)!r}), settings({server.url!r}), lambda _: None)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(HERE)})
    assert reached.wait(20)
    child.send_signal(signal.SIGKILL)
    child.wait()
    go_on.set()
    assert {name: content for name, content in laid_out(root).items() if ".incoming-" not in name} == before
    # the lock died with its holder, so the next sync does not wait
    report = sync_releases([release(archive="sdist")], root, settings(server.url), lambda _: None, wait=0.0)
    assert report.releases[0].replaced == 2
    assert laid_out(root) == {f"demo/1.0~2/{member}": content for member, content in FILES.items()}
