"""``trace lab`` as a reader meets it: every lab in both languages, at every width, as JSON, and with hostile input."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from rich.cells import cell_len

from tracer.texts import LANGUAGES

LABS = {
    "attention": [],
    "softmax": [],
    "scale": ["--dims", "4,16", "--samples", "200"],
    "mask": [],
    "axes": [],
    "flash": [],
    "gpu": ["--device", "cpu", "--lengths", "8,16"],
}
WITHOUT_TORCH = [name for name in LABS if name != "gpu"]
VARIANTS = [
    ("attention", ["--q", "[[1,0],[0,1],[1,1]]", "--mask", "causal", "--query", "2", "--temperature", "0.5"]),
    ("attention", ["--mask", "[0, 0]"]),
    ("attention", ["--scores", "[1e30, -1e30]"]),
    ("attention", ["--seed", "3"]),
    ("mask", ["--queries", "12", "--keys", "2"]),
    ("axes", ["--tq", "12", "--tk", "12", "--d", "12", "--dv", "12"]),
    ("flash", ["--tile", "1", "--keys", "100", "--query", "50"]),
    ("softmax", ["--scores", "[1e30, 0, -1e30]"]),
]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize(("name", "more"), [*LABS.items(), *VARIANTS])
def test_every_lab_fits_every_width(
    trace: Any, monkeypatch: pytest.MonkeyPatch, name: str, more: list[str], width: int, language: str
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    ended = trace("lab", name, *more, "--lang", language)
    assert (ended.code, ended.err) == (0, "")
    assert max(cell_len(line) for line in ended.out.splitlines()) <= width
    assert "{" not in ended.out


@pytest.mark.parametrize("name", LABS)
def test_every_lab_says_what_to_look_for_what_to_notice_asks_and_leads_on(trace: Any, name: str) -> None:
    out = trace("lab", name, *LABS[name]).out
    headings = ["Before you look", "What to notice", "A question to take along", "Next"]
    places = [out.index(f"── {heading} ─") for heading in headings]
    assert places == sorted(places)
    assert out[places[-1] :].count("trace ") >= 3


@pytest.mark.parametrize("name", LABS)
def test_every_lab_is_json_without_nan(trace: Any, name: str) -> None:
    ended = trace("lab", name, *LABS[name], "--format", "json", "--lang", "zh")
    found = json.loads(ended.out, parse_constant=lambda name: pytest.fail(name))
    assert (found["format"], found["lab"], found["language"]) == ("lab/1", name, "zh")
    assert {"before", "after", "question", "next"} <= set(found)


@pytest.mark.parametrize(("name", "more"), VARIANTS)
def test_strange_numbers_are_json_too(trace: Any, name: str, more: list[str]) -> None:
    json.loads(trace("lab", name, *more, "--format", "json").out, parse_constant=lambda name: pytest.fail(name))


@pytest.mark.parametrize("name", ["scale", "mask", "axes", "flash"])
def test_a_seed_repeats_everything_and_another_changes_it(trace: Any, name: str) -> None:
    one, again, other = (trace("lab", name, *LABS[name], "--seed", seed).out for seed in ("5", "5", "6"))
    assert one == again
    assert one != other


@pytest.mark.parametrize(
    "line",
    [
        ["attention", "--q", "[[1,2],[3]]"],
        ["attention", "--q", "[NaN, 1]"],
        ["attention", "--q", "[" * 5000],
        ["attention", "--temperature", "0"],
        ["attention", "--scale", "inf"],
        ["scale", "--dims", "1000000000"],
        ["scale", "--dims", "-4"],
        ["scale", "--trace", "/no/such/file"],
        ["mask", "--keys", "1000000000"],
        ["axes", "--d", "1000000000"],
        ["flash", "--keys", "1000000000"],
        ["gpu", "--lengths", "1000000000"],
        ["softmax", "--scores", "\x1b[31m"],
        ["attention", "--q", "\x1b]8;;https://evil\x1b\\.npy"],
    ],
)
def test_hostile_input_ends_with_2_and_a_sentence(trace: Any, line: list[str]) -> None:
    for language in LANGUAGES:
        ended = trace("lab", *line, "--lang", language)
        assert (ended.code, ended.out) == (2, "")
        assert "Traceback" not in ended.err
        assert "\x1b" not in ended.err


def test_a_terminal_without_these_letters_gets_them_spelt() -> None:
    code = "from tracer.cli.main import run; [run(['lab', name]) for name in ('attention', 'flash', 'mask')]"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))}
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, env={**kept, "PYTHONIOENCODING": "ascii"}, check=True
    )
    text = ended.stdout.decode("ascii")
    assert "sqrt2" in text
    assert "\\u" not in text


def test_no_lab_but_gpu_imports_torch() -> None:
    lines = [["lab", name, *LABS[name]] for name in WITHOUT_TORCH]
    code = (
        f"import sys; from tracer.cli.main import run; codes = [run(line) for line in {lines!r}]; "
        "heavy = [name for name in ('torch', 'transformers', 'libcst') if name in sys.modules]; "
        "print(codes, heavy, file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stderr.splitlines()[-1] == f"{[0] * len(lines)} []"
