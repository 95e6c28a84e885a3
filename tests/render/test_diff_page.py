"""The page of what differs: says where two traces part, names each difference once, in both languages and any width."""

from dataclasses import replace

import pytest

from tests.invented_trace import array, invented, site, with_array
from tracer.page.diff import diff_page
from tracer.records import LayerTrace
from tracer.render.terminal.render import render
from tracer.render.terminal.screen import Screen
from tracer.saved.diff import diff
from tracer.texts import LANGUAGES


def shown(a: LayerTrace, b: LayerTrace, language: str = "en") -> str:
    return render(diff_page(diff(a, b), language, "one", "two"), Screen())


def test_two_equal_traces() -> None:
    text = shown(invented(), invented())
    assert "✓ nothing differs" in text
    assert "same bits" in text
    assert "What was run" not in text
    assert "没有任何差别" in shown(invented(), invented(), "zh")


def test_the_first_step_that_parts_stands_at_the_top() -> None:
    a = invented()
    b = with_array(a, "v", array(a.captures["v"].array.float64() + 1))
    first, _, rest = shown(a, b).partition("\n\n")
    assert "trace diff  A one  ·  B two" in first
    assert "first step that parts: v" in first
    assert "80 of 80 differ" in rest


def test_another_prompt_shows_the_token_where_they_part() -> None:
    text = shown(invented(2), invented(4))
    assert "first step that parts: the prompt" in text
    assert "token 2, the first that differs" in text
    assert "(ended)" in text
    assert "other shape: not compared" in text


def test_versions_kernel_scale_and_source() -> None:
    a = invented()
    hops = (a.scale.hops[0], replace(a.scale.hops[1], value=0.5))
    b = replace(
        a,
        versions={**a.versions, "torch": "2.12.0"},
        scale=replace(a.scale, value=0.5, hops=hops),
        kernel=replace(
            a.kernel,
            lse=None,
            arguments={**a.kernel.arguments, "softmax_scale": 0.5},
            site=site(7, "other_function(q)", path="other.py", sha256="cd" * 32),
        ),
    )
    text = " ".join(shown(a, b).split())
    for said in (
        "torch 2.13.0 2.12.0",
        f"softmax_scale {8**-0.5!r} 0.5",
        f"scale, given to the kernel {8**-0.5!r} 0.5",
        "scale, number of hops 3 2",
        f"scale, hop 2 {8**-0.5!r} 0.5",
        "other.py — 5.24.0 cdcdcdcdcdcd",
        "kernel A modeling_qwen3.py:850:8 flash_varlen_fn(q, k, v) B other.py:7:8 other_function(q)",
        "only in A",
        "✓ every tensor that both have has the same bits",
    ):
        assert said in text


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_two_places_of_a_step_stand_one_above_the_other(language: str) -> None:
    """What is written there stands in their column, too, however long: at the margin it would look like a step."""
    from rich.cells import cell_len

    a = invented()
    code = f"other_function(q, k, v, {', '.join(f'number_{index}=index' for index in range(9))})"
    elsewhere = site(7, code, path="other.py", sha256="cd" * 32)
    hops = (a.scale.hops[0], replace(a.scale.hops[1], site=elsewhere))
    b = replace(a, kernel=replace(a.kernel, site=elsewhere), scale=replace(a.scale, hops=hops))
    rows = shown(a, b, language).splitlines()
    upper = next(index for index, row in enumerate(rows) if row.startswith(" kernel ") and "flash_varlen_fn" in row)
    column = cell_len(rows[upper].partition("modeling_qwen3.py:850:8")[0])
    assert rows[upper].split()[:2] == ["kernel", "A"]
    assert rows[upper + 1].split()[:2] == ["B", "other.py:7:8"]
    assert cell_len(rows[upper].partition(" A ")[0]) == cell_len(rows[upper + 1].partition(" B ")[0])
    assert cell_len(rows[upper + 1].partition("other.py")[0]) == column
    assert "number_8=index" not in rows[upper + 1]
    assert rows[upper + 2][: column + 1].strip() != ""
    assert rows[upper + 2][:column].strip() == ""
    hop = next(row for row in rows[upper:] if row.startswith(" scale"))
    assert cell_len(hop.partition("modeling_")[0]) == column


def test_the_same_numbers_from_other_versions() -> None:
    a = invented()
    text = shown(a, replace(a, versions={**a.versions, "torch": "2.12.0"}))
    assert "every tensor has the same bits" in text


def test_two_code_bases_are_sent_to_the_comparison_that_judges_rounding() -> None:
    a = invented()
    b = replace(a, request=replace(a.request, engine=replace(a.request.engine, value="nano-vllm")))
    assert "trace compare qwen3 --engines transformers,nano-vllm tells rounding" in " ".join(shown(a, b).split())
    assert "--engines" not in shown(a, invented(6))


def test_numbers_that_are_none_in_one_only() -> None:
    a = invented()
    values = a.captures["q"].array.float64()
    values[0, 0, 0] = float("nan")
    assert "1 of 160 differ, 1 of them NaN or ∞ in one only" in " ".join(
        shown(a, with_array(a, "q", array(values))).split()
    )


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("width", [40, 80, 200])
def test_it_fits_every_width(language: str, width: int) -> None:
    from rich.cells import cell_len

    a, b = invented(5), invented(6, "BF16", seed=3)
    b = replace(b, kernel=replace(b.kernel, site=site(7, "other_function(q, k, v, " + "x" * 90 + ")", path="other.py")))
    text = render(diff_page(diff(a, b), language), Screen(width=width))
    assert max(cell_len(row) for row in text.splitlines()) <= width
