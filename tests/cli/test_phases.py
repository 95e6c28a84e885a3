"""A cached prefix, a later chunk and decode, asked for as a user does: rows are named by their tokens, checks hold, a
saved trace opens again, and what cannot be is refused in a sentence."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import tracer
from tests.cli.conftest import Trace as Command
from tracer import data
from tracer.errors import InputError
from tracer.page.diff import diff_page
from tracer.page.head import head_page
from tracer.page.overview import measure, overview_page
from tracer.page.record import Matrix, Page, Pictures
from tracer.page.report import report
from tracer.records import Status
from tracer.render.json import to_json
from tracer.render.terminal.render import render
from tracer.render.terminal.screen import Screen
from tracer.result import Trace
from tracer.saved.diff import diff
from tracer.saved.numbers import Status as Outcome
from tracer.saved.read import load
from tracer.saved.write import save

pytestmark = pytest.mark.usefixtures("nano_vllm_files")
IDS = [5, 9, 5, 9, 5, 7, 8, 9]
WAYS: tuple[dict[str, Any], ...] = ({"cached": 5}, {"decode": True})


def traced(**asked: Any) -> Trace:
    return tracer.trace(engine="nano-vllm", tokens=IDS, head=2, layer=1, dtype="float64", **asked)


@pytest.fixture(scope="module")
def behind() -> Trace:
    return traced(cached=5)


@pytest.fixture(scope="module")
def decoded() -> Trace:
    return traced(decode=True)


def matrices(page: Page) -> list[Matrix]:
    blocks = [block for section in page.sections for block in section.blocks]
    blocks += [inner for block in blocks for inner in getattr(block, "matrices", getattr(block, "blocks", ()))]
    return [block for block in blocks if isinstance(block, Matrix)]


def text(page: Page) -> str:
    return " ".join(render(page, Screen(width=200)).split())


# ------------------------------------------------------------------------------------------------------- what runs


def test_queries_are_the_new_tokens_and_keys_are_all(behind: Trace, decoded: Trace) -> None:
    for found, cached in ((behind, 5), (decoded, 7)):
        assert found.layer.cached == cached
        assert found.layer.captures["q"].array.shape[0] == 8 - cached
        assert found.layer.captures["k"].array.shape[0] == 8
        assert not [check.id for check in found.checks if check.status is Status.FAIL]
    assert behind.layer.kernel.arguments["block_table"] == [[0]]
    assert decoded.layer.kernel.function == "flash_attn_with_kvcache"


def test_their_rows_are_those_of_the_whole_prompt(behind: Trace) -> None:
    whole = traced()
    found = diff(whole.layer, behind.layer)
    assert found.cached == 5
    assert {tensor.status for tensor in found.tensors} <= {Outcome.SAME, Outcome.DIFFERS}  # none of another shape
    assert max(tensor.max_abs or 0.0 for tensor in found.tensors) < 1e-5


def test_a_comparison_says_which_queries_both_have(behind: Trace, decoded: Trace) -> None:
    whole = traced()
    assert "compared are the queries 5 to 7, which both have" in text(diff_page(diff(whole.layer, behind.layer), "en"))
    one = diff(whole.layer, decoded.layer)
    assert "compared is query 7, the only one that both have" in text(diff_page(one, "en"))
    assert "双方都有的唯一一个 query 7" in text(diff_page(one, "zh"))


# --------------------------------------------------------------------------------------------- how rows are named


def test_rows_carry_their_tokens_positions(behind: Trace) -> None:
    found = matrices(head_page(behind, "en"))
    assert len(found) == 3
    assert {tuple(label.position for label in matrix.rows) for matrix in found} == {("5", "6", "7")}


def test_the_page_says_what_was_cached(behind: Trace, decoded: Trace) -> None:
    assert "keys and values of the first 5 come from a cache; queries are 5 to 7" in text(head_page(behind, "en"))
    assert "decode: keys and values of the first 7 come from a cache; the one query is 7" in text(
        head_page(decoded, "en")
    )
    assert "decode：前 7 个 token 的 key 和 value 来自缓存；唯一的 query 是 7" in text(head_page(decoded, "zh"))


def test_a_single_query_behind_a_cache_is_told_as_one() -> None:
    alone = traced(cached=7)
    for language, header, drawn in (
        (
            "en",
            "keys and values of the first 7 come from a cache; the one query is 7",
            "The one query is that of position 7",
        ),
        ("zh", "前 7 个 token 的 key 和 value 来自缓存；唯一的 query 是 7", "图中唯一的 query 是位置 7 的"),
    ):
        assert header in text(head_page(alone, language))
        assert drawn in text(overview_page([alone.layer], language))
    small = text(head_page(alone, "en", size=2))
    assert "Shown are query 7, the only one that was computed, and keys 6–7 of 8. --window N shows more keys." in small
    for page in (head_page(alone, "en"), head_page(alone, "en", size=2), overview_page([alone.layer], "en")):
        assert "7 to 7" not in text(page)
        assert "7–7" not in text(page)


def test_the_pooled_picture_of_a_single_query_speaks_of_keys_alone() -> None:
    ids = [5 + i % 9 for i in range(24)]
    one = tracer.trace(engine="nano-vllm", tokens=ids, head=2, layer=1, cached=23)
    assert "The 24 keys are drawn as 16 blocks" in text(overview_page([one.layer], "en"))
    assert "24 个 key 合成 16 块" in text(overview_page([one.layer], "zh"))


def test_a_window_names_tokens_too(behind: Trace) -> None:
    assert "Shown are queries 6–7 of 8 and keys 6–7 of 8." in text(head_page(behind, "en", size=2))


def test_a_query_is_followed_by_its_place_in_the_prompt(behind: Trace) -> None:
    page = text(head_page(behind, "en", query=6))
    assert "query 6 " in page
    assert "Keys hidden from this query: 1." in page  # token 7 alone


def test_checks_name_tokens(behind: Trace) -> None:
    measured = {check.id: str(check.measured) for check in behind.checks}
    assert "token 6, 7" in measured["causal.effect"] or "6, 7" in measured["causal.effect"]
    (row,) = re.findall(r"query (\d+)", measured["softmax.rows"])
    assert int(row) >= 5


def test_all_heads_are_measured_at_the_tokens_own_places(behind: Trace) -> None:
    whole = traced()
    for few, all_ in zip(measure([behind.layer]), measure([whole.layer]), strict=True):
        assert few.pattern.rows == 3
        assert few.pattern.tokens == 8
        assert few.pattern.picture == pytest.approx(all_.pattern.picture[5:], abs=1e-6, nan_ok=True)


def test_pictures_have_the_rows_that_were_computed_and_say_which(behind: Trace) -> None:
    shown = overview_page([behind.layer], "en")
    (drawn,) = next(section for section in shown.sections if section.id == "pictures").blocks
    assert isinstance(drawn, Pictures)
    for picture in drawn.items:
        assert [row.index(None) if None in row else 8 for row in picture.values] == [6, 7, 8]  # no row is all hidden
    assert "The queries are those of positions 5 to 7: no others were computed" in text(shown)
    assert "图中的 query 是位置 5 到 7 的" in text(overview_page([behind.layer], "zh"))
    assert "no others were computed" not in text(overview_page([traced().layer], "en"))


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_json_follows_the_schema(way: dict[str, Any]) -> None:
    document = to_json(traced(**way, query=7), "en")
    jsonschema.validate(document, json.loads(data.schema("trace-1").read_text(encoding="utf-8")))
    rows = 1 if "decode" in way else 3
    assert document["head"]["window"] == {"rows": [0, rows], "keys": [0, 8], "whole": True}
    assert document["request"]["cached"] == 8 - rows


def test_rows_of_json_are_counted_from_the_first_token_that_was_not_cached(behind: Trace) -> None:
    document = to_json(behind, "en", window=2)
    first = document["request"]["cached"] + document["head"]["window"]["rows"][0]
    assert (document["request"]["cached"], first) == (5, 6)
    assert document["head"]["kernel_output"][0] == behind.layer.kernel.output.float64()[6 - 5, 2].tolist()
    assert document["head"]["visible"][0] == [True, False]  # keys 6 and 7 of query 6
    told = [check["figures"].get("query") for check in document["checks"]]
    assert all(query is None or query >= 5 for query in told)
    assert any(query is not None for query in told)
    assert to_json(traced(), "en")["request"]["cached"] == 0


# ------------------------------------------------------------------------------------------------------------ saved


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_saved_trace_opens_again(way: dict[str, Any], tmp_path: Path) -> None:
    found = traced(**way)
    save(found, tmp_path / "trace.safetensors")
    again = load(tmp_path / "trace.safetensors")
    assert again.cached == found.layer.cached
    assert diff(found.layer, again).same


def test_a_saved_trace_of_fewer_rows_than_its_engine_can_have_is_refused(behind: Trace, tmp_path: Path) -> None:
    layer = behind.layer
    engine = dataclasses.replace(layer.request.engine, value="transformers")
    told = dataclasses.replace(layer, request=dataclasses.replace(layer.request, engine=engine))
    save(dataclasses.replace(behind, layer=told), tmp_path / "trace.safetensors")
    with pytest.raises(InputError, match="cu_seqlens_q rises from 0 to 8"):
        load(tmp_path / "trace.safetensors")


# ---------------------------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"cached": 8}, "8 of 8 tokens cannot be cached"),
        ({"cached": -1}, "-1 of 8 tokens cannot be cached"),
        ({"decode": True, "cached": 3}, "Leave out cached="),
        ({"cached": 5, "query": 4}, "Query position 4 is cached: this run computes positions 5 to 7 only."),
        ({"cached": 5.0}, "trace(cached=…) takes a whole number"),
        ({"decode": 1}, "trace(decode=…) takes True or False"),
        ({"decode": True, "tokens": [5]}, "this prompt has a single token"),
        ({"cached": 5, "engine": "transformers"}, 'Add engine="nano-vllm".'),
        ({"decode": True, "engine": "transformers@5.16.1"}, 'Add engine="nano-vllm".'),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        tracer.trace(**{"engine": "nano-vllm", "tokens": IDS, **asked})


def test_a_report_shows_whole_prompts_only(behind: Trace) -> None:
    with pytest.raises(InputError, match="A report shows a whole prompt"):
        report(behind, "en")


# ------------------------------------------------------------------------------------------------ the command line


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--cached", "5", "--head", "2"), "queries are 5 to 7"),
        (("--decode",), "the one query is 7"),
    ],
    ids=str,
)
def test_the_command_traces_them(trace: Command, words: tuple[str, ...], said: str) -> None:
    ended = trace("qwen3", "--engine", "nano-vllm", "--tokens", ",".join(map(str, IDS)), *words)
    assert ended.code == 0
    assert said in " ".join(ended.out.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("qwen3", "--decode"), "Add --engine nano-vllm."),
        (
            ("qwen3", "--engine", "nano-vllm", "--cached", "15", "--head", "0", "--query", "2"),
            "Query position 2 is cached: this run computes position 15 only. Ask for it with --query 15.",
        ),
        (("qwen3", "--engine", "nano-vllm", "--cached", "x"), "--cached"),
        (("qwen3", "--engine", "nano-vllm", "--decode", "--format", "html", "-o", "x.html"), "A report shows a whole"),
        (("report", "qwen3", "--engine", "nano-vllm", "--cached", "3", "-o", "x.html"), "A report shows a whole"),
    ],
    ids=str,
)
def test_the_command_refuses_in_a_sentence(
    trace: Command, words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = trace(*words)
    assert ended.code == 2
    assert said in " ".join(ended.err.split())
    assert list(tmp_path.iterdir()) == []


def test_a_cached_query_of_a_saved_trace_is_named(trace: Command, behind: Trace, tmp_path: Path) -> None:
    save(behind, tmp_path / "trace.safetensors")
    ended = trace("show", str(tmp_path / "trace.safetensors"), "--query", "2")
    assert ended.code == 2
    assert "computes positions 5 to 7 only" in " ".join(ended.err.split())
    assert trace("show", str(tmp_path / "trace.safetensors"), "--query", "6").code == 0
