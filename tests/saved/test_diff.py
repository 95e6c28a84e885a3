"""What differs between two traces: each planted difference is found, where it lies, and nothing else is."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.invented_trace import array, invented, site, with_array
from tracer.arrays import Array
from tracer.compare import judge
from tracer.records import LayerTrace, Span
from tracer.result import look_at
from tracer.saved.diff import Change, diff
from tracer.saved.numbers import Status, compare, spacing
from tracer.saved.read import load
from tracer.saved.write import save


def test_a_trace_does_not_differ_from_itself() -> None:
    found = diff(invented(), invented())
    assert found.same
    assert found.first is None
    assert {tensor.status for tensor in found.tensors} == {Status.SAME}


def test_a_saved_trace_does_not_differ_from_the_live_one(tmp_path: Path) -> None:
    layer = invented(dtype="BF16")
    save(look_at(layer, 0), tmp_path / "a.safetensors")
    assert diff(layer, load(tmp_path / "a.safetensors")).same


def test_the_first_step_that_parts_goes_by_the_order_they_run_in() -> None:
    a, b = invented(), invented()
    for name in ("v", "q_proj"):
        b = with_array(b, name, array(b.captures[name].array.float64() + 1))
    found = diff(a, b)
    assert found.first == "q_proj"
    assert [tensor.name for tensor in found.tensors if tensor.status is Status.DIFFERS] == ["q_proj", "v"]
    assert not found.same


def test_another_prompt_parts_before_any_tensor() -> None:
    a, b = invented(5), invented(6)
    found = diff(a, b)
    assert (found.first, found.prompt.first, found.prompt.length_a, found.prompt.length_b) == ("prompt", 5, 5, 6)
    assert {tensor.status for tensor in found.tensors} == {Status.SHAPE}


def with_axes(layer: LayerTrace, name: str, axes: tuple[str, ...], bits: np.ndarray) -> LayerTrace:
    capture = layer.captures[name]
    turned = replace(capture, axes=axes, array=Array(capture.array.dtype, np.ascontiguousarray(bits)))
    return replace(layer, captures={**layer.captures, name: turned})


def test_a_step_that_two_code_bases_lay_out_otherwise_is_compared_number_by_number() -> None:
    a = invented()
    b = with_axes(a, "hidden", ("T", "C"), a.captures["hidden"].array.bits[0])  # no batch axis
    b = with_axes(b, "q_proj", ("T", "B", "H·D"), np.moveaxis(a.captures["q_proj"].array.bits, 1, 0))
    found = diff(a, b)
    assert found.first is None
    assert {tensor.status for tensor in found.tensors} == {Status.SAME}
    changed = with_array(b, "q_proj", array(b.captures["q_proj"].array.float64() + 1))
    assert diff(a, changed).first == "q_proj"


def test_versions_and_choices_are_named() -> None:
    a = invented()
    b = replace(a, versions={**a.versions, "torch": "2.12.0", "numpy": "2.3"})
    b = replace(b, request=replace(b.request, head=3, kernel=replace(b.request.kernel, value="eager")))
    found = diff(a, b)
    assert found.versions == (Change("torch", "2.13.0", "2.12.0"), Change("numpy", None, "2.3"))
    assert found.request == (Change("head", 2, 3), Change("kernel", "cpu-flash", "eager"))


def test_a_kernel_argument_is_named_and_one_is_not_true() -> None:
    a = invented()
    b = replace(a, kernel=replace(a.kernel, arguments={**a.kernel.arguments, "causal": 1, "window_size": (-1, -1)}))
    assert diff(a, b).kernel == (Change("arguments.causal", True, 1),)


def with_site(layer: LayerTrace, name: str, **changes: object) -> LayerTrace:
    capture = layer.captures[name]
    moved = replace(capture, site=replace(capture.site, **changes))  # type: ignore[arg-type]
    return replace(layer, captures={**layer.captures, name: moved})


def test_a_line_that_moved_and_an_expression_that_changed() -> None:
    a = invented()
    b = with_site(a, "q_proj", span=Span(246, 8, 246, 34))
    b = with_site(b, "v", code="value")
    found = diff(a, b)
    assert [(place.name, place.moved, place.rewritten) for place in found.places] == [
        ("q_proj", True, False),
        ("v", False, True),
    ]
    assert found.sources == ()


def test_a_file_that_changed() -> None:
    a = invented()
    b = replace(a, kernel=replace(a.kernel, site=site(850, "flash_varlen_fn(q, k, v)", sha256="cd" * 32, path="x.py")))
    found = diff(a, b)
    assert [(source.path, source.a is None) for source in found.sources] == [("x.py", True)]


def test_a_scale_that_changed_on_its_way() -> None:
    a = invented()
    hops = (a.scale.hops[0], replace(a.scale.hops[1], value=0.5), *a.scale.hops[2:])
    found = diff(a, replace(a, scale=replace(a.scale, hops=hops)))
    assert not found.scale.same
    assert found.causal.same
    assert not found.same


def test_what_only_one_trace_has() -> None:
    a = invented()
    b = replace(a, kernel=replace(a.kernel, lse=None))
    (lse,) = (tensor for tensor in diff(a, b).tensors if tensor.name == "lse")
    assert (lse.status, lse.b) == (Status.ONLY_A, None)
    assert diff(b, a).first is None  # nothing that both have parts
    assert not diff(b, a).same


# ----------------------------------------------------------------------------------------------- two tensors


@pytest.mark.parametrize("dtype", ["F64", "F32", "F16"])
@pytest.mark.parametrize("value", [1.0, 1.5, 3.0, 1e-3, 0.0])
def test_the_next_number_is_one_spacing_away(dtype: str, value: float) -> None:
    held = array([value], dtype)
    after = Array(dtype, np.nextafter(held.bits, np.inf, dtype=held.bits.dtype))
    found = compare("x", held, after)
    assert found.max_spacings == 1.0
    assert found.differing == 1


def test_the_next_bfloat16_is_one_spacing_away() -> None:
    for bits in (0x3F80, 0x3FFF, 0x0000, 0x0001, 0x0080, 0x4049):
        a, b = Array("BF16", np.array([bits], "<u2")), Array("BF16", np.array([bits + 1], "<u2"))
        found = compare("x", a, b).max_spacings
        # Over a power of two the larger number's spacing is the measure, half of which lies below it.
        assert found in (1.0, 0.5)


def test_two_dtypes_are_measured_in_the_coarser_one() -> None:
    exact = array([1.0, 1.0 + 2.0**-8], "F32")
    found = compare("x", exact, array([1.0, 1.0], "BF16"))
    assert (found.status, found.max_spacings, found.differing, found.at) == (Status.DIFFERS, 0.5, 1, (1,))


def test_the_largest_distance_is_found_across_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracer.saved.numbers._BLOCK", 4)
    a = np.zeros((3, 5))
    b = a.copy()
    b[0, 1], b[2, 3] = 0.5, -2.0
    found = compare("x", array(a), array(b))
    assert (found.max_abs, found.at, found.differing) == (2.0, (2, 3), 2)
    assert found.mean_abs == pytest.approx(2.5 / 15)


def test_nan_equals_the_same_nan_and_nothing_else() -> None:
    a, b = array([np.nan, 1.0, np.inf, 2.0]), array([np.nan, np.nan, -np.inf, 2.5])
    found = compare("x", a, b)
    assert (found.nonfinite, found.differing, found.max_abs) == (2, 3, 0.5)


def test_no_number_at_all_has_no_distance() -> None:
    found = compare("x", array([np.nan]), array([1.0]))
    assert (found.max_abs, found.mean_abs, found.max_spacings, found.at) == (None, None, None, None)


def test_signs_of_zero_differ_without_distance() -> None:
    found = compare("x", array([0.0]), array([-0.0]))
    assert (found.status, found.differing, found.max_abs) == (Status.DIFFERS, 1, 0.0)


def test_below_the_smallest_normal_number_the_spacing_stays() -> None:
    assert spacing("F16", 2.0**-24) == 2.0**-24
    assert spacing("F32", 0.0) == 2.0**-149


def test_spacings_are_those_at_the_largest_number_as_trace_compare_counts_them() -> None:
    a, b = array([1e-9, 100.0]), array([2e-9, 100.0])
    assert compare("x", a, b).max_spacings == judge.distance(a, b, "F32").spacings < 1e-3
