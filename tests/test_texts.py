"""Every text exists in every language, with the same blanks to fill."""

import pickle
import re
import string

import pytest

from tracer import data, texts
from tracer.page.visible import visible

BLANKS = string.Formatter()


def blanks(template: str) -> set[str]:
    return {name for _, name, _, _ in BLANKS.parse(template) if name}


@pytest.mark.parametrize("entry", sorted(texts.catalogue()))
def test_a_text_has_every_language_and_the_same_blanks_in_each(entry: str) -> None:
    by_language = texts.catalogue()[entry]
    assert set(by_language) == set(texts.LANGUAGES)
    assert all(template.strip() for template in by_language.values())
    assert len({frozenset(blanks(template)) for template in by_language.values()}) == 1


def test_no_text_holds_a_character_that_a_page_would_spell_out() -> None:
    """A no-break space in a text of the tool's own would be shown as ``\\xa0``: pages trust no text, not even these."""
    for entry, by_language in texts.catalogue().items():
        for template in by_language.values():
            for line in template.splitlines():
                assert visible(line) == line, entry


def test_a_missing_text_is_an_error_that_names_it() -> None:
    with pytest.raises(texts.MissingText, match=r"no text 'arrays\.nothing'"):
        texts.render("arrays.nothing", {}, "en")


def test_things_named_one_after_another_are_set_apart_as_each_language_does() -> None:
    said = texts.message("labs.quiz_hidden", keys=texts.Listing(("k₁", "k₂", "k₃")))
    assert said.text("en") == "hidden from this query: k₁, k₂, k₃"
    assert said.text("zh") == "对这个 query 不可见：k₁、k₂、k₃"
    assert pickle.loads(pickle.dumps(said)).text("zh") == said.text("zh")


def test_a_value_cannot_reach_into_an_object() -> None:
    with pytest.raises(KeyError):
        texts._Filler("en").vformat("{secret.__class__}", (), {"secret": 1})


# The words that both languages share, and the one Chinese word for each of the others: readers meet the same word on
# every page. Verbs and everyday words are left alone (查询过, 键盘, 关键).
_NOT_OURS = {
    "遮罩": "掩码",
    "内核": "kernel",
    "来路": "路径",
    "跟踪": "追踪",
    "保存的追踪": "保存的记录",
    "追踪文件": "记录文件",
    "查询头": "query 头",
    "键值": "key/value",
    "键/值": "key/value",
    "值向量": "value 向量",
}


def test_every_chinese_text_uses_the_same_words() -> None:
    found = [
        f"{file.name}: {word} → {ours}: {line.strip()[:60]}"
        for file in sorted((data.annotations()).rglob("*.toml"))
        for line in file.read_text(encoding="utf-8").splitlines()
        for word, ours in _NOT_OURS.items()
        if word in line
    ]
    assert not found, "\n".join(found)


def test_chinese_texts_call_a_query_a_query_a_key_a_key_and_a_mask_a_mask() -> None:
    query, key = re.compile("(?<!未)(?<!正在)查询(?!过|包)"), re.compile("(?<![按键关快捷方向建])键(?!盘|的对象| {)")
    mask = re.compile(r"[\u4e00-\u9fff] ?mask(?![\w=])|(?<![\w`{.-])mask ?[\u4e00-\u9fff]")
    found = [
        f"{file.name}: {line.strip()[:80]}"
        for file in sorted((data.annotations()).rglob("*.toml"))
        for line in file.read_text(encoding="utf-8").splitlines()
        if not line.lstrip().startswith("#")
        for pattern in (query, key, mask)
        if pattern.search(line)
    ]
    assert not found, "\n".join(found)
