"""Of a long prompt the page shows queries spread over all of it, with their heaviest keys."""

from dataclasses import replace

import numpy as np

from tests.invented_trace import array, invented
from tests.page.recount import section, text_of
from tracer.page.head import head_page
from tracer.page.record import Table, plain
from tracer.result import look_at


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
        assert plain(row.cells[3]) == f"{weights[query, 0]:.2f}"
        assert plain(row.cells[4]) == f"{weights[query, query]:.2f}"
        assert plain(row.cells[5]).split()[0] == str(int(weights[query].argmax()))
    sharp = int((weights.max(axis=1) > 0.5).sum())
    assert f"On average over all 300 queries: entropy {np.mean(trace.reference.entropy):.2f} nats" in text_of(page)
    assert f"{sharp} of them put more than half" in text_of(page)


def test_in_chinese() -> None:
    assert "整个提示词概览" in text_of(head_page(look_at(invented(300), 1), "zh"))


def test_where_no_row_has_numbers_nothing_is_averaged_and_nothing_warns() -> None:
    """The test run turns every warning into an error."""
    layer = invented(300)
    q = layer.captures["q"]
    captures = {**layer.captures, "q": replace(q, array=array(np.full(q.array.shape, np.nan)))}
    assert "entropy NaN nats" in text_of(head_page(look_at(replace(layer, captures=captures), 1), "en"))
