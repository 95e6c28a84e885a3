"""The installed transformers: the analysis finds the very hops that a run sees, and its lines are true."""

from pathlib import Path

import pytest

from tracer.lineage.definitions import definition, projects
from tracer.lineage.find import Reader
from tracer.lineage.result import ValuePath
from tracer.source import anchors, files

DEFINED = definition("transformers")
SOURCES = {key: files.installed("transformers", member) for key, member in DEFINED.files.items()}


@pytest.fixture(scope="module")
def reader() -> Reader:
    return Reader(DEFINED, SOURCES)


@pytest.fixture(scope="module")
def scale(reader: Reader) -> ValuePath:
    return reader.path("scale")


def test_the_scale_comes_from_head_dim_and_ends_in_the_opened_dictionary(scale: ValuePath) -> None:
    assert scale.steps[0].place.code.replace(" ", "") == "self.head_dim**-0.5"
    assert scale.steps[-1].binds in ("softmax_scale=", "**[softmax_scale]")
    assert scale.open_end is None


def test_the_scale_passes_every_expression_that_a_run_probes(scale: ValuePath) -> None:
    defined = anchors.definitions("transformers")
    table = anchors.table(defined, {k: files.installed("transformers", m) for k, m in defined.files.items()}, None)
    seen = {(step.place.file, step.place.span) for step in scale.steps}
    probed = [table.anchors[hop.anchor] for hop in defined.paths["scale"]["flash"]]
    assert {(anchor.file, anchor.span) for anchor in probed} <= seen


def test_the_causal_flag_passes_them_too(reader: Reader) -> None:
    defined = anchors.definitions("transformers")
    table = anchors.table(defined, {k: files.installed("transformers", m) for k, m in defined.files.items()}, None)
    seen = {(step.place.file, step.place.span) for step in reader.path("causal").steps}
    # the partial's is_causal is an argument on the way, as all the others are
    probed = [table.anchors[hop.anchor] for hop in defined.paths["causal"]["flash"]]
    assert {(anchor.file, anchor.span) for anchor in probed} <= seen


def test_only_the_table_of_attention_functions_is_assumed(scale: ValuePath) -> None:
    assert [why.id for step in scale.steps for why in step.why] == ["lineage.looked_up"]


@pytest.mark.parametrize(("value", "projection"), [("q", "self.q_proj("), ("k", "self.k_proj("), ("v", "self.v_proj(")])
def test_a_tensor_comes_from_the_hidden_state_through_its_own_projection(
    reader: Reader, value: str, projection: str
) -> None:
    path = reader.path(value)
    assert path.steps[0].place.code.startswith("hidden_states")
    projections = [step.place.code for step in path.steps if "_proj(" in step.place.code]
    assert projections
    assert all(projection in code for code in projections)


def test_every_line_is_the_file_s_own(scale: ValuePath) -> None:
    for step in scale.steps:
        file = SOURCES[step.place.file]
        line = Path(file.file).read_text(encoding="utf-8").split("\n")[step.place.span.line - 1]
        assert step.place.code.split("\n")[0] == line[step.place.span.column :][: len(step.place.code.split("\n")[0])]


def test_a_path_is_kept_and_a_damaged_one_is_never_believed(scale: ValuePath, tmp_path: Path) -> None:
    assert Reader(DEFINED, SOURCES, tmp_path).path("scale") == scale
    (kept,) = tmp_path.iterdir()
    again = Reader(DEFINED, SOURCES, tmp_path)
    assert again.path("scale") == scale
    assert again._slicer is None  # nothing was parsed for it
    kept.write_text(kept.read_text().replace("softmax_scale", "softmax_skale"))
    assert Reader(DEFINED, SOURCES, tmp_path).path("scale") == scale


def test_every_framework_is_defined_with_the_same_values() -> None:
    assert {name: set(definition(name).values) for name in projects()} == {
        name: {"scale", "causal", "q", "k", "v"}
        for name in ("flash-attn", "nano-vllm", "sglang", "transformers", "vllm")
    }
