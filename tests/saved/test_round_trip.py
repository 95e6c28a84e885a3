"""What is saved comes back: every field, every bit."""

from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.invented_trace import array, invented, site, with_array
from tracer.arrays import Array
from tracer.records import LayerTrace, Site, Status
from tracer.result import look_at
from tracer.saved.read import load
from tracer.saved.write import save
from tracer.texts import message


def saved(layer: LayerTrace, folder: Path) -> LayerTrace:
    save(look_at(layer, layer.request.head), folder / "trace.safetensors")
    return load(folder / "trace.safetensors")


def differences(a: Any, b: Any, where: str = "trace") -> list[str]:
    """Return where two records differ, bit by bit; a site's file on this machine is no part of it."""
    if isinstance(a, Array):
        return [] if isinstance(b, Array) and a.same_bits(b) else [where]
    if is_dataclass(a) and not hasattr(a, "text"):
        names = [f.name for f in fields(a) if not (isinstance(a, Site) and f.name == "file")]
        return [d for name in names for d in differences(getattr(a, name), getattr(b, name), f"{where}.{name}")]
    if hasattr(a, "keys"):
        if list(a) != list(b):
            return [f"{where} (keys)"]
        return [d for key in a for d in differences(a[key], b[key], f"{where}[{key}]")]
    if isinstance(a, tuple) and a and is_dataclass(a[0]):
        pairs = zip(a, b, strict=True)
        return [d for index, (x, y) in enumerate(pairs) for d in differences(x, y, f"{where}[{index}]")]
    return [] if type(a) is type(b) and a == b else [where]


@pytest.mark.parametrize("dtype", ["F32", "BF16", "F16", "F64"])
def test_every_field_and_every_bit_comes_back(dtype: str, tmp_path: Path) -> None:
    layer = invented(dtype=dtype)
    assert differences(layer, saved(layer, tmp_path)) == []


def test_numbers_that_are_none_come_back_as_the_same_bits(tmp_path: Path) -> None:
    odd = np.array(
        [0x7FC1, 0xFF80, 0x8000, 0x0001], dtype="<u2"
    )  # a NaN with a payload, -inf, -0.0, the smallest number
    layer = invented(dtype="BF16")
    bits = layer.captures["hidden"].array.bits.copy()
    bits[0, 0, :4] = odd
    layer = with_array(layer, "hidden", Array("BF16", bits))
    assert saved(layer, tmp_path).captures["hidden"].array.bits[0, 0, :4].tolist() == odd.tolist()


def test_a_trace_without_logsumexp_comes_back_without(tmp_path: Path) -> None:
    layer = invented()
    layer = replace(layer, kernel=replace(layer.kernel, lse=None))
    assert saved(layer, tmp_path).kernel.lse is None


def test_a_file_without_a_pin_comes_back_without_a_link(tmp_path: Path) -> None:
    layer = invented()
    unpinned = replace(layer.kernel, site=site(1, "f(q)", permalink=None, link_kind="none"))
    assert saved(replace(layer, kernel=unpinned), tmp_path).kernel.site.pinned is False


def test_a_pinned_file_that_differs_upstream_comes_back_pinned_and_without_a_link(tmp_path: Path) -> None:
    layer = invented()
    differs = replace(layer.kernel, site=site(1, "f(q)", permalink=None, link_kind="differs"))
    back = saved(replace(layer, kernel=differs), tmp_path).kernel.site
    assert (back.pinned, back.permalink, back.link_kind) == (True, None, "differs")


def test_infinite_and_nested_arguments_come_back(tmp_path: Path) -> None:
    layer = invented()
    given = {"softcap": float("inf"), "window_size": (-1, -1), "mask": {"shape": [1, 2], "dtype": "F32"}, "flag": False}
    back = saved(replace(layer, kernel=replace(layer.kernel, arguments=given)), tmp_path)
    assert dict(back.kernel.arguments) == given
    assert isinstance(back.kernel.arguments["window_size"], tuple)


def test_a_scale_that_is_no_number_comes_back(tmp_path: Path) -> None:
    layer = invented()
    layer = replace(layer, scale=replace(layer.scale, value=float("inf")))
    assert saved(layer, tmp_path).scale.value == float("inf")


def test_no_path_of_this_machine_is_in_the_file(tmp_path: Path) -> None:
    warning = message("checkpoint.config_default", file="/home/someone/qwen/config.json", field="head_dim", value=128)
    layer = replace(invented(), warnings=(warning,))
    back = saved(layer, tmp_path)
    assert b"someone" not in (tmp_path / "trace.safetensors").read_bytes()
    assert "config.json" in back.warnings[0].text()
    assert "someone" not in back.warnings[0].text()


def test_tensors_lie_at_multiples_of_their_item_size(tmp_path: Path) -> None:
    layer = invented(count=3)
    odd = with_array(layer, "hidden", array(layer.captures["hidden"].array.float64(), "BF16"))
    back = saved(odd, tmp_path)
    assert all(capture.array.bits.flags.aligned for capture in back.captures.values())


def test_nothing_is_left_where_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(Exception, match="no space is left"):
        save(look_at(invented(), 0), tmp_path / "trace.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_a_head_whose_eager_comparison_was_not_kept_opens_and_says_what_it_cannot_test(tmp_path: Path) -> None:
    back = saved(invented(kept=(2,)), tmp_path)
    ended = {head: {check.id: check.status for check in look_at(back, head).checks} for head in (2, 3)}
    assert ended[2]["kernel.output"] is Status.PASS
    assert ended[3]["kernel.output"] is Status.NOT_TESTABLE
    assert ended[3]["kernel.lse"] is Status.PASS
