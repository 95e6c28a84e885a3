"""Of a long prompt the page shows queries spread over all of it, with their heaviest keys."""

from dataclasses import replace

import numpy as np

from tests.invented_trace import array, invented
from tests.page.recount import section, text_of
from tracer.maths.attention import Head, head
from tracer.maths.visibility import Visibility
from tracer.page import sparse
from tracer.page.head import head_page
from tracer.page.numbers import share
from tracer.page.record import Prose, Table, plain
from tracer.page.tokens import Shown
from tracer.page.wording import Words
from tracer.result import look_at

NAMES = tuple(Shown(n, n, f"t{n}", "00") for n in range(300))


def said_about(head: Head, language: str = "en") -> str:
    part = sparse.section(Words(language), head, NAMES)
    assert part is not None
    return " ".join([plain(part.heading), *(plain(block.text) for block in part.blocks if isinstance(block, Prose))])


def test_a_short_prompt_has_no_such_section() -> None:
    assert "sparse" not in [part.id for part in head_page(look_at(invented(20), 1), "en").sections]


def test_queries_over_the_whole_prompt_with_what_they_attend_to() -> None:
    trace = look_at(invented(300), 1)
    page = head_page(trace, "en")
    part = section(page, "sparse")
    table = next(block for block in part.blocks if isinstance(block, Table))
    assert [plain(row.cells[0]) for row in table.rows][:: len(table.rows) - 1] == ["0", "299"]
    weights = trace.reference.weights(slice(None))
    for row in table.rows:
        query = int(plain(row.cells[0]))
        assert plain(row.cells[3]) == share(float(weights[query, 0]))
        assert plain(row.cells[4]) == share(float(weights[query, query]))
        assert plain(row.cells[5]).split()[0] == str(int(weights[query].argmax()))
    sharp = int((weights.max(axis=1) > 0.5).sum())
    entropy = f"{np.mean(trace.reference.entropy):.2f}"
    assert f"On average over the 300 queries, positions 0 to 299: entropy {entropy} nats" in text_of(page)
    assert "16 of these queries, spread evenly over them" in text_of(page)
    assert "Left out of the means" not in text_of(page)
    assert f"{sharp} of them put more than half" in text_of(page)


def test_in_chinese() -> None:
    assert "全部 query 概览" in text_of(head_page(look_at(invented(300), 1), "zh"))


def test_behind_a_cached_prefix_the_queries_that_were_computed_are_meant() -> None:
    whole = look_at(invented(300), 1).reference
    few = head(whole.q[20:], whole.k, whole.v, whole.scale, Visibility(tq=280, tk=300))
    said = {language: said_about(few, language) for language in ("en", "zh")}
    assert "On average over the 280 queries, positions 20 to 299:" in said["en"]
    assert "16 of these queries" in said["en"]
    assert "prompt" not in said["en"]
    assert "位置 20 到 299 的 280 个 query 平均" in said["zh"]


def test_queries_that_no_mean_counts_are_told() -> None:
    whole = look_at(invented(300), 1).reference
    q = whole.q.copy()
    q[7] = np.nan
    broken = head(q, whole.k, whole.v, whole.scale, whole.visibility)
    assert "since they see no key or their numbers are not finite: 1 of these queries." in said_about(broken)


def test_where_no_row_has_numbers_nothing_is_averaged_and_nothing_warns() -> None:
    """The test run turns every warning into an error."""
    layer = invented(300)
    q = layer.captures["q"]
    captures = {**layer.captures, "q": replace(q, array=array(np.full(q.array.shape, np.nan)))}
    assert "entropy NaN nats" in text_of(head_page(look_at(replace(layer, captures=captures), 1), "en"))
