"""What stands under a cursor, what a place is elsewhere, what is found, said and cited: all without a screen."""

from dataclasses import replace

import pytest
from browse_support import book, shelf

from tests.invented_trace import invented
from tracer.browse import elsewhere
from tracer.browse.books import Book, Spot
from tracer.browse.citation import citation
from tracer.browse.colours import coloured
from tracer.browse.details import correspondence, details, formula_names
from tracer.browse.elsewhere import How, counterpart, neighbour, on_way, values_to_follow
from tracer.browse.search import MOST, search
from tracer.errors import InputError
from tracer.page.record import plain
from tracer.reading import catalogue
from tracer.texts import LANGUAGES, MissingText, message

MODEL, KERNEL = "transformers/model.py", "transformers/kernel.py"


@pytest.fixture
def first() -> Book:
    found = shelf().book("transformers")
    found.find_places()
    return found


def place(read: Book, id: str) -> Spot:
    read.find_places()
    found = read.place(id)
    assert found is not None
    return found


# ------------------------------------------------------------------------------------------- under the cursor


@pytest.mark.parametrize(
    ("line", "column", "code"),
    [
        (4, 23, "self.head_dim**-0.5"),  # the first character of a named expression
        (4, 41, "self.head_dim**-0.5"),  # its last
        (4, 0, "self.head_dim**-0.5"),  # before the code: what is named on this line
        (4, 10, "self"),  # elsewhere: what the syntax has there
        (4, 50, "self.head_dim**-0.5"),  # in a comment
        (7, 24, "self.q_proj(hidden_states)"),
        (9, 14, "query_states"),  # nothing is named on this line
        (8, 16, "attention"),
        (5, 0, None),
    ],
)
def test_the_expression_under_the_cursor(first: Book, line: int, column: int, code: str | None) -> None:
    found = first.under(MODEL, line, column)
    assert (found.code if found is not None else None) == code


def test_columns_count_characters_and_not_bytes() -> None:
    read = book("transformers", {"model": "x = f('一个数', y)\n", "kernel": ""})
    found = read.under(MODEL, 1, 13)
    assert found is not None
    assert (found.code, found.span.column) == ("y", 13)


def test_places_within_an_f_string_are_not_guessed() -> None:
    read = shelf().book("transformers")
    new = replace(read, files={MODEL: replace(read.files[MODEL], source="y = 1\nx = f'a {y} \\d'\n")})
    found = new.under(MODEL, 2, 9)
    assert found is not None
    assert found.code == "f'a {y} \\d'"


def test_a_file_that_is_no_python_of_today_is_still_shown() -> None:
    read = shelf().book("transformers")
    old = replace(read, files={MODEL: replace(read.files[MODEL], source="print 'x'\n")})
    assert old.under(MODEL, 1, 7) is None


def test_places_are_not_known_before_they_are_looked_for() -> None:
    read = shelf().book("transformers")
    assert (read.spots(MODEL), read.place("scale")) == ((), None)


def test_one_expression_is_one_spot_whatever_is_known_of_it(first: Book) -> None:
    before = first.spots(MODEL)
    first.follow("scale")
    assert [spot.place for spot in before] == ["scale", "project"]
    assert [spot.place for spot in first.spots(MODEL)] == ["scale", "project", None]  # the way adds one step


# ------------------------------------------------------------------------------------------------------- lineage


def test_the_ways_through_an_expression(first: Book) -> None:
    scale = place(first, "scale")
    assert on_way(first, scale, None) is None
    first.follow("scale")
    assert on_way(first, scale, "causal") == "scale"
    assert neighbour(first, scale, "scale", forward=False) is None
    following = neighbour(first, scale, "scale", forward=True)
    assert following is not None
    assert following.code == "self.scaling"
    last = first.steps("scale")[-1]
    assert last.place == "scale.call"
    assert neighbour(first, last, "scale", forward=True) is None


@pytest.mark.parametrize(
    ("id", "elsewhere", "how"),
    [("scale", "scale", How.SAME), ("project", "project", How.SAME), ("scale.call", "scale", How.HOLDS)],
)
def test_the_same_place_in_another_framework(first: Book, id: str, elsewhere: str, how: How) -> None:
    nano = shelf().book("nano-vllm")
    assert counterpart(first, place(first, id), nano) is None  # its places have not been looked for
    nano.find_places()
    found = counterpart(first, place(first, id), nano)
    assert found is not None
    assert (found.spot.place, found.how) == (elsewhere, how)


def test_a_step_of_a_way_is_the_step_of_the_same_role_elsewhere(first: Book) -> None:
    nano = shelf().book("nano-vllm")
    nano.find_places()
    first.follow("scale")
    handed, arrives, last = first.steps("scale")[1:]
    assert values_to_follow(first, handed, nano) == ("scale",)
    nano.follow("scale")
    assert values_to_follow(first, handed, nano) == ()

    def found(spot: Spot) -> tuple[str, How, str]:
        same = counterpart(first, spot, nano)
        assert same is not None
        return same.spot.code, same.how, correspondence(nano, same, "en")

    assert found(handed) == ("head_dim ** -0.5", How.NEAR, "the nearest step on the path of scale: 1 of 2")
    assert found(arrives)[1] is How.NEAR
    assert found(last) == ("self.scaling", How.WAY, "the same step on the path of scale: 2 of 2")


def test_what_the_explicit_code_does_is_held_by_the_call_elsewhere() -> None:
    assert {elsewhere._INSTEAD[step] for step in ("scores", "mask", "softmax", "output", "interface")} == {"call"}


def test_an_expression_without_a_name_stands_for_the_named_one_around_it(first: Book) -> None:
    nano = shelf().book("nano-vllm")
    nano.find_places()
    inner = first.under(MODEL, 7, 36)
    assert inner is not None
    assert (inner.code, inner.place) == ("self.q_proj(hidden_states)", "project")
    part = Spot("transformers", MODEL, replace(inner.span, column=inner.span.column + 12), "", "hidden_states")
    found = counterpart(first, part, nano)
    assert found is not None
    assert (found.spot.place, found.how) == ("project", How.HOLDS)
    assert correspondence(nano, found, "zh") == "包含在 project 之中"


def test_the_lesson_that_puts_a_place_first_is_told_first() -> None:
    assert next(lesson.id for lesson in catalogue.lessons_at("transformers", "norm")) == "rope"
    assert next(lesson.id for lesson in catalogue.lessons_at("transformers", "softmax")) == "softmax"


def test_a_formula_stands_once_in_the_words_of_the_trace() -> None:
    traced = shelf(traced=True).book("transformers")
    said = {section.id: section for section in details(traced, place(traced, "project"), "en")}
    (block,) = said["formula"].blocks
    assert traced.layer is not None
    assert traced.layer.captures["q_proj"].formula in str(block)
    assert catalogue.formulas()["project"]["formula"] not in str(block)


# --------------------------------------------------------------------------------------------------- what is said


@pytest.mark.parametrize(
    ("id", "names"),
    [("project", ("project",)), ("scale.call", ("scale",)), ("causal.call", ("mask",)), ("kernel", ("tile",))],
)
def test_the_formula_of_a_place(first: Book, id: str, names: tuple[str, ...]) -> None:
    spot = Spot("transformers", MODEL, place(first, "scale").span, "", "x", id)
    assert formula_names(spot) == names


def headings(read: Book, spot: Spot, language: str = "en") -> list[str]:
    return [plain(section.heading) for section in details(read, spot, language)]


def test_without_a_trace_there_are_no_values(first: Book) -> None:
    assert "Values" not in headings(first, place(first, "project"))


def test_a_trace_says_where_it_saw_nothing() -> None:
    traced = shelf(traced=True).book("transformers")
    spot = traced.under(MODEL, 9, 14)
    assert spot is not None
    said = {section.id: section for section in details(traced, spot, "en")}
    assert "kept nothing" in str(said["values"].blocks)


def test_the_numbers_of_another_file_are_not_shown_here(first: Book) -> None:
    other = invented()
    traced = Book(first.library, first.files, other)
    traced.find_places()
    said = {section.id: section for section in details(traced, place(traced, "project"), "en")}
    assert "whose file differs" in str(said["values"].blocks)
    assert "[B=" not in str(said["values"].blocks)
    assert "value:" not in citation(traced, place(traced, "project"), "en")


# -------------------------------------------------------------------------------------------------------- citing


def test_a_citation_has_lesson_formula_tensor_place_and_value() -> None:
    traced = shelf(traced=True).book("transformers")
    rows = citation(traced, place(traced, "project"), "en").splitlines()
    sha = traced.files[MODEL].sha256[:12]
    assert rows[0] == f"transformers 1.0 · transformers/model.py:7 (sha256 {sha})"
    assert rows[1] == "    self.q_proj(hidden_states)"
    assert "lesson: One hidden state, three roles (L2)" in rows
    assert "formula: Q = x·W_qᵀ   K = x·W_kᵀ   V = x·W_vᵀ" in rows
    assert any(row.startswith("tensor: q_proj = ") and "T=5" in row for row in rows)
    assert any(row.startswith("value: […, [") for row in rows)
    assert rows[-1] == "my derivation: …"


@pytest.mark.parametrize(
    ("id", "formula"),
    [
        ("norm", "q̂ = q ⊙ γ / √(mean(q²) + ε)"),
        ("norm.k", "k̂ = k ⊙ γ / √(mean(k²) + ε)"),
        ("norm.formula", "q̂ = q ⊙ γ / √(mean(q²) + ε)"),
        ("project.k", "K = x·W_kᵀ"),
        ("project.v", "V = x·W_vᵀ"),
    ],
)
def test_a_formula_is_that_of_the_tensor_at_the_place(id: str, formula: str) -> None:
    read = shelf().book("transformers")
    spot = replace(place(read, "project"), place=id, capture=None)
    assert f"formula: {formula}" in citation(read, spot, "en").splitlines()
    said = {section.id: section for section in details(read, spot, "en")}
    assert formula in str(said["formula"].blocks)


def test_a_citation_of_the_scale_has_every_digit() -> None:
    traced = shelf(traced=True).book("transformers")
    assert "scale 的值：0.3535533905932738" in citation(traced, place(traced, "scale"), "zh")


def test_a_dictionary_that_hands_on_two_values_says_both_by_name() -> None:
    traced = shelf(traced=True).book("transformers")
    spot = place(traced, "scale")
    layer = traced.layer
    assert layer is not None
    flag = replace(layer.scale.hops[0], value=True, same_object=None)
    traced.layer = replace(layer, causal=replace(layer.causal, hops=(flag,)))
    rows = citation(traced, spot, "en").splitlines()
    assert "value of scale: 0.3535533905932738" in rows
    assert "value of causal: True" in rows
    said = {section.id: section for section in details(traced, spot, "en")}
    assert "causal" in str(said["values"].blocks)


# ------------------------------------------------------------------------------------------------------ searching


def test_names_come_before_explanations_and_these_before_lines() -> None:
    stand = shelf()
    for read in stand.books():
        read.find_places()
    hits = search(stand.books(), "HEAD_DIM")
    assert [(hit.name, hit.spot.framework) for hit in hits[:3]] == [
        ("scale", "transformers"),
        ("scale", "nano-vllm"),
        ("scale.call", "transformers"),  # its formula speaks of head_dim
    ]
    assert {hit.name for hit in hits[3:]} == {""}


@pytest.mark.parametrize(("words", "found"), [("隐藏状态", "project"), ("L16", "scale"), ("√D", "scale")])
def test_texts_and_formulas_are_searched_in_every_language(first: Book, words: str, found: str) -> None:
    assert found in [hit.name for hit in search([first], words)]


def test_all_words_have_to_be_there(first: Book) -> None:
    assert [hit.spot.span.line for hit in search([first], "def forward")] == [6]
    assert search([first], "def nowhere") == ()
    assert search([first], "   ") == ()


def test_no_more_is_found_than_can_be_read() -> None:
    read = book("transformers", {"model": "x\n" * 500, "kernel": ""})
    assert len(search([read], "x")) == MOST


# ---------------------------------------------------------------------------------------------------------- other


def test_a_framework_that_is_not_here_names_the_command() -> None:
    with pytest.raises(InputError, match="trace vendor sync vllm"):
        shelf().book("vllm")


@pytest.mark.parametrize("source", ["", "x", "x\n", "'''a\nb'''\r\nx = 1 # c\r\n", "\n\n\n", "a\x0cb\n"])
def test_colours_have_an_entry_for_every_line(source: str) -> None:
    from tracer.source.text import Text

    assert len(coloured(source)) == len(Text.of(source).starts)


def test_colours_stand_where_the_words_are() -> None:
    start, end, _ = coloured("x = 1\nreturn  # why\n")[1][0]
    assert (start, end) == (0, 6)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_words_of_the_application_are_there_in_every_language(language: str) -> None:
    for name in ("nothing", "waiting", "no_others", "on_no_way", "copied", "not_here"):
        assert message(f"browse.{name}").text(language)
    with pytest.raises(MissingText):
        message("browse.nonsense").text(language)
