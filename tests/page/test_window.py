"""Long prompts are shown in part, and the page says which part."""

import pytest

from tests.invented_trace import invented
from tests.page.recount import matrices, section, text_of
from tracer.errors import InputError
from tracer.page.head import head_page
from tracer.page.window import window
from tracer.page.wording import Words
from tracer.result import look_at


def test_a_short_prompt_is_shown_whole_and_nothing_is_said() -> None:
    part = window(5, 5, 16)
    assert part.whole
    assert part.stated(Words("en")) == ""


def test_a_long_prompt_shows_its_end() -> None:
    part = window(100, 100, 16)
    assert (part.rows, part.keys) == (slice(84, 100), slice(84, 100))
    assert part.stated(Words("en")).startswith("Shown are queries 84–99 of 100 and keys 84–99 of 100.")


def test_the_window_ends_at_the_query_and_is_never_smaller_than_asked() -> None:
    assert window(100, 100, 16, query=50).rows == slice(35, 51)
    assert window(100, 100, 16, query=3).rows == slice(0, 16)


def test_keys_end_at_the_place_of_the_last_row_where_there_are_more_keys_than_queries() -> None:
    assert window(4, 10, 3).keys == slice(7, 10)
    assert window(4, 10, 3, query=2).keys == slice(6, 9)


def test_a_window_of_nothing_is_refused() -> None:
    with pytest.raises(InputError) as raised:
        window(5, 5, 0)
    assert (
        raised.value.text("en") == "A window of 0 rows and keys shows nothing. Give --window a whole number from 1 on."
    )


def test_weights_outside_the_window_are_summed_so_that_each_row_still_adds_up() -> None:
    page = head_page(look_at(invented(30), 2), "en", size=6)
    _, weights = matrices(section(page, "inside"))
    assert weights.columns[-1].text == "elsewhere"
    for row in weights.cells:
        numbers = [float(piece.text) for piece in row if piece.text != "·"]
        assert sum(numbers) == pytest.approx(1, abs=0.005 * len(numbers) + 1e-9)


def test_the_page_says_what_is_shown() -> None:
    text = text_of(head_page(look_at(invented(30), 2), "en", size=6))
    assert "Shown are queries 24–29 of 30 and keys 24–29 of 30. --window N shows more" in text
