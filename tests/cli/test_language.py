"""Which language is spoken: the one asked for, else the locale's, else English."""

import pytest

from tracer.cli.language import asked, choose
from tracer.language import of_environment


@pytest.mark.parametrize(
    ("arguments", "language"),
    [
        (["qwen3", "--lang", "zh"], "zh"),
        (["--lang=zh", "qwen3"], "zh"),
        (["--lang", "zh", "--lang", "en"], "en"),
        (["--lang"], None),
        (["--lang", "fr"], None),
        (["--", "--lang", "zh"], None),
        (["--language", "zh"], None),
        ([], None),
    ],
)
def test_the_language_asked_for(arguments: list[str], language: str | None) -> None:
    assert asked(arguments) == language


@pytest.mark.parametrize(
    ("environ", "language"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh-Hans"}, "zh"),
        ({"LANG": "zh"}, "zh"),
        ({"LANG": "zh.UTF-8"}, "zh"),
        ({"LANG": "ZH_tw"}, "zh"),
        ({"LANG": "zha"}, "en"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({"LANG": "en_US", "LC_MESSAGES": "zh_CN"}, "zh"),
        ({"LC_ALL": "en_US", "LC_MESSAGES": "zh_CN"}, "en"),
        ({"LC_ALL": "", "LANG": "zh_CN"}, "zh"),
        ({"LANG": "en_US", "LANGUAGE": "zh_CN:en"}, "zh"),
        ({"LANG": "zh_CN", "LANGUAGE": "en"}, "en"),
        ({"LANG": "en_US", "LANGUAGE": "fr:zh"}, "zh"),
        ({"LANG": "zh_CN", "LANGUAGE": "fr"}, "zh"),
        ({"LC_ALL": "C", "LANGUAGE": "zh"}, "en"),
        ({"LC_ALL": "C.UTF-8", "LANG": "zh_CN"}, "en"),
    ],
)
def test_the_language_of_the_locale(environ: dict[str, str], language: str) -> None:
    assert of_environment(environ) == language


def test_the_locale_gives_way_to_an_encoding_that_cannot_carry_it() -> None:
    chinese = {"LANG": "zh_CN"}
    assert choose([], chinese, "utf-8") == "zh"
    assert choose([], chinese, "gbk") == "zh"
    assert choose([], chinese, "ascii") == "en"
    assert choose([], chinese, "no-such-encoding") == "en"
    assert choose(["--lang", "zh"], {}, "ascii") == "zh"
