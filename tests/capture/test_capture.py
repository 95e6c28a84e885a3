"""Instrumented code: the real functions, for one ``with``, on one thread, and everything put back."""

import importlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tracer.capture.instrument import PROBE, Instrumentation, instrument, live_function
from tracer.capture.recorder import Recorder
from tracer.errors import Unsupported
from tracer.source.anchors import Anchor, Table
from tracer.source.files import read
from tracer.source.patterns import Module, Pattern

SOURCE = """
import functools

def hidden(function):
    def inner(*args):
        return function(*args)
    return inner

def marked(function):
    @functools.wraps(function)
    def inner(*args):
        return function(*args)
    return inner

class Layer:
    def __init__(self, width):
        super().__init__()
        self.scale = width**-0.5

    @marked
    def forward(self, x):
        y = x * self.scale
        y += 1
        return y

    @hidden
    def secret(self, x):
        return x + 2
"""
PATTERNS = {
    "scale": ("Layer.__init__", "self.scale = HERE"),
    "product": ("Layer.forward", "y = HERE"),
    "sum": ("Layer.secret", "return HERE"),
}


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "sample_layer.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield importlib.import_module("sample_layer")
    sys.modules.pop("sample_layer", None)


def table_of(file: Path) -> Table:
    source = read("sample", "1", "sample_layer.py", file)
    parsed = Module(source.source)
    anchors = {}
    for id, (scope, pattern) in PATTERNS.items():
        (found,) = parsed.find(Pattern(pattern), scope)
        anchors[id] = Anchor(id, "file", found.span, found.scope, found.code, found.parameters, found.callee)
    return Table({"file": source}, anchors)


@pytest.fixture
def code(module: ModuleType) -> Instrumentation:
    return instrument(table_of(Path(str(module.__file__))), PATTERNS)


def test_a_probe_sees_the_value_and_changes_nothing(module: ModuleType, code: Instrumentation) -> None:
    recorder = Recorder()
    with code.swapped(recorder), recorder.during("run"):
        layer = module.Layer(4)
        result = layer.forward(3.0)
    assert result == 2.5
    assert recorder.values("scale", "run") == [0.5]
    assert recorder.values("product", "run") == [1.5]
    assert recorder.values("scale", "run")[0] is layer.scale  # the very object, so that identity can prove a path


def test_a_decorated_function_is_reached_with_and_without_wrapped(module: ModuleType, code: Instrumentation) -> None:
    recorder = Recorder()
    with code.swapped(recorder), recorder.during("run"):
        assert module.Layer(1).secret(5) == 7
    assert recorder.values("sum", "run") == [7]


def test_nothing_is_recorded_while_no_window_is_open(module: ModuleType, code: Instrumentation) -> None:
    recorder = Recorder()
    with code.swapped(recorder):
        module.Layer(4)
    assert recorder.seen == []


def test_nothing_of_another_thread_is_recorded(module: ModuleType, code: Instrumentation) -> None:
    recorder = Recorder()
    results: list[float] = []
    with code.swapped(recorder), recorder.during("run"):
        other = threading.Thread(target=lambda: results.append(module.Layer(4).forward(3.0)))
        other.start()
        other.join()
    assert results == [2.5]
    assert recorder.seen == []


def test_everything_is_put_back_also_after_an_error(module: ModuleType, code: Instrumentation) -> None:
    before = {patched.function: patched.function.__code__ for patched in code.functions}
    with pytest.raises(ZeroDivisionError), code.swapped(Recorder()):
        assert all(function.__code__ is not own for function, own in before.items())
        module.Layer(0).forward(1 / 0)
    assert all(function.__code__ is own for function, own in before.items())
    assert PROBE not in vars(module)


def test_a_second_trace_at_the_same_time_is_refused_and_the_first_goes_on(
    module: ModuleType, code: Instrumentation
) -> None:
    recorder = Recorder()
    with code.swapped(recorder), recorder.during("run"):
        with pytest.raises(Unsupported, match="Another trace is running in this process"), code.swapped(Recorder()):
            pytest.fail("two traces at once")
        assert module.Layer(4).forward(3.0) == 2.5
    assert recorder.values("product", "run") == [1.5]


def test_tensors_are_copied_because_upstream_writes_in_place() -> None:
    import torch

    recorder = Recorder()
    tensor = torch.ones(3)
    with recorder.during("run"):
        recorder.note(("x",), (tensor, {"scale": 0.5}))
    tensor.zero_()
    kept, held = recorder.values("x", "run")[0]
    assert kept.tolist() == [1, 1, 1]
    assert held == {"scale": 0.5}


def test_a_replaced_function_is_refused_because_its_lines_do_not_run(module: ModuleType) -> None:
    def replacement(self: object, x: float) -> float:
        return x

    module.Layer.forward = replacement
    with pytest.raises(Unsupported) as caught:
        instrument(table_of(Path(str(module.__file__))), PATTERNS)
    assert "sample_layer.Layer.forward does not run the code that stands in sample_layer.py" in caught.value.text()
    assert Path(__file__).name in caught.value.text()


def test_a_file_edited_after_its_import_is_refused(module: ModuleType) -> None:
    file = Path(str(module.__file__))
    file.write_text(SOURCE.replace("y = x * self.scale", "y = x * self.scale * 1"))
    with pytest.raises(Unsupported, match="does not run the code that stands in"):
        instrument(table_of(file), PATTERNS)


def test_the_live_attention_of_transformers_is_found_behind_its_decorator() -> None:
    # Public reports: inspect.getsource gave the decorator's inner function.
    module = importlib.import_module("transformers.models.qwen3.modeling_qwen3")
    function = live_function(module, "Qwen3Attention.forward")
    assert function is not None
    assert function.__code__.co_qualname == "Qwen3Attention.forward"
    line = (
        Path(function.__code__.co_filename)
        .read_text(encoding="utf-8")
        .splitlines()[function.__code__.co_firstlineno - 1]
    )
    assert line.strip().startswith(("def forward", "@"))
    assert live_function(module, "Qwen3Attention.nothing") is None


def test_a_thread_that_is_inside_probed_code_when_the_trace_ends_goes_on(
    module: ModuleType, code: Instrumentation
) -> None:
    inside, go_on = threading.Event(), threading.Event()

    class Slow(float):
        def __mul__(self, other: float) -> float:
            inside.set()
            go_on.wait(10)
            return 3.0 * other

    results: list[float] = []
    layer = module.Layer(4)
    with code.swapped(Recorder()):
        other = threading.Thread(target=lambda: results.append(layer.forward(Slow(3))))
        other.start()
        assert inside.wait(10)
    go_on.set()
    other.join(10)
    assert results == [2.5]


def test_another_thread_cannot_begin_a_trace(code: Instrumentation) -> None:
    refused: list[str] = []

    def second() -> None:
        try:
            with code.swapped(Recorder()):
                pass
        except Unsupported as error:
            refused.append(error.text())

    with code.swapped(Recorder()):
        other = threading.Thread(target=second)
        other.start()
        other.join()
    assert len(refused) == 1
