"""What is not there is refused with the range of what is; where there is only one, in the singular."""

from collections.abc import Callable

import pytest

from tracer.bounds import check_head, check_layer, check_query
from tracer.errors import InputError


@pytest.mark.parametrize(
    ("check", "en", "zh"),
    [
        (lambda: check_layer(3, 2), "layers are 0 to 1. Choose one of them with --layer.", "层号是 0 到 1"),
        (lambda: check_layer(-1, 2), "There is no layer -1", "没有第 -1 层"),
        (lambda: check_layer(3, 1), "this model has one layer, 0. Ask for it with --layer 0.", "只有一层，层号是 0"),
        (lambda: check_head(3, 2), "query heads are 0 to 1. Choose one of them", "编号是 0 到 1"),
        (lambda: check_head(3, 1), "has one query head, 0. Ask for it with --head 0.", "只有一个 query 头，编号是 0"),
        (lambda: check_query(7, 5), "has positions 0 to 4. Choose one of those", "位置是 0 到 4"),
        (lambda: check_query(7, 1), "has one position, 0. Ask for it with --query 0.", "只有一个位置 0"),
        (lambda: check_query(1, 5, 3), "positions 3 to 4 only. Choose one of those", "只计算位置 3 到 4"),
        (lambda: check_query(1, 5, 4), "position 4 only. Ask for it with --query 4.", "只计算位置 4。请用 --query 4"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(check: Callable[[], None], en: str, zh: str) -> None:
    with pytest.raises(InputError) as refused:
        check()
    assert en in str(refused.value)
    assert zh in refused.value.text("zh")


def test_what_is_there_passes() -> None:
    check_layer(1, 2)
    check_head(0, 1)
    check_query(4, 5, 4)
    check_query(None, 5)
