"""From a request to an answer: what reaches the pipeline, what is written where, and how the command ends."""

import gc
import io
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.invented_trace import invented
from tracer import pipeline, result
from tracer.errors import InputError
from tracer.records import LayerTrace, Status
from tracer.result import Trace as Traced
from tracer.result import look_at
from tracer.saved.read import load
from tracer.saved.write import save

Trace = Callable[..., Any]
Calls = list[tuple[tuple[Any, ...], dict[str, Any]]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """What the pipeline was asked for; it answers with an invented trace at once."""
    asked: Calls = []

    def traced(*arguments: Any, **options: Any) -> tuple[LayerTrace, ...]:
        options.pop("report")("httpx 0.28.1", 120_000, 240_000)
        options.pop("progress")(0, 1)
        options.pop("cost")(1234, 5678)
        asked.append((arguments, options))
        layer = invented()
        return tuple(
            replace(layer, request=replace(layer.request, layer=number, head=options["head"]))
            for number in options["layers"]
        )

    monkeypatch.setattr(pipeline, "trace_layers", traced)
    return asked


DEFAULTS = {
    "revision": None, "layers": [0], "head": 0, "heads": None, "query": None, "prompt": None, "tokens": None,
    "chat": False, "engine": "transformers", "kernel": "auto", "device": "auto", "dtype": "auto", "light": True,
    "placement": pipeline.STREAMED, "cached": 0, "decode": False,
}  # fmt: skip


def test_without_options_everything_is_left_to_the_run(trace: Trace, calls: Calls) -> None:
    ended = trace("qwen3")
    assert ended.err == ""
    assert "qwen3" in ended.out
    assert calls == [((None,), DEFAULTS)]


def test_one_head_keeps_only_what_it_needs(trace: Trace, calls: Calls) -> None:
    trace("qwen3", "--head", "2")
    assert calls == [((None,), DEFAULTS | {"head": 2, "heads": [2]})]


def test_every_option_reaches_the_run(trace: Trace, calls: Calls, tmp_path: Path) -> None:
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("the cat\n", encoding="utf-8")
    options = {
        "--layer": "1", "--head": "2", "--query": "3", "--prompt-file": str(prompt), "--checkpoint": "Qwen/Qwen3-0.6B",
        "--revision": "main", "--kernel": "sdpa", "--device": "cuda:1", "--dtype": "bfloat16",
        "--save": str(tmp_path / "saved.safetensors"),
    }  # fmt: skip
    trace("qwen3", "--chat", *(word for option in options.items() for word in option))
    wanted = {"layers": [1], "head": 2, "query": 3, "prompt": "the cat", "chat": True, "revision": "main"}
    more = {"kernel": "sdpa", "device": "cuda:1", "dtype": "bfloat16"}
    assert calls == [(("Qwen/Qwen3-0.6B",), DEFAULTS | wanted | more)]


def test_tokens_reach_the_run_as_numbers(trace: Trace, calls: Calls) -> None:
    trace("qwen3", "--tokens", "5, 9,5")
    assert calls[0][1]["tokens"] == (5, 9, 5)


def test_tokens_come_from_a_file_or_standard_input_too(
    trace: Trace, calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = tuple(range(40_000))  # more than a command line can hold
    (tmp_path / "ids.txt").write_text("\n".join(map(str, ids)) + "\n", encoding="utf-8")
    trace("qwen3", "--tokens", f"@{tmp_path / 'ids.txt'}")
    assert calls[0][1]["tokens"] == ids
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"5 , 9,\n5")))
    trace("qwen3", "--tokens", "-")
    assert calls[1][1]["tokens"] == (5, 9, 5)
    missing = trace("qwen3", "--tokens", f"@{tmp_path / 'none.txt'}")
    assert missing.code == 2
    assert "Check the path given to --tokens." in missing.err
    (tmp_path / "ids.txt").write_text("5, x", encoding="utf-8")
    wrong = trace("qwen3", "--tokens", f"@{tmp_path / 'ids.txt'}")
    assert "part 2 is x." in wrong.err


def test_the_answer_goes_whole_into_a_file(trace: Trace, calls: Calls, tmp_path: Path) -> None:
    ended = trace("qwen3", "-o", str(tmp_path / "page.txt"))
    assert (ended.out, ended.err) == ("", f"Wrote {tmp_path / 'page.txt'}.\n")
    assert (tmp_path / "page.txt").read_bytes().decode("utf-8") == trace("qwen3").out


@pytest.mark.parametrize("option", ["--output", "--save"])
def test_an_unwritable_place_is_found_before_any_work(trace: Trace, calls: Calls, tmp_path: Path, option: str) -> None:
    ended = trace("qwen3", option, str(tmp_path / "missing" / "file"))
    assert (ended.code, ended.out, calls) == (2, "", [])
    assert "the folder does not exist. Nothing was written." in ended.err


def test_two_outputs_cannot_share_a_file(trace: Trace, calls: Calls, tmp_path: Path) -> None:
    ended = trace("qwen3", "--output", str(tmp_path / "a"), "--save", str(tmp_path / "a"))
    assert (ended.code, calls) == (2, [])
    assert "Two outputs would go to the same file" in ended.err


@pytest.mark.parametrize(
    ("statuses", "code"),
    [((Status.PASS, Status.NOT_TESTABLE), 0), ((Status.PASS, Status.FAIL), 1), ((Status.NOT_TESTABLE,), 3)],
)
def test_the_checks_decide_how_a_trace_ends(
    trace: Trace, monkeypatch: pytest.MonkeyPatch, statuses: tuple[Status, ...], code: int
) -> None:
    whole = look_at(invented(), 0)
    checks = tuple(replace(whole.checks[0], status=status) for status in statuses)
    monkeypatch.setattr(pipeline, "trace_layers", lambda *_, **__: (whole.layer,))
    monkeypatch.setattr(result, "look_at", lambda *_: replace(whole, checks=checks))
    assert trace("qwen3", "--head", "0").code == code


def test_without_a_head_all_are_shown_and_failing_ones_named(
    trace: Trace, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(layer: LayerTrace, head: int) -> Traced:
        traced = look_at(layer, head)
        status = Status.FAIL if head in (1, 3) else Status.PASS
        return replace(traced, checks=(replace(traced.checks[0], status=status),))

    monkeypatch.setattr(result, "look_at", failing)
    ended = trace("qwen3")
    assert ended.code == 1
    assert ended.err == (
        "Some checks failed, in these heads (layer:head): 0:1, 0:3. Open the first with --layer 0 --head 1.\n"
    )


def test_several_layers_come_from_one_run_and_stand_side_by_side(trace: Trace, calls: Calls) -> None:
    ended = trace("qwen3", "--layers", "1..2")
    assert calls == [((None,), DEFAULTS | {"layers": range(1, 3)})]
    assert "layers 1–2" in ended.out
    every = json.loads(trace("qwen3", "--layers", "1..2", "--format", "json").out)
    assert [(one["request"]["layer"], one["request"]["head"]) for one in every] == [
        (layer, head) for layer in (1, 2) for head in range(4)
    ]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--layers", "2"], "--layers takes a first and a last layer joined by two dots, such as 0..3; found 2."),
        (["--layers", "3..1"], "such as 0..3; the first, 3, is after the last, 1."),
        (["--layers", "0..1", "--head", "2"], "--head concerns one layer, and --layers asks for several."),
        (["--layers", "0..1", "--save", "x"], "--save concerns one layer"),
        (["--layers", "0..1", "--layer", "0"], "--layer concerns one layer"),
    ],
)
def test_a_range_of_layers_is_two_numbers_and_all_heads(
    trace: Trace, calls: Calls, words: list[str], told: str
) -> None:
    ended = trace("qwen3", *words)
    assert (ended.code, calls) == (2, [])
    assert told in ended.err


def test_two_saved_traces_are_compared_without_a_model(trace: Trace, tmp_path: Path) -> None:
    a, b = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    layer = invented()
    save(look_at(layer, 0), a)
    other = replace(layer, versions={**layer.versions, "torch": "0.1"})
    save(look_at(other, 0), b)
    assert trace("diff", str(a), str(a)).code == 0
    differs = trace("diff", str(a), str(b))
    assert differs.code == 1
    assert "0.1" in differs.out
    assert json.loads(trace("diff", str(a), str(b), "--format", "json").out)["format"] == "diff/1"


def test_json_of_one_head_is_an_object_and_of_all_a_list(trace: Trace, calls: Calls) -> None:
    one = json.loads(trace("qwen3", "--head", "2", "--format", "json").out)
    assert (one["format"], one["request"]["head"]) == ("trace/1", 2)
    every = json.loads(trace("qwen3", "--format", "json").out)
    assert [each["request"]["head"] for each in every] == [0, 1, 2, 3]


def test_json_is_utf_8_whatever_the_terminal_has(trace: Trace, calls: Calls, tmp_path: Path) -> None:
    trace("qwen3", "--head", "0", "--lang", "zh", "--format", "json", "-o", str(tmp_path / "trace.json"))
    assert "默认" in (tmp_path / "trace.json").read_bytes().decode("utf-8")


def test_errors_of_the_run_leave_no_file(trace: Trace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*_: Any, **__: Any) -> Traced:
        raise InputError("pipeline.query_range", query=9, last=4)

    monkeypatch.setattr(pipeline, "trace_layers", fail)
    ended = trace("qwen3", "-o", str(tmp_path / "page.txt"))
    assert (ended.code, ended.out) == (2, "")
    assert list(tmp_path.iterdir()) == []


def test_a_saved_trace_opens_at_any_head(trace: Trace, calls: Calls, tmp_path: Path) -> None:
    saved = tmp_path / "saved.safetensors"
    ended = trace("qwen3", "--head", "1", "--save", str(saved))
    assert ended.err == f"Wrote {saved}.\n"
    assert load(saved).request == replace(invented().request, layer=0, head=1)
    for options in ([], ["--head", "2"], ["--query", "3"], ["--lang", "zh"]):
        shown = trace("show", str(saved), *options)
        assert (shown.code, shown.err) == (ended.code, "")
        assert shown.out != ""


def test_a_saved_trace_shows_what_was_asked_for_then(trace: Trace, tmp_path: Path) -> None:
    layer = invented()
    saved = tmp_path / "saved.safetensors"
    save(look_at(replace(layer, request=replace(layer.request, head=3)), 3), saved)
    assert trace("show", str(saved)).out == trace("show", str(saved), "--head", "3").out
    assert trace("show", str(saved)).out != trace("show", str(saved), "--head", "0").out


def _advice(page: str, heading: str) -> list[str]:
    """The options and commands under the heading of what can be done next."""
    rows = page.partition(f"── {heading} ─")[2].splitlines()[1:]
    return [row[1:].partition("  ")[0] for row in rows if row[1:2].strip()]


@pytest.mark.parametrize(("language", "heading"), [("en", "Next"), ("zh", "接下来")])
def test_what_can_be_done_next_can_be_done(
    trace: Trace, calls: Calls, tmp_path: Path, language: str, heading: str
) -> None:
    """Each piece of advice is taken, in the command that gave it; a file is not advised to be saved again."""
    saved, other, html = (tmp_path / name for name in ("a.safetensors", "b.safetensors", "R.html"))

    def advised(*words: str) -> list[str]:
        return _advice(trace(*words, "--lang", language).out, heading)

    run = ["qwen3", "--head", "1"]
    assert advised(*run) == ["--query 4", "--head", "--save FILE.safetensors"]
    assert advised(*run, "--save", str(saved)) == ["--query 4", "--head", "trace show FILE"]

    layer = invented()
    save(look_at(replace(layer, request=replace(layer.request, head=1, query=2)), 1), other)
    shown = ["--query 4", "--head 2", "--format html -o R.html", "trace diff FILE OTHER"]
    assert advised("show", str(saved)) == shown
    assert advised("show", str(other)) == shown
    assert advised("show", str(other), "--query", "4", "--head", "3") == ["--query 0", "--head 0", *shown[2:]]
    for words in ("--query 4", "--head 2", f"--format html -o {html}"):
        assert trace("show", str(saved), *words.split()).code == 0
    assert trace("diff", str(saved), str(other)).code in (0, 1)
    report = html.read_text(encoding="utf-8")
    assert "--head 2</code>" in report
    assert "--save FILE" not in report


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--head", "99"], "99"),
        (["--query", "99"], "99"),
        (["--window", "0"], "--window takes a whole number from 1; found 0."),
    ],
)
def test_show_refuses_what_is_not_in_the_trace(trace: Trace, tmp_path: Path, options: list[str], words: str) -> None:
    save(look_at(invented(), 0), tmp_path / "saved.safetensors")
    ended = trace("show", str(tmp_path / "saved.safetensors"), *options)
    assert (ended.code, ended.out) == (2, "")
    assert words in ended.err


def test_show_needs_a_file_that_is_there(trace: Trace, tmp_path: Path) -> None:
    assert "FILE is missing. See trace show --help." in trace("show").err
    ended = trace("show", str(tmp_path / "missing.safetensors"))
    assert (ended.code, ended.out) == (2, "")
    assert "missing.safetensors" in ended.err


def test_the_collector_works_again_once_the_layer_runs(
    trace: Trace, monkeypatch: pytest.MonkeyPatch, calls: Calls
) -> None:
    gc.disable()
    try:
        trace("qwen3")
        assert gc.isenabled()
    finally:
        gc.enable()
        gc.unfreeze()


def test_progress_and_cost_are_told_on_request(trace: Trace, calls: Calls) -> None:
    assert trace("qwen3", "--verbose").err == (
        "Loading the model's code and the checkpoint ...\nfetching httpx 0.28.1: 0.1/0.2 MiB\nRunning layer 0 ...\n"
        "Read 1,234 bytes of weights, of 5,678 in the checkpoint.\n"
    )


def test_the_place_of_a_hostile_file_name_is_told_harmlessly(trace: Trace, calls: Calls, tmp_path: Path) -> None:
    ended = trace("qwen3", "-o", str(tmp_path / "\x1b[31mpage"))
    assert ended.err == f"Wrote {tmp_path}/\\x1b[31mpage.\n"


def test_nothing_is_written_over_what_is_read(trace: Trace, calls: Calls, tmp_path: Path) -> None:
    prompt, saved, folder = tmp_path / "prompt.txt", tmp_path / "saved.safetensors", tmp_path / "checkpoint"
    prompt.write_text("the cat")
    save(look_at(invented(), 0), saved)
    folder.mkdir()
    (tmp_path / "link").symlink_to(saved)
    before = saved.read_bytes()
    for words in (
        ["qwen3", "--prompt-file", str(prompt), "-o", str(prompt)],
        ["qwen3", "--checkpoint", str(folder), "--head", "2", "--save", str(folder / "model.safetensors")],
        ["show", str(saved), "-o", str(saved)],
        ["show", str(saved), "-o", str(tmp_path / "link")],
        ["diff", str(saved), str(saved), "-o", str(saved)],
    ):
        ended = trace(*words)
        assert (ended.code, ended.out, calls) == (2, "", [])
        assert "would replace what is read from" in ended.err
    assert (prompt.read_text(), saved.read_bytes()) == ("the cat", before)


def test_two_links_to_one_file_are_one_output(trace: Trace, calls: Calls, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).symlink_to(tmp_path / "target")
    ended = trace("qwen3", "--head", "2", "--output", str(tmp_path / "one"), "--save", str(tmp_path / "two"))
    assert (ended.code, calls) == (2, [])
    assert "Two outputs would go to the same file" in ended.err
