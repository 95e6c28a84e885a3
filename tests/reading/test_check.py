"""`trace source --check`: what it fails on."""

import dataclasses
import hashlib
import re
from collections.abc import Callable

import pytest

from tracer.reading import catalogue, check, releases
from tracer.reading.check import Finding, check_release, path_faults, text_faults
from tracer.reading.library import Library
from tracer.reading.releases import chosen
from tracer.source import anchors
from tracer.source.files import SourceFile

PLACES = {name: frozenset(anchors.definitions(name, "reading").anchors) for name in catalogue.FRAMEWORKS}


def faults(**changed: object) -> list[str]:
    given = {
        "lessons": catalogue.lessons(),
        "formulas": catalogue.formulas(),
        "glossary": catalogue.glossary(),
        "route": catalogue.route(),
        "places": PLACES,
    }
    return [str(fault) for fault in text_faults(**{**given, **changed})]  # type: ignore[arg-type]


def lesson(**changes: object) -> dict[str, catalogue.Lesson]:
    return {**catalogue.lessons(), "kernel": dataclasses.replace(catalogue.lessons()["kernel"], **changes)}  # type: ignore[arg-type]


def test_the_texts_that_are_there_have_no_fault() -> None:
    assert faults() == []


def test_a_missing_or_empty_language_fails() -> None:
    texts = catalogue.lessons()["kernel"].texts
    assert faults(lessons=lesson(texts={"en": texts["en"]})) == ["lesson kernel has no zh text"]
    assert faults(lessons=lesson(texts={**texts, "zh": {"title": " ", "text": "x"}})) == [
        "lesson kernel has no zh text"
    ]
    assert "formula tile has no en text" in faults(formulas={**catalogue.formulas(), "tile": {"zh": "字"}})
    assert "term head has no zh text" in faults(
        glossary={**catalogue.glossary(), "head": {"en": {"name": "a", "text": "b"}}}
    )
    assert faults(route=({"en": "x", "zh": ""},)) == ["stop 1 has no zh text"]


def test_an_unknown_formula_or_place_fails() -> None:
    assert faults(lessons=lesson(formulas=("scores", "magic"))) == [
        "lesson kernel names the formula 'magic', which annotations/quick_reference.toml does not have"
    ]
    assert faults(lessons=lesson(places={"vllm": ("nowhere",)})) == [
        "lesson kernel names the place 'nowhere' of vllm, which annotations/reading/vllm.toml does not have"
    ]


def test_a_part_of_the_lesson_page_that_nothing_covers_fails() -> None:
    left = {id: each for id, each in catalogue.lessons().items() if "L17" not in each.covers}
    assert faults(lessons=left) == ["no explanation covers L17 of the lesson page"]


# ---------------------------------------------------------------------------------- places and paths of a release

Change = Callable[[str], str]


def read_changed(monkeypatch: pytest.MonkeyPatch, key: str, change: Change) -> Library:
    """transformers with one of its files changed."""
    original = releases.read

    def read(release: releases.Release, members: object) -> dict[str, SourceFile]:
        files = original(release, members)  # type: ignore[arg-type]
        source = change(files[key].source)
        assert source != files[key].source
        sha256 = hashlib.sha256(source.encode()).hexdigest()
        return {**files, key: dataclasses.replace(files[key], source=source, sha256=sha256)}

    monkeypatch.setattr(releases, "read", read)
    return Library(chosen("transformers"))


def told(findings: list[Finding]) -> str:
    return "\n".join(f"{finding.held} {finding.text}" for finding in findings)


def test_the_installed_release_holds() -> None:
    (finding,) = check_release(Library(chosen("transformers")))
    assert finding.held is True
    said = re.fullmatch(r"✓ transformers (\S+): (\d+) places, 5 paths", str(finding.text))
    assert said is not None
    assert said[1] == chosen("transformers").version
    assert int(said[2]) > 22 + 80  # those that are explained, those that runs probe, those that checks point at


def test_a_place_that_matches_nowhere_and_one_that_matches_twice_both_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(source: str) -> str:
        source = source.replace(
            "x2 = x[..., x.shape[-1] // 2 :]\n    return", "x2 = x[..., x.shape[-1] // 2 :]\n    y ="
        )
        return source.replace(
            "self.scaling = self.head_dim**-0.5",
            "self.scaling = self.head_dim**-0.5\n        self.scaling = 1",
        )

    monkeypatch.setattr(check, "path_faults", lambda library, value: [])
    findings = list(check_release(read_changed(monkeypatch, "model", change)))
    assert all(finding.held is False for finding in findings)
    assert "The place 'rotate.half' was not found" in told(findings)
    assert "The place 'scale' is not unique" in told(findings)


def test_the_places_that_runs_probe_and_checks_point_at_are_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(source: str) -> str:
        return source.replace("self.input_layernorm(hidden_states)", "self.first_norm(hidden_states)").replace(
            "q_embed = ", "q_turned = "
        )

    monkeypatch.setattr(check, "path_faults", lambda library, value: [])
    out = told(list(check_release(read_changed(monkeypatch, "model", change))))
    assert "The place 'layer.norm' was not found" in out
    assert "the place rope.q of annotations/places.toml is found by none of its forms" in out


def test_a_path_that_begins_elsewhere_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    read = read_changed(monkeypatch, "model", lambda s: s.replace("self.head_dim**-0.5", "config.hidden_size**-0.5"))
    (fault,) = path_faults(read, "scale")
    assert str(fault) == (
        "the path of scale was expected to begin at self.head_dim**-0.5 and begins at config.hidden_size**-0.5"
    )


def test_a_path_that_does_not_reach_a_definition_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    read = read_changed(monkeypatch, "model", lambda s: s.replace("self.scaling = ", "self.scalling = "))
    (fault,) = path_faults(read, "scale")
    assert "does not reach a definition" in str(fault) or "begins at" in str(fault)


def test_a_release_that_is_not_here_is_not_checked_and_says_how_to_get_it() -> None:
    (finding,) = check_release(Library(chosen("vllm")))
    assert finding.held is None
    assert "trace vendor sync vllm" in str(finding.text)
