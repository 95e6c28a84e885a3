"""The report in a real browser: with and without JavaScript, by mouse and by keyboard, narrow and wide, on paper."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.invented_trace import array, invented, with_array
from tests.render.html.conftest import HEAD, HOSTILE, TOKENS, Opened
from tracer.page.report import report
from tracer.records import LayerTrace
from tracer.render.html.render import render
from tracer.render.json import to_json
from tracer.result import look_at

Open = Callable[..., Opened]
LOCAL = ("file://", "data:")
LAST = 1.01e-6  # one in the last place of a result
OPEN_ALL = "document.querySelectorAll('details').forEach(each => { each.removeAttribute('name'); each.open = true })"
CELLS = "rows => rows.map(row => [...row.querySelectorAll('td')].map(cell => cell.textContent))"


@pytest.fixture(scope="module")
def answer(layer: LayerTrace) -> dict[str, Any]:
    """The same head as JSON, which the clicks are held against."""
    return json.loads(json.dumps(to_json(look_at(layer, HEAD), "en")))


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def click(page: Any, grid: str, row: int, column: int) -> None:
    page.evaluate(
        "([g, i, j]) => document.querySelector(`[data-grid=${g}]`).tBodies[0].rows[i].cells[j + 1].click()",
        [grid, row, column],
    )


def result(page: Any, name: str) -> float:
    return number(page.inner_text(f"#panel [data-result={name}]"))


def terms(page: Any) -> list[list[float]]:
    """The rows of the panel's table, without their names."""
    rows = page.eval_on_selector_all("#panel .terms tbody tr", CELLS)
    return [[number(cell) for cell in row] for row in rows]


# ------------------------------------------------------------------------------------------- quiet and contained


@pytest.mark.parametrize("script", [True, False])
def test_no_request_leaves_and_nothing_complains(opened: Open, html: str, script: bool) -> None:
    seen = opened(html, script=script)
    if script:
        click(seen.page, "s", 5, 3)
        seen.page.check("#lang-zh", force=True)
        seen.page.check("#theme-dark", force=True)
    assert [url for url in seen.requests if not url.startswith(LOCAL)] == []
    assert len(seen.requests) == 1
    assert seen.complaints == []


def test_the_policy_stops_what_is_not_ours(opened: Open, html: str) -> None:
    intruder = (
        '<script>document.title = "owned"</script><img src="https://example.org/a.png"><p style="color:red" id="i">'
    )
    seen = opened(html.replace('<main id="main"', f'{intruder}<main id="main"'))
    assert seen.page.title() != "owned"
    assert [url for url in seen.requests if url.startswith("https://example.org")] in ([], seen.requests[1:2])
    assert seen.page.evaluate("getComputedStyle(document.getElementById('i')).color") != "rgb(255, 0, 0)"
    assert any("Content Security Policy" in text for text in seen.complaints)


def test_hostile_tokens_stay_text(opened: Open, hostile_html: str) -> None:
    seen = opened(hostile_html)
    for row in range(TOKENS):
        click(seen.page, "o", row, 0)
    assert seen.page.title().startswith("trace qwen3")
    assert seen.page.evaluate("document.images.length + document.scripts.length") == 2
    assert seen.complaints == []
    shown = seen.page.inner_text("#files")
    assert HOSTILE[0].decode().replace(" ", "␣") in shown
    assert "\\u202eevil\\u202c" in shown
    assert "\\x00\\x1b[31m" in shown
    assert "&lt;b&gt;&amp;" in shown


# ------------------------------------------------------------------------------------------------------- clicks


def test_a_score_is_the_sum_over_d_times_the_scale(opened: Open, html: str, answer: dict[str, Any]) -> None:
    page = opened(html).page
    for i, j in ((0, 0), (7, 3), (11, 11)):
        click(page, "s", i, j)
        rows = terms(page)
        assert len(rows) == answer["model"]["head_dim"]
        for q, k, product in rows:
            assert product == pytest.approx(q * k, abs=1.1e-8)
        assert result(page, "dot") == pytest.approx(sum(product for *_, product in rows), abs=LAST)
        assert result(page, "score") == pytest.approx(result(page, "dot") * answer["scale"]["value"], abs=LAST)
        assert result(page, "score") == pytest.approx(answer["head"]["scores"][i][j], abs=LAST)


def test_an_output_is_the_sum_over_keys(opened: Open, html: str, answer: dict[str, Any]) -> None:
    page = opened(html).page
    for i, e in ((0, 0), (6, 2), (11, 7)):
        click(page, "o", i, e)
        rows = terms(page)
        assert len(rows) == i + 1
        assert result(page, "output") == pytest.approx(sum(product for *_, product in rows), abs=LAST)
        assert result(page, "output") == pytest.approx(answer["head"]["output"][i][e], abs=LAST)
        assert result(page, "kernel") == pytest.approx(answer["head"]["kernel_output"][i][e], abs=1e-8)


def test_weights_and_row_sums_are_taken_apart(opened: Open, html: str, answer: dict[str, Any]) -> None:
    page = opened(html).page
    click(page, "a", 9, 4)
    assert result(page, "weight") == pytest.approx(answer["head"]["weights"][9][4], abs=LAST)
    click(page, "r", 9, 0)
    scores_and_shares = terms(page)
    assert result(page, "max") == pytest.approx(max(score for score, _ in scores_and_shares), abs=LAST)
    assert result(page, "max") == pytest.approx(answer["head"]["row_max"][9], abs=LAST)
    assert result(page, "total") == pytest.approx(
        sum(share for _, share in scores_and_shares), abs=len(scores_and_shares) * LAST
    )
    assert result(page, "lse") == pytest.approx(answer["head"]["lse"][9], abs=LAST)


EVERY_PANEL = """grid => {
  const table = document.querySelector(`[data-grid=${grid}]`).tBodies[0], panel = document.getElementById("panel");
  return [...table.rows].flatMap(row => [...row.querySelectorAll("td")].map(cell => {
    cell.click();
    const results = [...panel.querySelectorAll("[data-result]")].map(each => [each.dataset.result, each.textContent]);
    return {
      cell: panel.querySelector(".result strong").textContent,
      terms: [...panel.querySelectorAll(".terms tbody tr")].map(
        row => [...row.querySelectorAll("td")].map(one => one.textContent)),
      results: Object.fromEntries(results),
    };
  }));
}"""


def last(text: str) -> float:
    """One in the last place of a printed number, and a little for the test's own arithmetic."""
    return 1.001 * 10.0 ** -len(text.partition(".")[2]) + 1e-13 * abs(number(text))


def follows(shown: str, computed: float) -> bool:
    return abs(number(shown) - computed) <= last(shown)


@pytest.fixture(scope="module")
def large(layer: LayerTrace) -> LayerTrace:
    """The same layer with components that need more decimals to be recomputed from."""
    for name, times in (("q", 40.0), ("v", 3000.0)):
        layer = with_array(layer, name, array(layer.captures[name].array.float64() * times))
    return layer


@pytest.mark.parametrize("which", ["whole", "window", "large"])
def test_in_every_panel_each_number_follows_from_those_above_it(
    opened: Open, layer: LayerTrace, large: LayerTrace, which: str
) -> None:
    made = {"whole": (layer, 64), "window": (invented(30), 8), "large": (large, 64)}[which]
    page = opened(render(report(look_at(made[0], HEAD), "en", size=made[1]))).page
    scale = made[0].scale.value
    panels = {grid: page.evaluate(EVERY_PANEL, grid) for grid in ("s", "r", "e", "a", "o")}
    seen = [each for each in panels["s"] if "score" in each["results"]]
    assert len(seen) > 30
    for each in seen:
        results, terms = each["results"], each["terms"]
        assert all(follows(product, number(q) * number(k)) for q, k, product in terms)
        assert follows(results["dot"], sum(number(product) for *_, product in terms))
        assert follows(results["score"], number(results["dot"]) * scale)
    for each in panels["r"]:
        results, terms = each["results"], each["terms"]
        m = number(results["max"])
        assert all(follows(e, math.exp(number(s) - m)) for s, e in terms)
        parts = [number(e) for _, e in terms] + [number(results.get("others", "0"))]
        assert follows(results["total"], sum(parts))
        assert follows(results["lse"], m + math.log(number(results["total"])))
    for each in (*panels["e"], *panels["a"]):
        results = each["results"]
        if "below" in results:
            assert follows(results["below"], number(results["score"]) - number(results["max"]))
            assert follows(results["share"], math.exp(number(results["below"])))
        if "total" in results:
            assert follows(results["weight"], number(results["share"]) / number(results["total"]))
    for each in panels["o"]:
        results, terms = each["results"], each["terms"]
        assert all(follows(product, number(a) * number(v)) for a, v, product in terms if v)
        assert follows(results["output"], sum(number(product) for *_, product in terms))
        assert follows(results["apart"], number(results["kernel"]) - number(results["output"]))


def test_rows_that_really_see_no_key_are_shown_as_such(opened: Open) -> None:
    """Two sequences packed, the first with six queries and two keys: aligned to the bottom right, four see nothing."""
    layer = invented(12)
    packed = {**layer.kernel.arguments, "cu_seqlens_q": [0, 6, 12], "cu_seqlens_k": [0, 2, 12]}
    trace = look_at(replace(layer, kernel=replace(layer.kernel, arguments=packed)), HEAD)
    assert trace.reference.empty_rows == (0, 1, 2, 3)
    seen = opened(render(report(trace, "en")))
    page = seen.page
    assert "Rows 0, 1, 2, 3 may see no key at all" in page.inner_text("#head")
    for grid in ("r", "o"):
        click(page, grid, 1, 0)
        assert "there is no largest score and nothing to divide by" in page.inner_text("#panel")
        assert "NaN" not in page.inner_text("#panel")
    assert (
        page.eval_on_selector_all("[data-grid=a] tbody tr:nth-child(2) td", "x => x.map(y => y.textContent).join('')")
        == "·" * 12
    )
    page.select_option("#lens-query", "1")
    assert page.is_visible("#lens-empty")
    assert page.inner_text("#lens-entropy") == "—"
    page.select_option("#lens-query", "5")
    assert page.is_hidden("#lens-empty")
    assert seen.complaints == []


def test_a_hidden_cell_says_so_and_gives_no_score(opened: Open, html: str) -> None:
    page = opened(html).page
    for grid in ("s", "e", "a"):
        click(page, grid, 2, 9)
        assert "may not see this key" in page.inner_text("#panel")
        assert page.locator("#panel [data-result=score], #panel [data-result=weight]").count() == 0
    click(page, "m", 2, 9)
    assert "Hidden from this query" in page.inner_text("#panel")


def test_captured_numbers_are_shown_whole_and_lead_to_their_expression(
    opened: Open, html: str, layer: LayerTrace
) -> None:
    page = opened(html).page
    click(page, "kt", 5, 3)
    exact = layer.captures["k"].array.numbers()[3, 1, 5]
    assert np.float32(result(page, "exact")) == exact
    assert page.get_attribute("#panel a", "href") == "#c-k"


def test_the_cells_that_a_sum_is_made_of_are_pointed_at(opened: Open, html: str) -> None:
    page = opened(html).page
    click(page, "s", 6, 2)
    assert page.locator("[data-grid=q] td.factor").count() == 8
    assert page.locator("[data-grid=kt] td.factor").count() == 8
    click(page, "o", 6, 2)
    assert page.locator("[data-grid=q] td.factor").count() == 0
    assert page.locator("[data-grid=a] td.factor").count() == page.locator("[data-grid=v] td.factor").count() == TOKENS


def test_everything_can_be_reached_by_keyboard(opened: Open, html: str) -> None:
    page = opened(html).page
    page.evaluate("document.querySelector('[data-grid=s] td[tabindex=\"0\"]').focus()")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert page.inner_text("#panel .result strong").startswith("S[2, 1]")
    page.keyboard.press("End")
    assert page.inner_text("#panel .result strong").startswith("S[2, 11]")
    page.keyboard.press("Home")
    assert page.inner_text("#panel .result strong").startswith("S[2, 0]")
    assert page.evaluate("document.querySelectorAll('[data-grid=s] td[tabindex=\"0\"]').length") == 1
    page.keyboard.press("Control+End")
    assert page.inner_text("#panel .result strong").startswith("S[11, 11]")
    page.keyboard.press("Control+Home")
    assert page.inner_text("#panel .result strong").startswith("S[0, 0]")
    page.keyboard.press("Escape")
    assert page.is_hidden("#panel")


def test_every_grid_keeps_a_place_for_the_tab_key(opened: Open, html: str) -> None:
    page = opened(html).page
    for grid in ("s", "a", "o", "s", "kt"):
        click(page, grid, 3, 1)
        stops = page.eval_on_selector_all(
            "[data-grid]", "grids => grids.map(grid => grid.querySelectorAll('td[tabindex=\"0\"]').length)"
        )
        assert stops == [1] * 9


# ------------------------------------------------------------------------------- languages, appearance, no script


@pytest.mark.parametrize("script", [True, False])
def test_the_language_switches_without_a_script_too(opened: Open, html: str, script: bool) -> None:
    page = opened(html, script=script).page
    assert "The head, element by element" in page.inner_text("#head")
    assert "逐个元素看这个头" not in page.inner_text("#head")
    page.check("#lang-zh", force=True)
    assert "逐个元素看这个头" in page.inner_text("#head")
    assert "The head, element by element" not in page.inner_text("#head")


def test_the_panel_speaks_the_chosen_language(opened: Open, html: str) -> None:
    page = opened(html).page
    click(page, "s", 4, 1)
    page.check("#lang-zh", force=True)
    assert "乘积之和" in page.inner_text("#panel")
    assert page.evaluate("document.documentElement.lang") == "zh"


def test_light_and_dark_follow_the_system_and_the_switch(opened: Open, html: str) -> None:
    def brightness(page: Any) -> int:
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(int(part) for part in colour.removeprefix("rgb(").rstrip(")").split(","))

    page = opened(html, script=False, color_scheme="dark").page
    assert brightness(page) < 200
    page.check("#theme-light", force=True)
    assert brightness(page) > 600
    page.check("#theme-dark", force=True)
    assert brightness(page) < 200


def test_all_that_teaches_can_be_read_without_a_script(opened: Open, html: str) -> None:
    page = opened(html, script=False).page
    assert "JavaScript is off" in page.inner_text(".no-script >> nth=0")
    for chapter in ("head", "walk", "source", "path", "wrong", "temperature", "scaling", "practice", "heads", "files"):
        assert page.is_visible(f"#{chapter} h2")
    assert page.is_visible("[data-grid=o] tbody tr:last-child td:last-child")
    assert page.is_hidden("#panel")
    assert page.is_hidden("#slider")
    page.click("#wrong-no_mask summary")
    assert page.is_visible("#wrong-no_mask .caught")
    page.click("#task-worked .answer summary")
    assert "0.6698" in page.inner_text("#task-worked .answer")


# -------------------------------------------------------------------------------------------- lens and practice


def test_the_lens_at_one_shows_the_models_weights_and_sharpens_below(
    opened: Open, html: str, answer: dict[str, Any]
) -> None:
    page = opened(html).page
    rows = page.eval_on_selector_all("#lens-bars tr", NUMBERS)
    assert len(rows) == TOKENS
    np.testing.assert_allclose([number(s) for s, _ in rows], answer["head"]["scores"][TOKENS - 1], atol=5e-5)
    np.testing.assert_allclose([number(a) for _, a in rows], answer["head"]["weights"][TOKENS - 1], atol=5e-5)
    entropy = number(page.inner_text("#lens-entropy"))
    page.fill("#lens", "-1")
    assert number(page.inner_text("#lens-value")) == pytest.approx(0.32)
    assert number(page.inner_text("#lens-entropy")) < entropy
    page.click("#lens-reset")
    assert number(page.inner_text("#lens-entropy")) == entropy


NUMBERS = "rows => rows.map(row => [...row.querySelectorAll('.num')].map(cell => cell.textContent))"


@pytest.mark.parametrize("position", [-2, -1, 0, 0.5, 2])
def test_the_lens_of_a_long_prompt_counts_the_keys_outside_the_window(opened: Open, position: float) -> None:
    trace = look_at(invented(40), HEAD)
    page = opened(render(report(trace, "en", size=8))).page
    page.select_option("#lens-query", "3")
    page.fill("#lens", str(position))
    scores = trace.reference.scores(slice(35, 36))[0, :36]
    shares = np.exp((scores - scores.max()) / 10 ** (position / 2))
    weights = shares / shares.sum()
    *inside, (_, outside) = page.eval_on_selector_all("#lens-bars tr", NUMBERS)
    np.testing.assert_allclose([number(a) for _, a in inside], weights[32:], atol=6e-5)
    assert number(outside) == pytest.approx(weights[:32].sum(), abs=6e-5)
    assert "32 visible keys outside the window" in page.inner_text("#lens-bars tr:last-child")
    assert page.inner_text("#lens-count") == "36"
    assert page.inner_text("#lens-total") == "1.0000"
    entropy = -np.where(weights > 0, weights * np.log(weights), 0).sum()
    assert number(page.inner_text("#lens-entropy")) == pytest.approx(entropy, abs=6e-5)


def test_a_wrong_answer_is_explained_before_the_text_reopens(opened: Open, html: str) -> None:
    page = opened(html, script=False).page
    page.check("#closed", force=True)
    assert page.is_hidden("#head")
    assert page.is_visible("#practice")
    page.click("#question-axis .wrong-choice >> nth=0 >> summary")
    said = page.inner_text("#question-axis .wrong-choice[open]")
    assert said.index("Not so.") < said.index("Read it again")
    page.click("#question-axis .wrong-choice[open] .reopen")
    assert page.is_visible("#g-a")
    assert page.is_hidden("#scaling")
    page.click(".book-closed label")
    assert page.is_visible("#scaling")


def test_self_assessment_stays_in_this_browser(opened: Open, html: str) -> None:
    seen = opened(html)
    page = seen.page
    assert page.evaluate("localStorage.length") == 0
    page.check("#skill_softmax-alone", force=True)
    page.reload()
    assert page.is_checked("#skill_softmax-alone")
    assert (
        page.evaluate("JSON.stringify({...localStorage})")
        == '{"tracer-report-skills":"{\\"skill_softmax\\":\\"alone\\"}"}'
    )
    page.click("#skills-clear")
    assert page.evaluate("localStorage.length") == 0
    assert {url.split("#")[0] for url in seen.requests} == {page.url.split("#")[0]}


def test_a_citation_can_be_copied(opened: Open, html: str) -> None:
    page = opened(html, permissions=["clipboard-read", "clipboard-write"]).page
    page.evaluate("document.querySelector('#g-s .cite').open = true")
    page.click("#g-s .copy")
    assert page.evaluate("navigator.clipboard.readText()") == page.inner_text("#g-s .quote")
    assert page.inner_text("#g-s .quote").endswith("· S")


def test_a_cell_can_be_cited(opened: Open, html: str) -> None:
    page = opened(html, permissions=["clipboard-read", "clipboard-write"]).page
    for grid, cell in (("s", "S[7, 3] = "), ("r", "m, Σ[7]"), ("o", "O[7, 3] = "), ("kt", "K[3, 7]")):
        click(page, grid, 7, 3)
        page.evaluate("document.querySelector('#panel .cite').open = true")
        page.click("#panel .copy")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied == page.inner_text("#panel .quote")
        assert copied.startswith("trace qwen3 --layer 1 --head 2 · qwen3-tiny")
        assert cell in copied
        assert "12 tokens" in copied


def test_an_address_of_something_closed_opens_it(opened: Open, html: str) -> None:
    page = opened(html).page
    page.evaluate("location.hash = 'wrong-no_scale'")
    page.wait_for_selector("#wrong-no_scale[open]")


@pytest.mark.parametrize("hash", ["%", "%E0%A4%A", "%00", "nowhere", "a%20b"])
def test_no_address_stops_the_page(opened: Open, html: str, hash: str) -> None:
    seen = opened(html)
    page = seen.page
    page.goto(f"{page.url}#{hash}")
    page.reload()
    assert page.locator("#lens-query option").count() == TOKENS
    assert page.locator("button.copy").count() > 40
    page.check("#skill_softmax-alone", force=True)
    assert page.evaluate("localStorage.length") == 1
    assert seen.complaints == []


def test_a_symbol_leads_there_again(opened: Open, html: str) -> None:
    page = opened(html).page
    symbol = "document.querySelector('[data-goto=g-s]').dispatchEvent(new MouseEvent('click'))"
    for _ in range(2):
        page.evaluate(symbol)
        page.wait_for_function("Math.abs(document.getElementById('g-s').getBoundingClientRect().top) < 40")
        page.evaluate("scrollTo(0, 0)")


# ------------------------------------------------------------------------------------- widths, paper, accessibility


@pytest.mark.parametrize("width", [320, 768, 1280])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_nothing_sticks_out_sideways(opened: Open, html: str, width: int, language: str) -> None:
    page = opened(html, width=width).page
    page.check(f"#lang-{language}", force=True)
    page.evaluate(
        "document.querySelectorAll('details').forEach(each => { each.removeAttribute('name'); each.open = true })"
    )
    click(page, "s", 4, 1)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [390, 480, 560, 700, 1100])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_cell_is_squeezed_and_no_formula_broken(opened: Open, html: str, width: int, language: str) -> None:
    page = opened(html, width=width).page
    page.check(f"#lang-{language}", force=True)
    squeezed = page.eval_on_selector_all(
        ".plain :is(td, th)",
        "cells => cells.filter(cell => cell.innerText.trim().length > 4 && cell.offsetParent && cell.clientWidth < 30)"
        ".map(cell => cell.innerText)",
    )
    assert squeezed == []
    broken = page.eval_on_selector_all(
        ".plain .r-formula",
        "all => all.filter(each => each.getClientRects().length > 1).map(each => each.textContent)",
    )
    assert broken == []


@pytest.mark.parametrize("width", [390, 1280, 1600])
def test_with_the_book_closed_the_practice_keeps_its_width(opened: Open, html: str, width: int) -> None:
    page = opened(html, width=width).page
    before = page.evaluate("document.getElementById('practice').clientWidth")
    page.check("#closed", force=True)
    assert page.evaluate("document.getElementById('practice').clientWidth") == before


@pytest.mark.parametrize("script", [True, False])
def test_paper_gives_no_answer_away_that_was_not_opened(opened: Open, html: str, script: bool) -> None:
    page = opened(html, script=script).page
    page.click("#task-worked .answer summary")
    page.click("#question-axis .choice >> nth=0 >> summary")
    if script:
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.is_visible("#task-worked .answer li >> nth=0")
    assert page.is_hidden("#task-exercise .answer li >> nth=0")
    said = page.inner_text("#question-axis")
    assert said.count("Not so.") == 1
    assert "Right." not in said
    assert "Over the keys" in said
    assert page.is_visible(".on-paper")
    assert page.is_visible("#wrong-no_mask .caught")
    if script:
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert not page.evaluate("document.querySelector('#wrong-no_mask').open")


def test_on_paper_many_columns_go_on_below_and_stay_readable(opened: Open) -> None:
    page = opened(render(report(look_at(invented(40), HEAD), "en")), script=False, width=700).page
    page.emulate_media(media="print")
    for size in page.eval_on_selector_all(
        "[data-grid] tbody td", "cells => [...new Set(cells.map(cell => getComputedStyle(cell).fontSize))]"
    ):
        assert float(size.removesuffix("px")) * 0.75 >= 5.5
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    cut = "cells => cells.filter(cell => cell.scrollWidth > cell.clientWidth + 1).map(cell => cell.textContent)"
    assert page.eval_on_selector_all(".wide tbody td", cut) == []


def test_on_paper_everything_is_open_and_nothing_is_cut(opened: Open, html: str) -> None:
    page = opened(html, script=False).page
    page.emulate_media(media="print")
    assert page.is_hidden(".switches")
    assert page.is_hidden(".contents")
    assert page.is_visible("#wrong-no_mask .caught")
    assert page.evaluate("getComputedStyle(document.querySelector('.matrix .scroll')).overflow") == "visible"
    assert page.pdf(format="A4")[:5] == b"%PDF-"


@pytest.fixture(scope="module")
def axe() -> Any:
    from axe_playwright_python.sync_playwright import Axe

    return Axe()


@pytest.mark.parametrize(("width", "scheme", "language"), [(1480, "light", "zh"), (320, "dark", "en")])
def test_no_serious_finding_of_axe(opened: Open, html: str, axe: Any, width: int, scheme: str, language: str) -> None:
    page = opened(html, width=width, color_scheme=scheme, bypass_csp=True).page
    page.check(f"#lang-{language}", force=True)
    page.evaluate(
        "document.querySelectorAll('details').forEach(each => { each.removeAttribute('name'); each.open = true })"
    )
    click(page, "s", 4, 1)
    found = axe.run(page).response["violations"]
    serious = [
        f"{each['id']}: {each['nodes'][0]['html'][:120]}" for each in found if each["impact"] in ("serious", "critical")
    ]
    assert serious == []
