"""What `trace source` shows: every name has a page in both languages, and every line on it is the file's own."""

from pathlib import Path

import pytest
from reading_support import FLASH, excerpts, files_of, library, shown, written

from tracer.errors import InputError
from tracer.reading import ask, catalogue, kernel_page, releases
from tracer.reading.library import Library
from tracer.reading.releases import chosen
from tracer.reading.wording import Words
from tracer.texts import LANGUAGES


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_contents_name_everything_that_can_be_asked_for(language: str) -> None:
    out = shown(language)
    for name in (*catalogue.lessons(), *catalogue.VALUES, *catalogue.REFERENCES):
        assert f" {name} " in out


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("lesson", list(catalogue.lessons()))
def test_every_explanation_has_a_page_with_its_places(lesson: str, language: str) -> None:
    lessons = catalogue.lessons()
    if "transformers" not in lessons[lesson].places:
        with pytest.raises(InputError, match="trace vendor sync"):
            shown(language, name=lesson)
        return
    page = ask.page(ask.Asked(name=lesson), language, 100)
    assert lessons[lesson].texts[language]["title"] in written(page)
    assert len(excerpts(page)) == len(lessons[lesson].places["transformers"])


def test_every_excerpt_shows_lines_of_the_installed_file_with_their_true_numbers() -> None:
    file = Library(chosen("transformers")).table.files["model"]
    lines = Path(file.file).read_text(encoding="utf-8").split("\n")
    page = ask.page(ask.Asked(name="three-steps"), "en", 100)
    for excerpt in excerpts(page):
        for row in excerpt.lines:
            assert lines[row.number - 1].strip() == row.text.strip()
        assert any(row.marks for row in excerpt.lines)


def test_the_marked_stretch_is_the_expression() -> None:
    (excerpt,) = excerpts(ask.page(ask.Asked(name="scale.call"), "en", 100))
    marked = [row.text[mark.start : mark.end] for row in excerpt.lines for mark in row.marks]
    assert marked == ["softmax_scale"]


def test_a_path_tells_each_hop_what_is_proven_and_what_is_assumed() -> None:
    out = shown(name="scale")
    for expected in (
        "1  self.scaling is set",
        "handed on as argument scaling=",
        "dictionary entry 'softmax_scale':  ✓",
    ):
        assert expected in out
    assert out.count("? assumed:") == 1
    assert "? assuming something, which is said there: 1" in out
    assert "This call runs when is_fa_with_varlen_kwargs" in out
    assert "or from" not in out  # dict is called only where there is no such kernel


def test_softmax_scale_and_is_causal_are_other_names_of_the_same_paths() -> None:
    assert shown(name="softmax_scale") == shown(name="scale")
    assert shown(name="is_causal") == shown(name="causal")


@pytest.mark.parametrize("value", ["q", "k", "v"])
def test_a_tensor_begins_at_the_hidden_state(value: str) -> None:
    assert "arrives as parameter hidden_states" in shown(name=value)


def test_the_way_of_the_flag_is_explained_by_what_it_hides() -> None:
    out = shown(name="causal")
    assert "Visible is not probable" in out
    assert "what one call replaces" in out


def test_a_formula_without_axes_is_a_scalar() -> None:
    assert "\na scalar\n" in "\n".join(row.strip() for row in shown(name="scale").splitlines())
    assert "标量" in shown("zh", name="formulas")
    assert " []" not in shown(name="formulas")


def test_the_answer_of_the_exercise_stands_at_the_end() -> None:
    out = shown(name="exercise")
    assert out.index("What are the weights") < out.index("softmax(") < out.index("[0.5, 0.5]")


def test_a_lesson_for_a_framework_without_its_lines_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ask.library, "library", lambda name: library("flash-attn"))
    out = shown(name="scores", framework="flash-attn")
    assert "flash-attn has no line of its own for this. The explanation has places in: transformers" in out


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", catalogue.REFERENCES)
def test_the_reference_pages(name: str, language: str) -> None:
    out = shown(language, name=name)
    if name == "formulas":
        assert all(entry["formula"].split("   ")[0] in out for entry in catalogue.formulas().values())
    if name == "glossary":
        assert all(entry[language]["name"] in out for entry in catalogue.glossary().values())
    if name == "route":
        assert all(stop["command"] in out for stop in catalogue.route())


def test_the_list_names_every_place_with_its_line() -> None:
    out = shown(listing=True)
    read = Library(chosen("transformers"))
    for place in read.places:
        assert f" {place} " in out
        assert read.site(place).place in out


def test_a_name_that_is_unknown_gets_near_ones() -> None:
    with pytest.raises(InputError, match=r"'softmx' is nothing .* Near it: softmax"):
        shown(name="softmx")
    with pytest.raises(InputError, match=r"Near it: scale, call, scaling\."):
        shown(name="scal")


def test_an_unknown_framework_or_version_is_told_the_known_ones() -> None:
    with pytest.raises(InputError, match="Known ones: transformers, nano-vllm, vllm, sglang, flash-attn"):
        shown(name="scale", framework="tgi")
    with pytest.raises(InputError, match=r"These can: 0\.33\.0, 0\.27\.1"):
        shown(name="scale", framework="vllm@0.1")


@pytest.mark.parametrize("framework", ["nano-vllm", "vllm", "sglang", "flash-attn"])
def test_files_that_are_not_here_are_named_with_the_command_that_brings_them(framework: str) -> None:
    with pytest.raises(InputError, match=f"trace vendor sync {framework}"):
        shown(name="scale", framework=framework)


def test_the_release_is_the_installed_one_else_the_newest_with_a_proven_commit() -> None:
    assert chosen("transformers").installed
    assert chosen("vllm").version == "0.27.1"
    assert chosen("vllm@0.33.0").version == "0.33.0"
    assert [release.version for release in releases.every("sglang")] == ["0.5.23", "0.5.18"]


@pytest.mark.parametrize("width", [80, 200])
def test_the_table_of_frameworks_shows_what_is_here_and_how_to_get_the_rest(width: int) -> None:
    out = shown(frameworks=True, width=width)
    assert "modeling_qwen3.py:" in out
    for framework in ("nano-vllm", "vllm", "sglang"):
        assert f"trace vendor sync {framework}" in out


def test_what_flash_attention_replaces_is_told_beside_the_explicit_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "read", lambda release, members: files_of("flash-attn", FLASH))
    explicit = Library(chosen("transformers"))
    monkeypatch.undo()
    kernel = library("flash-attn")
    kernel.__dict__["table"] = _table(kernel)
    page = kernel_page.kernel_page(Words("en"), kernel, explicit, None)
    out = written(page)
    for part in (
        "torch.matmul(query, key_states.transpose(2, 3)) * scaling",
        "6  Finish: O = Õ / ℓ",
        "pad",
        "varlen_fwd",
    ):
        assert part in out
    assert "m′" in written(kernel_page.kernel_page(Words("zh"), kernel, explicit, None))


def _table(read: Library):  # type: ignore[no-untyped-def]
    from tracer.source import anchors

    return anchors.table(read.defined, files_of("flash-attn", FLASH), None)
