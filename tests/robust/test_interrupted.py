"""Ctrl-C at any moment ends the command with 130, without a traceback, and leaves nothing behind; so does a reader who
leaves early, with 0."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.invented_trace import invented
from tracer.result import look_at
from tracer.saved.write import save

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="signals and forks as POSIX has them")

# Says that the interpreter is up, then is the command: what comes before is Python's own start.
STARTED = "import sys; sys.stderr.write('up\\n'); sys.stderr.flush(); from tracer.__main__ import main; main()"
SENTENCE = b"Interrupted. No file was left half-written.\n"
# Children of one process that has imported nothing, each interrupted at the n-th search for a module.
EACH_IMPORT = """
import json, os, sys

class Interrupting:
    left = 0
    def find_spec(self, name, path=None, target=None):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return None

sys.argv = ["trace", "--help"]
for point in range(3, 1000, 7):  # the first two are the package and the command themselves
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(writing, 2)
        finder = Interrupting()
        finder.left = point
        sys.meta_path.insert(0, finder)
        from tracer.__main__ import main
        main()
    os.close(writing)
    with open(reading, encoding="utf-8") as pipe:
        said = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(json.dumps([point, code, said]), flush=True)
    if code == 0:
        break
"""


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHON"))}
    return {**kept, "PYTHONUNBUFFERED": "1", **more}


def test_interrupted_while_any_module_is_imported() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", EACH_IMPORT], capture_output=True, text=True, env=environment(), check=True
    )
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    assert len(found) > 5
    assert found[-1][1:] == [0, ""]  # got through before it was interrupted
    assert {code for _, code, _ in found[:-1]} == {130}
    assert {said for _, _, said in found[:-1]} <= {"", SENTENCE.decode()}
    assert {said for _, _, said in found[:-1]} >= {""}  # before the command has loaded there is nothing to say it with


@pytest.mark.parametrize(("soonest", "latest"), [(0.02, 0.1)] * 4 + [(0.1, 0.6)] * 3 + [(0.6, 2.0)] * 3)
def test_interrupted_at_a_random_moment(
    soonest: float, latest: float, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    dice = random.Random(request.node.name)
    target = tmp_path / "page.txt"
    started = subprocess.Popen(
        [sys.executable, "-c", STARTED, "qwen3", "--head", "2", "-o", str(target)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert started.stderr is not None
    assert started.stderr.readline() == b"up\n"
    time.sleep(dice.uniform(soonest, latest))
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=60)
    assert out == b""
    assert b"Traceback" not in err
    assert b"KeyboardInterrupt" not in err
    if target.exists():  # it was quicker than the signal
        assert target.read_bytes().endswith(b"\n")
        assert started.returncode in (0, 130, -signal.SIGINT)
    else:
        assert started.returncode == 130
        assert err in (b"", SENTENCE)
    assert [path for path in tmp_path.iterdir() if path != target] == []


def test_a_job_that_was_told_to_ignore_it_goes_on() -> None:
    program = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); {STARTED}"
    started = subprocess.Popen(
        [sys.executable, "-c", program, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    )
    assert started.stderr is not None
    assert started.stderr.readline() == b"up\n"
    for _ in range(20):
        started.send_signal(signal.SIGINT)
        time.sleep(0.005)
    out, err = started.communicate(timeout=60)
    assert (started.returncode, err) == (0, b"")
    assert b"trace qwen3" in out


def test_the_terminal_is_as_before() -> None:
    import pty
    import select
    import termios

    primary, secondary = pty.openpty()
    said = b""

    def listen(seconds: float) -> None:
        nonlocal said
        until = time.monotonic() + seconds
        while time.monotonic() < until and select.select([primary], [], [], 0.05)[0]:
            said += os.read(primary, 10_000)

    before = termios.tcgetattr(secondary)
    with subprocess.Popen(
        [sys.executable, "-c", STARTED, "qwen3", "--head", "2"],
        stdin=secondary,
        stdout=secondary,
        stderr=secondary,
        env=environment(TERM="xterm-256color"),
        start_new_session=True,
    ) as started:
        while b"\x1b[2K" not in said:  # the line that is rewritten says that the run has begun
            listen(0.1)
        presses = 0
        while started.poll() is None and presses < 12:  # Python may lose one, in a callback of an import
            started.send_signal(signal.SIGINT)
            presses += 1
            until = time.monotonic() + 10
            while started.poll() is None and time.monotonic() < until:
                listen(0.1)
        if started.poll() is None:
            started.kill()
    listen(1)
    assert started.returncode == 130
    assert termios.tcgetattr(secondary) == before
    os.close(secondary)
    os.close(primary)
    assert b"Traceback" not in said
    assert said.rstrip().endswith(SENTENCE.rstrip())
    assert b"\x1b[?25h" in said  # the cursor is there again
    assert said.count(b"\x1b[?1049h") == said.count(b"\x1b[?1049l")


@pytest.mark.parametrize("words", [["show", "trace.safetensors", "--format", "html"], ["--help"]])
def test_a_reader_who_leaves_early_is_no_error(words: list[str], tmp_path: Path) -> None:
    save(look_at(invented(), 0), tmp_path / "trace.safetensors")
    words = [str(tmp_path / word) if word.endswith(".safetensors") else word for word in words]
    started = subprocess.Popen(
        [sys.executable, "-m", "tracer", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    )
    with started:
        assert started.stdout is not None
        started.stdout.read(1)
        started.stdout.close()
        assert started.stderr is not None
        assert started.stderr.read() == b""
    assert started.returncode == 0
