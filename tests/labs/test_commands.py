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


@pytest.mark.parametrize(
    ("words", "language", "said"),
    [
        (["softmax"], "en", "subtracted, all 21 gave weights"),
        (["softmax"], "zh", "全部21种都算出了权重"),
        (["softmax", "--scores", "[1e30, 0, -1e30]"], "en", "of 21 gave weights"),
        (["flash"], "en", "All 12 queries compared"),
        (["flash"], "zh", "比较了全部12个query"),
    ],
)
def test_all_are_called_all(trace: Any, words: list[str], language: str, said: str) -> None:
    out = trace("lab", *words, "--lang", language).out
    assert said in ("".join(out.split()) if language == "zh" else " ".join(out.split()))


@pytest.mark.parametrize("name", LABS)
def test_every_lab_says_what_to_look_for_what_to_notice_asks_and_leads_on(trace: Any, name: str) -> None:
    out = trace("lab", name, *LABS[name]).out
    headings = ["Before you look", "What to notice", "A question to take along", "Next"]
    places = [out.index(f"── {heading} ─") for heading in headings]
    assert places == sorted(places)
    assert out[places[-1] :].count("trace ") >= 3


@pytest.mark.parametrize(
    ("name", "more", "left"),
    [
        ("attention", ["--scores", "[0,0]"], '--scores "[0, 0]"'),
        ("attention", ["--scores", " [0, 0]", "--lang", "zh"], '--scores "[0, 0]"'),
        ("softmax", ["--scores", "[1000,999]"], "lab softmax --scores"),
        ("mask", ["--keys", "2", "--queries", "5"], "--queries 5"),
        ("mask", ["--window", "2"], "--window 2"),
        ("flash", ["--backward"], "--backward"),
        ("gpu", ["--device", "cpu", "--lengths", "8,16"], None),
    ],
)
def test_no_lab_leads_on_to_what_was_just_run(trace: Any, name: str, more: list[str], left: str | None) -> None:
    usual = json.loads(trace("lab", name, *LABS[name], "--format", "json").out)["next"]
    found = json.loads(trace("lab", name, *more, "--format", "json").out)["next"]
    if left is None:
        assert found == usual
    else:
        assert any(left in each["command"] for each in usual)
        assert not any(left in each["command"] for each in found)
        assert len(found) == len(usual) - 1
    assert [each["command"] for each in found] == [e["command"] for e in usual if not left or left not in e["command"]]


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


# ------------------------------------------------------------------------------------- what is said fits what is shown


def out(trace: Any, *arguments: str) -> str:
    return " ".join(trace("lab", *arguments).out.split())


def test_given_scores_are_not_multiplied(trace: Any) -> None:
    said = out(trace, "attention", "--scores", "[0, 0]")
    assert "Multiply component by component" not in said
    assert "its scores were given, one number per key, so nothing is multiplied" in said
    assert "Multiply component by component" in out(trace, "attention")


@pytest.mark.parametrize("scores", ["[1000, 0]", "[-1000, -1001]"])
def test_an_exp_that_could_not_be_taken_is_not_compared(trace: Any, scores: str) -> None:
    said = out(trace, "attention", "--scores", scores)
    assert "every entry of the second is the entry of the first" not in said
    assert "the first leaves the range of float64" in said


def test_a_mask_that_was_given_is_told_of(trace: Any) -> None:
    for more in ((), ("--seed", "3"), ("--scores", "[1, 2]")):
        mask = "[1, 0, 1]" if more[:1] == ("--seed",) else "[1, 0]"
        assert "set by the mask you gave" in out(trace, "attention", "--mask", mask, *more)
        assert "set by the mask you gave" not in out(trace, "attention", *more)


def test_a_row_in_one_tile_is_not_called_incomplete(trace: Any) -> None:
    for more in (("--keys", "1"), ("--query", "3"), ("--keys", "4", "--all-keys")):
        said = out(trace, "flash", *more)
        assert "No row of scores and no row of weights was ever complete" not in said
        assert "fitted into one tile" in said
    assert "With 1 keys" not in out(trace, "flash", "--keys", "1")
    assert "No row of scores and no row of weights was ever complete" in out(trace, "flash")


def test_what_float16_rounds_is_explained_where_it_shows(trace: Any) -> None:
    assert "float16 keeps 11 binary digits" in out(trace, "softmax")
    assert "float16 keeps 11 binary digits" not in out(trace, "softmax", "--scores", "[64, 0]")


def test_rows_without_keys_are_drawn_as_such_however_they_were_masked(trace: Any) -> None:
    said = trace("lab", "mask", "--queries", "5", "--keys", "2").out
    row = next(line for line in said[said.index("number by number") :].splitlines() if line.strip().startswith("q₀"))
    assert [part.split() for part in row.split("q₀")[2:]] == [["·", "·", "·"]] * 2
    assert "sums of rows that see a key" in " ".join(said.split())
    assert "row sums" in trace("lab", "mask").out
    variants = json.loads(trace("lab", "mask", "--queries", "5", "--keys", "2", "--format", "json").out)["variants"]
    for each in variants:
        assert (each["row_sums"][0] is None) == (each["id"] != "none")
        assert each["row_sums"][4] is not None


@pytest.mark.parametrize(("samples", "error"), [("200", "10%"), ("10000", "1.4%"), ("100000", "0.45%")])
def test_the_uncertainty_of_a_variance_is_that_of_its_samples(trace: Any, samples: str, error: str) -> None:
    assert f"uncertain by about {error} (" in out(trace, "scale", "--dims", "4", "--samples", samples)


def test_nothing_is_promised_about_the_machine(trace: Any) -> None:
    assert "look whether the explicit way is the faster one" in out(trace, "gpu", "--device", "cpu", "--lengths", "8")


@pytest.mark.parametrize("text", ["[1,2", "[[1, 2],", "[1, 2 "])
def test_text_that_ends_too_early_is_said_to_end(trace: Any, text: str) -> None:
    ended = trace("lab", "attention", "--q", text)
    assert ended.code == 2
    assert f"the text ends after {text.strip()!r}" in ended.err
    assert "found ''" not in ended.err
