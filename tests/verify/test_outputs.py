"""What comes out: the page, JSON, JUnit XML, and the text of a failed assertion."""

import json
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from tests.verify import attentions
from tests.verify.attentions import put
from tests.verify.conftest import IDS, live_model
from tracer import data
from tracer.names import spans
from tracer.records import Status
from tracer.render import json_verify, junit
from tracer.render.terminal.render import render
from tracer.render.terminal.screen import Screen
from tracer.texts import LANGUAGES, catalogue, message
from tracer.verification.catalogue import CHECKS, CONSEQUENCES
from tracer.verification.entry import verify_checkpoint, verify_model
from tracer.verification.page import verify_page
from tracer.verification.records import Verification
from tracer.verification.review import layers_told, review


@pytest.fixture(scope="module")
def sound() -> Verification:
    return verify_checkpoint(layers=(0, 2))


@pytest.fixture(scope="module")
def broken() -> Verification:
    return verify_model(put(live_model(), attentions.HiddenScale), tokens=IDS)


def test_the_page_says_how_many_tokens_each_scenario_had(sound: Verification, broken: Verification) -> None:
    many = render(verify_page(broken, "en"), Screen(width=120))
    assert "31 tokens; the scenarios beside the plain one use the first 24 of them" in many
    assert "16 tokens\n" in render(verify_page(sound, "en"), Screen(width=120))


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_of_a_sound_model_tells_every_check_and_what_it_cost(sound: Verification, language: str) -> None:
    text = render(verify_page(sound, language), Screen(width=120))
    for outcome in sound.outcomes:
        assert outcome.check.id in text
    counted = {
        "results": len(sound.outcomes),
        "scenarios": message("verify.page_scenarios", count=len(sound.scenarios)).text(language),
    }
    rest = message("verify.page_passed_untested", count=1).text(language)  # and none in part, which is not said
    assert message("verify.page_passed", passed=43, rest=rest, **counted).text(language) in text
    assert "qwen3-tiny" in text
    assert "cpu-flash" in text


def test_the_page_of_a_broken_model_shows_place_and_change(broken: Verification) -> None:
    text = render(verify_page(broken, "en"), Screen(width=100))
    assert "self.scaling = (config.hidden_size // config.num_attention_heads) ** -0.5" in text
    assert "define it as self.head_dim**-0.5" in text
    assert f"5 of 44 checks failed ({len(broken.outcomes)} results in {len(broken.scenarios)} scenarios)" in text
    assert "layers 0–2 · heads 0–5" in text


def test_told_in_full_each_check_has_claim_measured_expected_tolerance_reason_and_place(sound: Verification) -> None:
    text = render(verify_page(sound, "en", every=True), Screen(width=160))
    check = next(o.check for o in sound.outcomes if o.check.id == "scale.effective")
    for part in (check.claim, check.measured, check.expected, check.tolerance, check.reason):
        assert part.text() in text


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("width", [60, 80, 120])
def test_at_any_width_the_table_tells_what_was_measured(sound: Verification, language: str, width: int) -> None:
    text = render(verify_page(sound, language), Screen(width=width))
    assert "0.1767766952966369" in text
    assert max(map(len, text.splitlines())) <= width
    more = message("verify.page_more").text(language)[:12]
    assert more in text
    assert more not in render(verify_page(sound, language, every=True), Screen(width=width))
    unwrapped = "".join(text.split())
    for number, scenario in enumerate(sound.scenarios, 1):
        assert "".join(f"{number} {message(f'verify.scenario_{scenario}').text(language)}".split()) in unwrapped


def test_one_of_a_thing_is_told_as_one(sound: Verification) -> None:
    window = replace(sound.windows[0], layer=1, configured=4, effective=4)
    one = replace(sound, layers=(1,), heads=(3,), tokens=(5,), windows=(window,), seconds=1.0, plain_seconds=9.0)
    text = render(verify_page(one, "en"), Screen(width=120))
    for words in ("layer 1 · head 3", "  1 token", "layer 1 sees 4 keys (config: 4 keys)", "  1.0 s\n"):
        assert words in text
    many = render(verify_page(sound, "en"), Screen(width=120))
    assert "layers 0, 2 · heads 0–7" in many
    assert "layers 0, 2 see all earlier tokens" in many
    chinese = render(verify_page(sound, "zh"), Screen(width=120))
    assert "第 0, 2 层看到所有更早的 token" in chinese


@pytest.mark.parametrize("language", LANGUAGES)
def test_json_holds_it_all_and_follows_its_schema(sound: Verification, broken: Verification, language: str) -> None:
    import jsonschema

    schema = json.loads(data.schema("trace-1").read_text(encoding="utf-8"))
    for found in (sound, broken):
        value = json.loads(json_verify.dumps(found, language))
        jsonschema.validate(value, schema)
        assert value["format"] == "verify/1"
        assert value["exit_code"] == found.exit_code
        assert {"id", "claim", "status", "measured", "expected", "tolerance", "reason", "site"} <= set(
            value["checks"][0]
        )
        assert len(value["checks"]) == len(found.outcomes)


def test_json_holds_no_path_of_this_machine(broken: Verification) -> None:
    site = next(o.check.site for o in broken.outcomes if o.check.id == "scale.static")
    assert site is not None
    text = json_verify.dumps(broken)
    assert str(site.file) not in text
    assert "/tmp/" not in text
    assert "/home/" not in text


@pytest.mark.parametrize("language", LANGUAGES)
def test_junit_xml_has_a_case_for_each_check_and_a_failure_that_says_all(broken: Verification, language: str) -> None:
    root = ElementTree.fromstring(junit.dumps(broken, language))
    cases = root.findall(".//testcase")
    assert len(cases) == len(broken.outcomes) == int(root.get("tests", "0"))
    assert int(root.get("failures", "0")) == len(root.findall(".//failure")) == len(broken.failures)
    skipped = sum(o.check.status is Status.NOT_TESTABLE for o in broken.outcomes)
    assert int(root.get("skipped", "0")) == len(root.findall(".//skipped")) == skipped
    failure = root.find(".//failure[@type='scale.static']")
    assert failure is not None
    assert "attentions.py" in (failure.text or "")
    assert "0.3535533905932738" in (failure.text or "")
    assert sum(int(suite.get("tests", "0")) for suite in root.findall("testsuite")) == len(cases)


@pytest.mark.parametrize("text", ['<b> & "quotes"', "\x00\x1b[31m", "\ud800 lone", "]]>", "喵 😀"])
def test_junit_xml_is_well_formed_whatever_a_name_holds(broken: Verification, text: str) -> None:
    hostile = replace(broken, subject=text)
    ElementTree.fromstring(junit.dumps(hostile).encode("utf-8"))


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_review_tells_the_cause_first_and_what_follows_by_name(broken: Verification, language: str) -> None:
    text = review(broken, language)
    assert text.count("[scale.") == 1  # one place, one entry
    assert "scale.value, scale.kernel" in text
    assert text.rstrip().endswith("scale.effective, kernel.output")


def test_nothing_is_said_of_what_did_not_fail(sound: Verification) -> None:
    assert review(sound) == ""


@pytest.mark.parametrize("language", LANGUAGES)
def test_printed_it_is_its_page(broken: Verification, monkeypatch: pytest.MonkeyPatch, language: str) -> None:
    monkeypatch.setenv("LC_ALL", {"en": "en_US.UTF-8", "zh": "zh_CN.UTF-8"}[language])
    monkeypatch.delenv("LANGUAGE", raising=False)
    assert str(broken) == render(verify_page(broken, language), Screen(100))
    html = broken._repr_html_()
    assert "scale.static" in html
    assert html.lstrip().startswith("<")


def test_at_the_prompt_it_is_one_line(broken: Verification) -> None:
    text = repr(broken)
    assert text.startswith("<Verification 'Qwen3ForCausalLM' layers=3 heads=6 tokens=31 kernel='sdpa' checks: ")
    assert "\n" not in text
    for status in ("fail", "pass", "not_testable"):
        assert f"{sum(o.check.status == status for o in broken.outcomes)} {status}" in text


def test_the_checks_are_at_hand_failures_first(broken: Verification) -> None:
    assert broken.checks == tuple(o.check for o in broken.outcomes)
    assert broken.checks[0].status is Status.FAIL


def test_exit_codes(sound: Verification, broken: Verification) -> None:
    assert (sound.exit_code, broken.exit_code) == (0, 1)
    untold = tuple(o for o in broken.outcomes if o.check.status is Status.NOT_TESTABLE)
    assert replace(broken, outcomes=untold).exit_code == 3
    assert replace(broken, outcomes=()).exit_code == 3


def test_every_check_has_a_claim_its_denial_and_an_advice_in_every_language() -> None:
    texts: Any = catalogue()
    for id in CHECKS:
        name = id.replace(".", "_")
        claim = texts.get(f"verify.{name}_claim") or texts.get(f"checks.{name}_claim")
        assert claim, id
        assert set(claim) >= set(LANGUAGES)
        assert set(texts[f"verify.{name}_fix"]) >= set(LANGUAGES), id
        assert set(texts[f"denials.{name}"]) >= set(LANGUAGES), id
    assert set(CHECKS) >= CONSEQUENCES


def test_runs_of_numbers_are_joined() -> None:
    assert spans([0, 1, 2, 5, 7, 8]) == "0–2, 5, 7–8"


@pytest.mark.parametrize("language", LANGUAGES)
def test_junit_tells_the_layers_in_which_a_check_that_passes_was_not_made(language: str) -> None:
    model = live_model()
    with torch.no_grad():
        model.model.layers[1].self_attn.q_norm.weight.fill_(1.0)
    found = verify_model(model, tokens=IDS, scenarios=("plain",))
    partly = [o for o in found.outcomes if o.check.status is Status.PASS and o.untested]
    assert ("norm.weights", "q") in [(o.check.id, o.part) for o in partly]
    root = ElementTree.fromstring(junit.dumps(found, language))
    cases = {case.get("name"): case.findtext("system-out") for case in root.iter("testcase")}
    told = next(text for name, text in cases.items() if name is not None and name.startswith("norm.weights (q)"))
    assert told is not None
    assert layers_told((1,), language) in told
    ((reason, layers), *_) = next(o.reasons for o in partly if o.check.id == "norm.weights")
    assert layers == (1,)
    assert reason.text(language) in told
    assert sum(text is not None for text in cases.values()) == len(partly)
