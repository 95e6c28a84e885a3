"""``trace compare``: what it takes, what comes out, how it ends."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tracer.cli.main import run

pytestmark = pytest.mark.usefixtures("nano_vllm_files")
TOKENS = "--tokens=5,9,5,9,5"


def trace(*words: str) -> int:
    return run(("compare", "qwen3", TOKENS, *words))


@pytest.fixture(autouse=True)
def _english(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LC_ALL", "LC_MESSAGES", "LANG", "LANGUAGE", "FORCE_COLOR", "TRACER_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")


def test_two_that_part_end_with_1_and_the_page_fits_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert trace("--engines", "transformers,nano-vllm") == 1
    out = capsys.readouterr().out
    assert "they part at “residual beside the first norm”, layer 0" in out
    assert max(len(line) for line in out.splitlines()) <= 80


def test_the_help_says_where_they_part_as_the_page_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(("compare", "--help")) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "in float32 they part within layer 0, at the residual beside its first norm" in said
    assert run(("compare", "--help", "--lang", "zh")) == 0
    assert "两者在第0层内、第一个归一化旁边的残差处就分叉了" in "".join(capsys.readouterr().out.split())


def test_two_that_agree_end_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert trace("--engines", "transformers,nano-vllm", "--dtype", "bfloat16", "--layer", "1") == 0
    assert "they agree" in capsys.readouterr().out


def test_json_goes_whole_into_a_file(tmp_path: Path) -> None:
    target = tmp_path / "compare.json"
    assert trace("--kernels", "cpu-flash,eager", "--format", "json", "-o", str(target)) == 0
    document = json.loads(target.read_text(encoding="utf-8"))
    assert (document["format"], document["a"]["kernel"], document["b"]["kernel"]) == ("compare/1", "cpu-flash", "eager")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "A comparison needs two sides. Name them: --engines transformers,nano-vllm"),
        (("--engines", "transformers,nanovllm"), "found nanovllm. Did you mean nano-vllm?"),
        (("--engines", "transformers,transformers@"), "found “transformers@”"),
        (("--kernels", "eager,spda"), "found spda. Did you mean sdpa?"),
        (("--engines", ","), "leave a name empty in ,. Write names with one comma between them"),
        (("--kernels", "eager,,sdpa"), "leave a name empty in eager,,sdpa."),
        (("--engines", "transformers,nano-vllm", "--kernels", "eager,sdpa"), "name several sides"),
        (("--engines", "transformers,nano-vllm", "--head", "1"), "--head"),
        (("--engines", "transformers,nano-vllm", "--layer", "9"), "layer 9"),
    ],
    ids=str,
)
def test_a_mistake_ends_with_2_and_says_what_to_do(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trace(*words) == 2
    assert said.lower() in " ".join(capsys.readouterr().err.lower().split())


def test_help_and_mistakes_need_neither_torch_nor_transformers() -> None:
    code = (
        "import sys; from tracer.cli.main import run; "
        "run(('compare', 'qwen3', '--engines', 'x')); run(('compare', '--help')); "
        "print([name for name in ('torch', 'transformers', 'numpy') if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=True)
    assert ended.stdout.splitlines()[-1] == "[]"
