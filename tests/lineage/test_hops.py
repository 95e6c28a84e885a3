"""Which hops of a path that is given by anchors the source itself joins: by analysis, in the files that run."""

import dataclasses
import hashlib
from pathlib import Path

import pytest

from tracer.lineage import hops
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


def linked(table: anchors.Table, value: str, way: str) -> dict[str, bool]:
    return {hop.anchor.id: hop.linked for hop in hops.path(table, DEFINED.paths[value][way])}


def test_every_hop_is_proven_but_the_function_that_is_looked_up_at_run_time(table: anchors.Table) -> None:
    assert linked(table, "scale", "flash") == {
        "scale.definition": True,
        "scale.attribute": True,  # self.scaling, same class
        "scale.flash": False,  # the attention function comes out of a table, by a key of the config
        "scale.partial": True,  # a plain call of _flash_attention_forward with softmax_scale=
        "scale.entry": True,  # through functools.partial, a global set in another function, and a partial inside it
        "kernel.keywords": True,  # the dictionary that this function returns
    }


def test_the_flag_goes_the_same_way(table: anchors.Table) -> None:
    proven = linked(table, "causal", "flash")
    assert [id for id, is_linked in proven.items() if not is_linked] == ["causal.choice"]


@pytest.mark.parametrize(("value", "way"), [("scale", "sdpa"), ("scale", "eager"), ("causal", "sdpa")])
def test_other_kernels_have_one_open_hop_too(table: anchors.Table, value: str, way: str) -> None:
    proven = linked(table, value, way)
    assert list(proven.values()).count(False) <= 1
    assert next(iter(proven.values()))


def test_a_hop_that_reads_another_name_is_not_proven() -> None:
    other = anchors.table(DEFINED, changed("model", "scaling=self.scaling,", "scaling=self.factor,"), cache=None)
    assert linked(other, "scale", "flash")["scale.attribute"] is False


def test_a_kernel_that_is_given_another_dictionary_is_not_proven() -> None:
    old = "flash_kwargs = flash_kwargs_fn(max_seqlen_q=max_length_q, max_seqlen_k=max_length_k)"
    if old not in SOURCES["flash_utils"].source:
        old = "**flash_kwargs(max_seqlen_q=max_length_q, max_seqlen_k=max_length_k)"
    new = old.replace("flash_kwargs_fn(", "dict(").replace("**flash_kwargs(", "**dict(")
    other = anchors.table(DEFINED, changed("flash_utils", old, new), cache=None)
    assert linked(other, "scale", "flash")["kernel.keywords"] is False


def test_an_answer_is_kept_and_a_damaged_one_is_never_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = anchors.table(DEFINED, SOURCES, cache=tmp_path)
    monkeypatch.setattr(hops, "_known", {})
    first = linked(table, "scale", "eager")
    (kept,) = tmp_path.glob("hops-*.json")
    kept.write_text(kept.read_text().replace("true", "false"))
    monkeypatch.setattr(hops, "_known", {})
    assert linked(table, "scale", "eager") == first


def test_a_folder_in_the_place_of_a_kept_answer_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = anchors.table(DEFINED, SOURCES, cache=tmp_path)
    monkeypatch.setattr(hops, "_known", {})
    first = linked(table, "scale", "eager")
    (kept,) = tmp_path.glob("hops-*.json")
    kept.unlink()
    kept.mkdir()
    monkeypatch.setattr(hops, "_known", {})
    assert linked(table, "scale", "eager") == first
