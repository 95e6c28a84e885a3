"""Every text exists in every language, with the same blanks to fill."""

import string

import pytest

from tracer import texts

BLANKS = string.Formatter()


def blanks(template: str) -> set[str]:
    return {name for _, name, _, _ in BLANKS.parse(template) if name}


@pytest.mark.parametrize("entry", sorted(texts.catalogue()))
def test_a_text_has_every_language_and_the_same_blanks_in_each(entry: str) -> None:
    by_language = texts.catalogue()[entry]
    assert set(by_language) == set(texts.LANGUAGES)
    assert all(template.strip() for template in by_language.values())
    assert len({frozenset(blanks(template)) for template in by_language.values()}) == 1


def test_a_missing_text_is_an_error_that_names_it() -> None:
    with pytest.raises(texts.MissingText, match=r"no text 'arrays\.nothing'"):
        texts.render("arrays.nothing", {}, "en")


def test_a_value_cannot_reach_into_an_object() -> None:
    with pytest.raises(KeyError):
        texts._Filler("en").vformat("{secret.__class__}", (), {"secret": 1})
