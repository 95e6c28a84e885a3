"""The page of a head says what ran, the seven steps and their places, the numbers, and how the checks ended."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.invented_trace import array, invented, site, with_array
from tests.page.lesson import lesson
from tests.page.recount import matrices, section, table, text_of
from tracer.page.head import head_page
from tracer.page.record import Excerpt, Page, Role, Table, Verdicts, plain
from tracer.records import LayerTrace
from tracer.result import look_at
from tracer.source.pins import permalink, pins
from tracer.texts import LANGUAGES, message


def page(layer: LayerTrace | None = None, language: str = "en") -> Page:
    return head_page(look_at(layer or invented(), 2), language)


def test_the_title_says_where_and_the_verdict_how_it_ended() -> None:
    shown = page()
    assert plain(shown.title) == "trace qwen3  layer 1 · head 2 → KV head 1"
    assert "passed" in plain(shown.verdict)


def test_what_ran_is_said_with_the_reason_of_every_choice() -> None:
    text = text_of(page())
    assert "qwen3-tiny 3 layers, 4 query heads over 2 KV heads, head_dim 8" in text
    assert "5 tokens to│␣be│␣西│<b>" in text
    assert f"transformers 5.24.0 {message('pipeline.engine_default')} · links go to tag v5.24.0" in text
    assert "cpu-flash (torch 2.13.0) the CPU flash kernel, because torch finds no CUDA device" in text
    assert "float32 on cpu as stored in the checkpoint" in text


@pytest.mark.parametrize(
    ("kind", "window", "said"),
    [
        ("full_attention", None, "a query sees itself and all before it"),
        ("sliding_attention", 3, "a query sees the last 3 tokens, itself included"),
    ],
)
def test_the_kind_of_layer_is_said_with_what_follows_from_it(kind: str, window: int | None, said: str) -> None:
    base = invented()
    text = text_of(page(replace(base, model=replace(base.model, layer_type=kind, window=window))))
    assert f"{kind} by config: {said}" in text


def test_a_step_that_the_code_leaves_out_is_told_apart_from_one_inside_the_call() -> None:
    rows = next(block for block in section(page(), "steps").blocks if isinstance(block, Table)).rows
    assert (plain(rows[1].cells[3]), plain(rows[1].cells[4])) == ("", "left out by transformers")


def test_an_expression_that_gives_several_tensors_is_marked_once() -> None:
    base = invented()
    shared = {name: replace(base.captures["q_proj"], name=name) for name in ("q_proj", "k_proj", "v_proj")}
    (quoted,) = (
        block
        for block in section(page(replace(base, captures={**base.captures, **shared})), "projections").blocks
        if isinstance(block, Excerpt)
    )
    assert [len(row.marks) for row in quoted.lines] == [1]


def test_a_long_prompt_is_cut_between_characters_and_what_is_left_out_is_counted() -> None:
    text = text_of(page(invented(45)))
    assert "45 tokens to│␣be│␣西│<b>│to│" in text
    assert "to│␣be│␣西│<b> … 5 more" in text
    assert "⟨" not in text.split("code run")[0]


@pytest.mark.parametrize(
    ("kind", "link", "said"),
    [
        ("commit", "https://github.com/o/n/blob/" + "a" * 40 + "/f.py#L1", f"links go to commit {'a' * 40}"),
        ("none", None, "no pin knows the installed files"),
        (
            "differs",
            None,
            "where a pinned file differs from the upstream one, its lines are right here",
        ),
    ],
)
def test_it_is_said_what_links_point_to(kind: str, link: str | None, said: str) -> None:
    base = invented()
    captures = {
        name: replace(capture, site=replace(capture.site, permalink=link, link_kind=kind))
        for name, capture in base.captures.items()
    }
    assert said in text_of(page(replace(base, captures=captures)))


def test_the_seven_steps_stand_in_order_with_their_places() -> None:
    rows = next(block for block in section(page(), "steps").blocks if isinstance(block, Table)).rows
    assert [plain(row.cells[0]) for row in rows] == list("1234567")
    names = ["project", "normalise", "rotate", "call", "score", "weigh", "sum up"]
    assert [plain(row.cells[1]) for row in rows] == names
    assert plain(rows[0].cells[4]) == "modeling_qwen3.py:245:8"
    assert plain(rows[3].cells[4]) == "modeling_qwen3.py:850:8"
    assert plain(rows[4].cells[4]) == "inside the call of step 4"


def test_the_mapping_of_heads_is_stated() -> None:
    assert "Query head 2 of 4 reads KV head 1 of 2: 2 query heads share one." in text_of(page())


def test_the_scale_is_followed_hop_by_hop_with_what_proves_each() -> None:
    paths = [block for block in section(page(), "call").blocks if isinstance(block, Table)]
    hops = [[plain(cell) for cell in row.cells] for row in paths[1].rows if row.cells]
    assert hops == [
        ["213:8", "self.head_dim**-0.5", "→ self.scaling", "defined, same object"],
        ["266:8", "self.scaling", "→ scaling=", "source, same object"],
        ["850:8", "flash_kwargs", "→ softmax_scale=", "same object"],
    ]


def test_a_hop_that_holds_another_object_or_did_not_run_is_a_warning() -> None:
    base = invented()
    first, second, third = base.scale.hops
    broken = replace(base.scale, hops=(first, replace(second, same_object=False), replace(third, seen=False)))
    paths = [block for block in section(page(replace(base, scale=broken)), "call").blocks if isinstance(block, Table)]
    proofs = [row.cells[3] for row in paths[1].rows if row.cells]
    assert "another object" in plain(proofs[1])
    assert "did not run" in plain(proofs[2])
    assert any(piece.role is Role.WARNING for piece in proofs[1])


def test_arguments_of_the_call_stand_by_name_and_equal_ones_together() -> None:
    rows = {plain(row.cells[0]): plain(row.cells[1]) for row in section(page(), "call").blocks[2].rows}  # type: ignore[union-attr]
    assert rows == {
        "q": "[T=5, H=4, D=8]",
        "k, v": "[T=5, K=2, D=8]",
        "softmax_scale": "0.3535533905932738",
        "causal": "True",
        "cu_seqlens_q, cu_seqlens_k": "[0, 5]",
        "max_seqlen_q, max_seqlen_k": "5",
        "window_size": "[-1, -1]",
    }
    assert "also dropout_p=0.0, alibi_slopes=None" in text_of(page())


def test_hidden_keys_are_drawn_apart_from_weights_of_zero() -> None:
    far = lesson(q=((9.0, 0.0), (90.0, 0.0)), k=((9.0, 0.0), (-9.0, 0.0)))
    _, weights = matrices(section(head_page(far, "en"), "inside"))
    assert [[piece.text for piece in row] for row in weights.cells] == [["1.00", "·"], ["1.00", "0.00"]]
    assert weights.cells[0][1].role is Role.MASKED
    assert weights.cells[1][1].role is Role.NUMBER


def test_scores_are_coloured_by_how_near_they_are_to_the_rows_largest() -> None:
    scores, _ = matrices(section(head_page(lesson(), "en"), "inside"))
    assert [piece.text for piece in scores.cells[1]] == ["0.71", "0.00"]
    assert [piece.level for piece in scores.cells[1]] == [1.0, pytest.approx(np.exp(-(0.5**0.5)))]


def test_numbers_that_are_not_finite_are_shown_and_counted() -> None:
    base = invented()
    values = base.captures["v"].array.float64().copy()
    values[0, 1, 0] = np.nan
    text = text_of(page(with_array(base, "v", array(values))))
    assert "v holds 1 numbers that are NaN or infinite" in text
    assert "NaN" in text


def test_a_failing_check_comes_first_on_the_page_and_among_the_checks() -> None:
    base = invented()
    failed = page(replace(base, effects=replace(base.effects, untraced_same=False)))
    assert failed.sections[0].id == "failures"
    (verdicts,) = section(failed, "checks").blocks
    assert isinstance(verdicts, Verdicts)
    assert verdicts.items[0].status is Role.FAIL
    assert plain(failed.verdict).startswith("✗ 1 failed")


def test_each_check_says_what_was_measured_expected_and_how_far_apart_they_may_be() -> None:
    (verdicts,) = section(page(), "checks").blocks
    assert isinstance(verdicts, Verdicts)
    for verdict in verdicts.items:
        assert [name for name, _ in verdict.details] == ["measured", "expected", "tolerance"]


def test_warnings_of_the_run_are_shown() -> None:
    assert section(page(), "warnings")
    assert all(part.id != "warnings" for part in page(replace(invented(), warnings=())).sections)


def test_names_from_outside_are_harmless() -> None:
    base = invented()
    hostile = replace(base, checkpoint=replace(base.checkpoint, name="\x1b[2J\u202eevil [bold]"))
    assert r"\x1b[2J\u202eevil [bold]" in text_of(page(hostile))


def test_a_place_in_no_known_folder_has_no_local_link() -> None:
    base = invented()
    unknown = replace(base.kernel, site=site(850, "call()", file=Path("gone.py")))
    rows = next(b for b in section(page(replace(base, kernel=unknown)), "steps").blocks if isinstance(b, Table)).rows
    link = rows[3].cells[4][0].link
    assert link is not None
    assert link.file is None
    assert link.url is not None


def test_both_languages_have_the_same_page() -> None:
    pages = [page(language=language) for language in LANGUAGES]
    shapes = [[(part.id, [type(block) for block in part.blocks]) for part in each.sections] for each in pages]
    assert shapes[0] == shapes[1]
    assert [row["tensor"] for row in table_of(pages[0])] == [row["张量"] for row in table_of(pages[1])]


def table_of(shown: Page) -> list[dict[str, str]]:
    return table(section(shown, "projections"))


def test_the_query_page_follows_one_position() -> None:
    followed = head_page(look_at(invented(), 2), "en", query=3)
    assert plain(followed.title).endswith("query 3 “␣西 2/2”")
    assert [part.id for part in followed.sections][2:5] == ["walk_dots", "walk_softmax", "walk_sum"]


def test_every_source_file_is_named_once_with_its_hash_and_where_it_is_upstream() -> None:
    (row,) = table(section(page(), "sources"))
    assert row["file"] == "modeling_qwen3.py"
    assert row[""] == f"sha256 {'ab' * 6}"
    assert row["pin"] == "tag v5.24.0"
    assert row["the same bytes upstream"].endswith("/blob/v5.24.0/src/transformers/models/qwen3/modeling_qwen3.py")


def test_a_file_that_no_pin_knows_has_no_address() -> None:
    base = invented()
    unknown = site(850, "call()", path="models/mine.py", permalink=None, link_kind="none")
    rows = table(section(page(replace(base, kernel=replace(base.kernel, site=unknown))), "sources"))
    assert (rows[1]["file"], rows[1]["the same bytes upstream"]) == ("mine.py", "")
    assert rows[1]["pin"].startswith("no pin")


def test_a_pinned_file_that_differs_upstream_is_not_called_unpinned() -> None:
    (pin,) = (pin for pin in pins("nano-vllm") if pin.same_until_line is not None)
    base = invented()
    here, _ = permalink(pin, 203)
    for line, link, said in (
        (203, here, f"commit {pin.commit[:12]}, equal up to line 203; what follows is pinned, but differs upstream"),
        (204, None, "pinned, but upstream these lines differ"),
    ):
        place = site(line, "f(q)", path=pin.path, sha256=pin.sha256, permalink=link)
        place = replace(place, link_kind="commit" if link else "differs")
        sources = text_of(page(replace(base, kernel=replace(base.kernel, site=place)))).split("sha256")
        assert any(said in text for text in sources)
        assert not any("no pin" in text for text in sources)
