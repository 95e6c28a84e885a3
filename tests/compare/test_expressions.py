"""What is written on both sides: every expression whole, A above B, and what changed between two versions."""

from dataclasses import replace

import pytest

from tests.compare.test_judge import step
from tests.invented_trace import invented, site
from tracer.compare.expressions import changes
from tracer.compare.page import compare_page
from tracer.compare.records import Comparison, Pair, Side
from tracer.page.record import Facts
from tracer.records import Hop, LayerTrace, Site
from tracer.render.terminal.render import render
from tracer.render.terminal.screen import Screen
from tracer.saved.diff import PlaceDiff, diff
from tracer.texts import message

LONG = "flash_varlen_fn(q, k, v, cu_seqlens_q=cu_seq_lens_q, cu_seqlens_k=cu_seq_lens_k, **flash_kwargs)"
CALLED = LONG.replace("**flash_kwargs", "**flash_kwargs(max_seqlen_q=longest)")


def comparison(a: LayerTrace, b: LayerTrace, steps: list[Pair]) -> Comparison:
    found = diff(a, b)
    return Comparison(
        Side("transformers", a), Side("transformers@5.16.1", b), "F32", tuple(steps), (), (),
        message("compare.nothing"), diff=found,
    )  # fmt: skip


def at(pair: Pair, name: str, a: Site | None, b: Site | None) -> Pair:
    return replace(pair, name=name, a=a, b=b)


@pytest.mark.parametrize(
    ("a", "b", "found"),
    [
        (LONG, CALLED, [("", "(max_seqlen_q=longest)")]),
        (LONG, LONG.replace("(q, k, v,", "(\n    q,\n    k, v,").replace("kwargs)", "kwargs,\n)"), []),
        ("a + b", "a - b", [("+", "-")]),
        ("f(x, y)", "f(x)", [(", y", "")]),
        ("x", "x", []),
    ],
    ids=str,
)
def test_what_changed_between_two_expressions(a: str, b: str, found: list[tuple[str, str]]) -> None:
    assert changes(a, b) == found


def test_layout_alone_rewrites_nothing() -> None:
    one, other = site(10, "f(x,  y)"), site(12, "f(\n    x,\n    y,\n)")
    assert PlaceDiff("q", one, other).moved
    assert not PlaceDiff("q", one, other).rewritten
    assert PlaceDiff("q", one, site(12, "f(x, z)")).rewritten
    assert PlaceDiff("q", site(1, "'a b'"), site(1, "'ab'")).rewritten


def test_versions_name_their_files_their_hops_and_what_was_added() -> None:
    a = invented()
    hops = (*a.scale.hops[:2], replace(a.scale.hops[2], site=site(850, LONG, path="flash.py")))
    a = replace(a, kernel=replace(a.kernel, site=hops[2].site), scale=replace(a.scale, hops=hops))
    moved: dict[str, str] = {"version": "5.16.1", "sha256": "cd" * 32, "path": "flash.py"}
    there: tuple[Hop, ...] = (*hops[:2], replace(hops[2], site=site(817, CALLED, **moved)))
    b = replace(a, versions={**a.versions, "transformers": "5.16.1"})
    b = replace(b, kernel=replace(b.kernel, site=site(817, CALLED, **moved)), scale=replace(b.scale, hops=there))
    text = " ".join(render(compare_page(comparison(a, b, [step(0, "q")]), "en"), Screen(width=100)).split())
    assert "One source file differs: flash.py." in text
    assert "kernel; scale, hop 3" in text
    assert f"A flash.py:850:8 {LONG} B flash.py:817:8 {CALLED}" in text
    assert "added: (max_seqlen_q=longest)" in text
    assert "scale[2]" not in text
    assert "…" not in text


@pytest.mark.parametrize("width", [60, 80, 200])
def test_at_any_width_both_expressions_stand_whole_and_aligned_a_above_b(width: int) -> None:
    pairs = [
        at(step(0, "q"), "lse", site(850, LONG), site(67, CALLED, path="attention.py")),
        at(step(0, "q"), "output", site(850, LONG), site(67, CALLED, path="attention.py")),
        at(step(0, "q"), "q_norm", site(245, "self.q_norm(x)"), None),
        at(step(0, "q"), "hidden", site(302, "hidden"), site(302, "hidden")),
    ]
    page = compare_page(comparison(invented(), invented(), pairs), "en")
    (places,) = (section for section in page.sections if section.id == "places")
    assert isinstance(places.blocks[0], Facts)
    rows = render(replace(page, sections=(places,)), Screen(width=width)).splitlines()[3:]
    starts = [row.index(f"  {side}  ") for row in rows for side in "AB" if f"  {side}  " in row]
    assert len(starts) == 4
    assert len(set(starts)) == 1
    text = " ".join(" ".join(rows).split())
    assert f"lse, output A modeling_qwen3.py:850:8 {LONG} B attention.py:67:8 {CALLED}" in text
    assert "hidden AB modeling_qwen3.py:302:8 hidden" in text
    assert "q_norm A modeling_qwen3.py:245:8 self.q_norm(x) B — no expression of its own" in text
