"""The file as it is written: self-contained, inert, well-formed, small, in both languages."""

import base64
import hashlib
import html.parser
import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.invented_trace import array, invented, with_array
from tests.render.html.conftest import HEAD, HOSTILE
from tracer.checks.reference import reference
from tracer.page.report import report, usual_window
from tracer.records import LayerTrace
from tracer.render.html.drawing import axes, cells
from tracer.render.html.render import render
from tracer.result import look_at
from tracer.saved.read import load

LIMIT = 1_500_000
TYPES = {"F64": "<f8", "F32": "<f4", "BF16": "<u2"}


def held(matrix: dict[str, Any]) -> np.ndarray:
    """Return a matrix of the page's data, as the very numbers it holds."""
    values = np.frombuffer(base64.b64decode(matrix["base64"]), TYPES[matrix["dtype"]])
    if matrix["dtype"] == "BF16":
        values = (values.astype("<u4") << 16).view("<f4")
    return values.astype(np.float64).reshape(matrix["rows"], matrix["columns"])


class Elements(html.parser.HTMLParser):
    """Every element of a document with its attributes, and the text of style and script elements."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": []}
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))
        self._open = tag if tag in self.inside else ""
        if self._open:
            self.inside[tag].append("")

    def handle_data(self, data: str) -> None:
        if self._open:
            self.inside[self._open][-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def attributes(self, name: str) -> list[str]:
        return [attributes[name] or "" for _, attributes in self.found if name in attributes]


@pytest.fixture(scope="module")
def elements(html: str) -> Elements:
    return Elements(html)


def test_nothing_is_asked_of_anyone(elements: Elements) -> None:
    for tag, attributes in elements.found:
        assert tag not in {"link", "img", "iframe", "object", "embed", "video", "audio", "form", "base"}
        assert not {"src", "srcset", "style", "action", "poster", "background"} & attributes.keys()
        assert not any(name.startswith("on") for name in attributes)
    for address in elements.attributes("href"):
        assert address.startswith(("#", "https://github.com/"))
    assert "@import" not in elements.inside["style"][0]
    assert "url(" not in elements.inside["style"][0]


def test_the_policy_allows_this_style_and_this_script_and_nothing_else(elements: Elements) -> None:
    policy = next(a["content"] for tag, a in elements.found if a.get("http-equiv") == "Content-Security-Policy") or ""
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    style, (data, script) = elements.inside["style"][0], elements.inside["script"]

    def allowed(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    assert rules == {
        "default-src": "'none'",
        "style-src": allowed(style),
        "script-src": allowed(script),
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert json.loads(data)["format"] == "report/2"


def test_every_link_inside_the_file_leads_somewhere_and_no_id_is_used_twice(elements: Elements) -> None:
    ids = Counter(elements.attributes("id"))
    assert [id for id, count in ids.items() if count > 1] == []
    inside = {address[1:] for address in elements.attributes("href") if address.startswith("#")}
    assert inside - ids.keys() == set()
    referred = {
        *elements.attributes("for"),
        *(id for value in elements.attributes("aria-labelledby") for id in value.split()),
    }
    assert referred - ids.keys() == set()


def test_no_path_of_this_machine_is_in_it(html: str) -> None:
    assert "/home/someone" not in html
    assert str(Path.home()) + "/" not in html


@pytest.mark.parametrize("content", HOSTILE)
def test_hostile_tokens_are_text(hostile_html: str, content: bytes) -> None:
    active = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
    assert not active.search(hostile_html)
    elements = Elements(hostile_html)
    assert len(elements.inside["script"]) == 2
    assert not any(name.startswith("on") for _, attributes in elements.found for name in attributes)
    assert "img" not in {tag for tag, _ in elements.found}
    if content.isascii() and content.isalnum():
        assert content.decode() in hostile_html


def test_what_the_tool_itself_says_has_nothing_to_spell_out(layer: LayerTrace) -> None:
    """The indices of a sum are held together where the page is drawn, not by a character in its texts."""
    for language in ("en", "zh"):
        html = render(report(look_at(layer, HEAD), language))
        assert "\\x" not in html
        assert "S[i,\N{NO-BREAK SPACE}j] = scale · Σ over d of Q[i,\N{NO-BREAK SPACE}d]" in html
        assert "S[i,\N{NO-BREAK SPACE}j] = scale · Σ（沿 d）Q[i,\N{NO-BREAK SPACE}d]" in html


def test_hostile_names_of_a_checkpoint_are_text(layer: LayerTrace) -> None:
    name = '"><script>alert(1)</script>\u202e'
    made = render(report(look_at(replace(layer, checkpoint=replace(layer.checkpoint, name=name)), HEAD), "zh"))
    assert len(Elements(made).inside["script"]) == 2
    assert "\u202e" not in made


@pytest.mark.parametrize(
    ("dtype", "width", "window"),
    [("F32", 128, 64), ("BF16", 128, 64), ("F64", 64, 64), ("F64", 128, 56), ("F32", 256, 32), ("F64", 512, 16)],
)
def test_64_tokens_stay_within_the_limit(dtype: str, width: int, window: int) -> None:
    """What does not fit is left out of a window that the page states, and counted in every sum."""
    trace = look_at(wide(66, width, dtype), HEAD)
    assert usual_window(trace) == window
    # A real run has more captures, whose source and cards take 0.1 MB more than an invented one's.
    assert len(render(report(trace, "en")).encode("utf-8")) <= LIMIT - 100_000


def wide(count: int, width: int, dtype: str) -> LayerTrace:
    """Return an invented layer of another head_dim."""
    layer = invented(count, dtype)
    random = np.random.default_rng(5)
    for name, heads in (("q", 4), ("k", 2), ("v", 2)):
        layer = with_array(layer, name, array(random.standard_normal((count, heads, width)), dtype))
    captures = {name: layer.captures[name] for name in ("hidden", "q", "k", "v")}
    layer = replace(layer, captures=captures, model=replace(layer.model, head_dim=width))
    heads = [reference(layer, head).output for head in range(4)]
    output = array(np.stack(heads, axis=1), dtype)
    return replace(layer, kernel=replace(layer.kernel, output=output), effects=replace(layer.effects, eager=output))


def test_numbers_that_are_none_are_shown_and_break_nothing(layer: LayerTrace) -> None:
    v = layer.captures["v"].array.float64().copy()
    v[3, 1, 0] = np.nan
    v[5, 1, 1] = np.inf
    made = render(report(look_at(with_array(layer, "v", array(v)), HEAD), "en"))
    assert "holds 2 numbers that are NaN or infinite" in made
    data = json.loads(Elements(made).inside["script"][0])
    values = held(data["v"])
    assert np.isnan(values[3, 0])
    assert np.isinf(values[5, 1])


def test_a_saved_trace_of_the_shipped_checkpoint_makes_one_without_a_model() -> None:
    golden = Path(__file__).parents[1] / "terminal" / "golden" / "layer-0.safetensors"
    made = render(report(look_at(load(golden), HEAD), "zh"))
    assert '<html lang="zh">' in made
    assert len(made.encode("utf-8")) < 700_000


def test_a_report_of_a_saved_trace_needs_neither_torch_nor_transformers() -> None:
    golden = Path(__file__).parents[1] / "terminal" / "golden" / "layer-0.safetensors"
    program = f"""
import sys
from pathlib import Path
from tracer.page.report import report, usual_window
from tracer.render.html.render import render
from tracer.result import look_at
from tracer.saved.read import load

render(report(look_at(load(Path({str(golden)!r})), {HEAD}), "en"))
print(sorted({{"torch", "transformers"}} & sys.modules.keys()))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_points_on_logarithmic_axes() -> None:
    drawn = axes([(4, 4), (256, 257), (64, 1.02)])
    assert drawn.decades == (1, 10, 100, 1000)
    xs, ys = [drawn.x(d) for d in (4, 16, 64, 256)], [drawn.y(value) for value in (1, 10, 100, 1000)]
    for places in (xs, ys):  # equal factors are equal steps
        steps = np.diff(places)
        assert np.allclose(steps, steps[0], atol=0.11)
    assert xs[0] == drawn.LEFT
    assert ys[0] == drawn.HEIGHT - drawn.BELOW
    assert ys[-1] > 0


def test_one_point_alone_lies_in_the_middle() -> None:
    drawn = axes([(8, 1.0)])
    assert drawn.LEFT < drawn.x(8) < drawn.WIDTH


def test_pictures_draw_hidden_cells_apart_from_weights_of_nothing() -> None:
    drawn = cells(((1.0, None, None), (0.001, 0.5, None), (-1.0, -1.0, 0.3)))
    assert drawn == {
        "h": "M1 0h2v1h-2zM2 1h1v1h-1z",
        "n": "M0 2h2v1h-2z",
        "s2": "M2 2h1v1h-1z",
        "s4": "M1 1h1v1h-1z",
        "s8": "M0 0h1v1h-1z",
    }
