"""Anchors: found by structure in the very file that is installed, once each, and never at a shifted line."""

import dataclasses
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tracer.errors import Unsupported
from tracer.source import anchors, files
from tracer.source.files import SourceFile

DEFINED = anchors.definitions("transformers")
SOURCES = {key: files.installed("transformers", member) for key, member in DEFINED.files.items()}


@pytest.fixture(scope="module")
def table() -> anchors.Table:
    return anchors.table(DEFINED, SOURCES, cache=None)


def changed(key: str, old: str, new: str) -> dict[str, SourceFile]:
    """The installed sources with one text replaced, hashed anew."""
    source = SOURCES[key].source.replace(old, new)
    assert source != SOURCES[key].source
    sha256 = hashlib.sha256(source.encode()).hexdigest()
    return {**SOURCES, key: dataclasses.replace(SOURCES[key], source=source, sha256=sha256)}


def test_every_anchor_is_found_and_its_code_stands_at_its_span(table: anchors.Table) -> None:
    assert set(table.anchors) == set(DEFINED.anchors)
    for anchor in table.anchors.values():
        assert table.files[anchor.file].text.code(anchor.span) == anchor.code


def test_every_path_names_anchors_that_exist() -> None:
    for ways in DEFINED.paths.values():
        for steps in ways.values():
            assert {step.anchor for step in steps} <= set(DEFINED.anchors)


def test_the_scale_is_where_the_attention_is_constructed(table: anchors.Table) -> None:
    site = table.site("scale.definition")
    assert (site.code, site.scope) == ("self.head_dim**-0.5", "Qwen3Attention.__init__")
    line = Path(site.file).read_text(encoding="utf-8").splitlines()[site.span.line - 1]
    assert line[site.span.column : site.span.end_column] == site.code


def test_a_pinned_file_links_upstream_and_an_unknown_one_does_not(table: anchors.Table) -> None:
    site = table.site("scale.definition")
    assert site.permalink is not None
    assert site.permalink.endswith(f"modeling_qwen3.py#L{site.span.line}")
    assert site.link_kind in ("commit", "tag")
    edited = anchors.table(DEFINED, changed("model", "import torch\n", "import torch\n\n"), cache=None)
    shifted = edited.site("scale.definition")
    assert (shifted.permalink, shifted.link_kind, shifted.pinned) == (None, "none", False)
    assert shifted.span.line == site.span.line + 1  # true for the file that is there


def test_one_more_call_above_moves_an_anchor_and_never_renames_it(table: anchors.Table) -> None:
    # Public reports of tools that number calls: one more call above, and every later label means something else.
    more = changed(
        "model", "        cos, sin = position_embeddings\n", "        f(1)\n        cos, sin = position_embeddings\n"
    )
    after = anchors.table(DEFINED, more, cache=None)
    for id, anchor in table.anchors.items():
        assert after.anchors[id].code == anchor.code
    assert after.anchors["attention.q_proj"].span == table.anchors["attention.q_proj"].span
    assert after.anchors["attention.o_proj"].span.line == table.anchors["attention.o_proj"].span.line + 1


def test_an_anchor_that_is_nowhere_says_what_was_looked_for_and_where() -> None:
    with pytest.raises(Unsupported) as caught:
        anchors.table(DEFINED, changed("model", "self.scaling = ", "self.factor = "), cache=None)
    text = caught.value.text()
    assert "'scale.definition' was not found: no expression in Qwen3Attention.__init__ of" in text
    assert "self.scaling = HERE" in text
    assert caught.value.exit_code == 3


def test_an_anchor_that_is_twice_lists_the_candidates() -> None:
    twice = changed(
        "model", "        self.is_causal = True\n", "        self.is_causal = True\n        self.is_causal = False\n"
    )
    with pytest.raises(Unsupported) as caught:
        anchors.table(DEFINED, twice, cache=None)
    text = caught.value.text()
    assert "'causal.definition' is not unique: 2 expressions" in text
    assert "215:25  True" in text or ":25  True" in text
    assert ":25  False" in text


def test_a_kept_table_is_used_and_equals_a_new_one(
    table: anchors.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    anchors.table(DEFINED, SOURCES, cache=tmp_path)
    monkeypatch.setattr(anchors, "_find_all", lambda *_: pytest.fail("the kept table was not used"))
    assert anchors.table(DEFINED, SOURCES, cache=tmp_path).anchors == table.anchors


def signed(rows: str) -> str:
    return f"{hashlib.sha256(rows.encode()).hexdigest()}\n{rows}"


def shifted(kept: str) -> str:
    rows = json.loads(kept.split("\n", 1)[1])
    rows[0]["span"]["line"] += 1
    rows[0]["span"]["end_line"] += 1
    return json.dumps(rows)


@pytest.mark.parametrize(
    "damage",
    [
        lambda kept: kept[: len(kept) // 2],
        lambda kept: kept.replace('"line": ', '"line": 1', 1),
        lambda kept: signed(shifted(kept)),
        lambda kept: signed('[{"id": 1}]'),
        lambda kept: "\xff",
    ],
    ids=["cut", "edited", "shifted", "other content", "not text"],
)
def test_a_damaged_kept_table_is_never_believed(
    table: anchors.Table, tmp_path: Path, damage: Callable[[str], str]
) -> None:
    anchors.table(DEFINED, SOURCES, cache=tmp_path)
    (kept,) = tmp_path.iterdir()
    kept.write_text(damage(kept.read_text()), encoding="latin-1")
    assert anchors.table(DEFINED, SOURCES, cache=tmp_path).anchors == table.anchors


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(table: anchors.Table, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert anchors.table(DEFINED, SOURCES, cache=tmp_path / "file" / "below").anchors == table.anchors


def test_a_folder_in_the_place_of_a_kept_table_stops_nothing(table: anchors.Table, tmp_path: Path) -> None:
    anchors.table(DEFINED, SOURCES, cache=tmp_path)
    (kept,) = tmp_path.iterdir()
    kept.unlink()
    kept.mkdir()
    assert anchors.table(DEFINED, SOURCES, cache=tmp_path).anchors == table.anchors
