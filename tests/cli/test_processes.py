"""What only a process of its own can show: which modules are loaded, broken pipes, full disks. Few, for each costs."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.invented_trace import invented
from tracer.result import look_at
from tracer.saved.write import save

HEAVY = ("torch", "transformers", "safetensors", "tokenizers", "numpy", "libcst", "pydantic", "typer", "rich.console",
         "rich.markdown", "pygments", "markdown_it", "importlib.metadata", "asyncio")  # fmt: skip

# Everything that must answer at once, in one process; each prints to the same streams.
LIGHT = f"""
import os, sys
from tracer.cli.main import run
lines = [[], ["--help"], ["qwen3", "--help", "--lang", "zh"], ["--show-completion", "zsh"], ["qwen3", "--layer", "x"],
         ["qwen3", "--laier", "0"], ["qwem3"], ["qwen3", "--output", "/no/such/folder/x"]]
codes = [run(line) for line in lines]
os.environ.update(_TRACE_COMPLETE="bash_complete", COMP_WORDS="trace qwen3 --kernel ", COMP_CWORD="3")
codes.append(run([]))
loaded = [name for name in {HEAVY!r} if name in sys.modules]
print(codes, loaded, file=sys.stderr)
"""


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHON"))}
    return {**kept, **more}


def test_help_errors_and_completion_load_nothing_heavy() -> None:
    ended = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, env=environment(), check=True)
    assert ended.stderr.splitlines()[-1] == "[0, 0, 0, 0, 2, 2, 2, 2, 0] []"


def test_versions_load_no_library() -> None:
    code = "import sys; from tracer.cli.main import run; run(['--version']); print('torch' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True)
    assert ended.stdout.splitlines()[-1] == "False"
    assert "\ntorch 2." in ended.stdout


def test_a_saved_trace_is_shown_without_torch(tmp_path: Path) -> None:
    save(look_at(invented(), 0), tmp_path / "saved.safetensors")
    code = (
        "import sys; from tracer.cli.main import run; "
        f"code = run(['show', {str(tmp_path / 'saved.safetensors')!r}, '--query', '2']); "
        "print(code, [name for name in ('torch', 'transformers', 'libcst', 'tokenizers') if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True)
    assert ended.stdout.splitlines()[-1].endswith(" []")
    assert len(ended.stdout.splitlines()) > 20


def test_a_reader_who_leaves_early_sees_no_complaint() -> None:
    started = subprocess.Popen(
        [sys.executable, "-m", "tracer", "--help"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(PYTHONUNBUFFERED="1"),
    )
    assert started.stdout is not None
    assert started.stderr is not None
    started.stdout.close()
    with started:
        assert started.stderr.read() == b""
    assert started.returncode == 0


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_ctrl_c_ends_with_130_and_one_sentence() -> None:
    started = subprocess.Popen(
        [sys.executable, "-m", "tracer", "qwen3", "--verbose", "--prompt-file", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(PYTHONUNBUFFERED="1"),
    )
    assert started.stderr is not None
    assert started.stderr.readline() == b"Reading the prompt from standard input (end it with Ctrl-D).\n"
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=30)
    assert (started.returncode, out, err) == (130, b"", b"Interrupted. No file was left half-written.\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_an_error_not_a_crash() -> None:
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "tracer", "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            check=False,
        )
    assert ended.returncode == 2
    assert ended.stderr == (
        "error: The answer could not be written to standard output: no space is left on the device. "
        "Write it to a file with --output.\n"
    )


def test_a_closed_standard_output_is_told_and_not_taken_for_an_answer_given() -> None:
    ended = subprocess.run(
        ["sh", "-c", f"{shlex.quote(sys.executable)} -m tracer --help >&-"],
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        check=False,
    )
    assert ended.returncode == 2
    sentence = "The answer could not be written: standard output is closed. Write it to a file with --output."
    assert ended.stderr == f"error: {sentence}\n"
