"""A saved trace beside the code: its numbers only where the very same file ran."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from reading_support import shown

from tracer import pipeline
from tracer.reading.values import Seen
from tracer.records import LayerTrace


@pytest.fixture(scope="module")
def layer(make_checkpoint: Callable[..., Path]) -> LayerTrace:
    return pipeline.trace(str(make_checkpoint()), tokens=(5, 9, 5, 9)).layer


def test_shapes_and_values_stand_under_the_expression_that_made_them(layer: LayerTrace) -> None:
    out = shown(name="qkv", layer=layer)
    assert "q_proj  [B=1, T=4, H·D=96]" in out
    assert "k_proj  [B=1, T=4, K·D=48]" in out
    assert "4 tokens." in out


def test_a_path_shows_the_value_at_each_hop_and_that_the_run_joins_what_the_source_cannot(layer: LayerTrace) -> None:
    out = shown(name="scale", layer=layer)
    assert out.count("value 0.25  the very object that reached the kernel") == 6
    assert "✓ The trace proves it: one and the same object was seen on both sides." in out


def test_the_causal_flag_has_values_and_no_identity(layer: LayerTrace) -> None:
    out = shown(name="causal", layer=layer)
    assert "value True" in out
    assert "same object" not in out
    assert "0.25" not in out  # the opened dictionary hands both on, and each page shows its own


def test_what_hands_on_several_values_shows_each_by_name(layer: LayerTrace) -> None:
    dictionary = layer.scale.hops[-1].site
    assert dictionary == layer.causal.hops[-1].site
    seen = Seen(layer)
    assert {value: hop.value for value, hop in seen.hops(dictionary).items()} == {"scale": 0.25, "causal": True}
    assert seen.hop(dictionary, "q") is None


def test_the_kernel_page_counts_the_scores_that_were_never_written(layer: LayerTrace) -> None:
    from reading_support import FLASH, files_of, library, written

    from tracer.reading import kernel_page
    from tracer.reading.library import Library
    from tracer.reading.releases import chosen
    from tracer.reading.values import Seen
    from tracer.reading.wording import Words
    from tracer.source import anchors

    kernel = library("flash-attn")
    kernel.__dict__["table"] = anchors.table(kernel.defined, files_of("flash-attn", FLASH), None)
    page = kernel_page.kernel_page(Words("en"), kernel, Library(chosen("transformers")), Seen(layer))
    assert "4 × 4 = 16 scores for each of 6 heads were never written" in " ".join(written(page).split())


def test_a_trace_of_another_file_is_not_shown_as_if_it_were_this_one(layer: LayerTrace) -> None:
    captures = {
        name: replace(capture, site=replace(capture.site, sha256="00" * 32, version="5.0.0"))
        for name, capture in layer.captures.items()
    }
    out = shown(name="qkv", layer=replace(layer, captures=captures))
    assert "the trace ran transformers 5.0.0, whose file differs from this one" in out
    assert "[B=1" not in out
