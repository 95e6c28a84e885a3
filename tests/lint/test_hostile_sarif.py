"""SARIF and JSON of hostile file names and code: valid, whole, and nothing in them breaks out of its string."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lint.conftest import HEADER
from tests.lint.test_outputs import sarif_schema
from tracer.lint.run import lint
from tracer.lint.sarif import to_sarif
from tracer.render import json_text

NAMES = (
    "</script><script>alert(1)</script>.py".replace("/", "\u2215"),
    '"},"ruleId":"x".py',
    "\x1b]8;;http:x\x07.py",
    "\u202egnp.py",
    "javascript:alert(1).py",
    "%2e%2e%2fetc.py",
    "a\nb\r.py",
    "\udcff.py",
    "..py",
)
CODE = (
    "def f(q, k, v, attention_mask=None):\n"
    '    return flash_attn_func(q, k, v, 0.0, s["{}"], causal=attention_mask is None)\n'
)


@pytest.mark.parametrize("name", NAMES, ids=ascii)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_hostile_name_and_code_stay_inside_their_strings(name: str, language: str, tmp_path: Path) -> None:
    evil = "</script>\x1b[2J\u202e\u2028\ufeff" + "x" * 3000
    (tmp_path / name).write_text(HEADER + CODE.format(evil), encoding="utf-8")
    (tmp_path / f"broken {name}").write_text("def f(:\n")
    report = lint([tmp_path])
    assert report.findings
    text = json_text.dumps(to_sarif(report, language))
    text.encode("utf-8")
    assert not [character for character in text if ord(character) < 32 and character != "\n"]
    document: Any = json.loads(text)
    assert [error.message for error in sarif_schema().iter_errors(document)] == []
    (run,) = document["runs"]
    assert {result["ruleId"] for result in run["results"]} == {finding.rule for finding in report.findings}
    places = [result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in run["results"]]
    for place in places:
        assert place.startswith("file:///")
        assert place.isascii()
        assert not set(place) & set(' "<>\\\n\r\x1b')
